package signing

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/jws"
)

// JWT returns a signed JWT in compact serialisation (RFC 7519 section 7.1). Its header has alg, typ with the value
// "JWT", and the members of header. These may replace typ. They must not include alg, crit or b64, in any case of
// letters, nor typ in another case. JWT adds no claims to claims. sign makes the signature.
//
// The values in both maps are of type string, bool, nil, json.Number, []any or map[string]any. HTML is not escaped. A
// string that is not UTF-8 is an error. The algorithms are those of package jws.
func JWT(algorithm string, header, claims map[string]any, sign func(input string) ([]byte, error)) (string, error) {
	if jws.Method(algorithm) == nil {
		return "", ErrAlgorithm
	}
	document, err := appendHeader(make([]byte, 0, 512), algorithm, header)
	if err != nil {
		return "", fmt.Errorf("JWT header: %w", err)
	}
	end := len(document)
	if document, err = strictjson.AppendValue(document, claims); err != nil {
		return "", fmt.Errorf("JWT claims: %w", err)
	}
	compact := make([]byte, 0, base64.RawURLEncoding.EncodedLen(len(document))+usualSignature)
	compact = base64.RawURLEncoding.AppendEncode(compact, document[:end])
	compact = append(compact, '.')
	compact = base64.RawURLEncoding.AppendEncode(compact, document[end:])
	signature, err := sign(string(compact))
	if err != nil {
		return "", err
	}
	return string(base64.RawURLEncoding.AppendEncode(append(compact, '.'), signature)), nil
}

// usualSignature is the length of most encoded signatures, with the points. Those of RSA are longer.
const usualSignature = 100

// appendHeader appends the JOSE header: alg, typ, then the members of header.
func appendHeader(dst []byte, algorithm string, header map[string]any) ([]byte, error) {
	for name := range header {
		// Some verifiers ignore the case of names, and would read "Alg" as "alg".
		for _, fixed := range []string{"alg", "crit", "b64"} {
			if strings.EqualFold(name, fixed) {
				return nil, fmt.Errorf("%q may not be set", fixed)
			}
		}
		if name != "typ" && strings.EqualFold(name, "typ") {
			return nil, errors.New(`"typ" may be set in lower case only`)
		}
	}
	dst = append(dst, `{"alg":"`+algorithm+`","typ":`...)
	typ, set := header["typ"]
	if !set {
		typ = "JWT"
	}
	dst, err := strictjson.AppendValue(dst, typ)
	if err != nil {
		return nil, err
	}
	if !set {
		return strictjson.AppendMembers(dst, header)
	}
	rest := maps.Clone(header)
	delete(rest, "typ")
	return strictjson.AppendMembers(dst, rest)
}

// Integers converts top-level claims with the given names from numeric strings to integers, in place. RFC 7519 requires
// numbers for exp, iat and nbf, and templates render to strings. A numeric string is an optional sign, digits, and
// optionally a point and more digits, which are cut off. Other strings and other values stay as they are, and names
// without a claim are ignored.
//
// An integer that does not fit into 64 bits is an error.
func Integers(claims map[string]any, names []string) error {
	for _, name := range names {
		text, ok := claims[name].(string)
		if !ok {
			continue
		}
		number, fraction, point := strings.Cut(text, ".")
		if point && !digits(fraction) || !digits(strings.TrimPrefix(strings.TrimPrefix(number, "-"), "+")) {
			continue
		}
		integer, err := strconv.ParseInt(number, 10, 64)
		if errors.Is(err, strconv.ErrSyntax) {
			continue // two signs
		}
		if err != nil {
			return fmt.Errorf("claim %.64q: a number of more than 64 bits", name)
		}
		var buffer [20]byte
		if canonical := strconv.AppendInt(buffer[:0], integer, 10); string(canonical) != number {
			number = string(canonical)
		}
		claims[name] = json.Number(number)
	}
	return nil
}

// digits reports whether text is one or more ASCII digits.
func digits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}
