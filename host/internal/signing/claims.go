package signing

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Integers turns top-level claims that are numeric strings into integers, in place: an optional sign, digits, and
// optionally a point and more digits, which are cut off. Names that claims does not have, other strings and other
// values are left as they are. RFC 7519 wants numbers for exp, iat and nbf, and templates render to strings.
//
// A number beyond 64 bits is an error.
func Integers(claims map[string]any, names []string) error {
	for _, name := range names {
		text, ok := claims[name].(string)
		if !ok {
			continue
		}
		whole, fraction, point := strings.Cut(text, ".")
		if point && !digits(fraction) || !digits(strings.TrimPrefix(strings.TrimPrefix(whole, "-"), "+")) {
			continue
		}
		integer, err := strconv.ParseInt(whole, 10, 64)
		if errors.Is(err, strconv.ErrSyntax) {
			continue // two signs
		}
		if err != nil {
			return fmt.Errorf("claim %.64q: a number of more than 64 bits", name)
		}
		claims[name] = json.Number(strconv.FormatInt(integer, 10))
	}
	return nil
}

// digits tells whether text is one or more ASCII digits.
func digits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// appendHeader appends the JOSE header: alg, typ, then the members of header.
func appendHeader(dst []byte, algorithm string, header map[string]any) ([]byte, error) {
	members := map[string]any{"typ": "JWT"}
	for name, value := range header {
		// Some verifiers match names without regard to case, so that "Alg" would be "alg" to them.
		for _, fixed := range []string{"alg", "crit", "b64"} {
			if strings.EqualFold(name, fixed) {
				return nil, fmt.Errorf("%q may not be set", fixed)
			}
		}
		members[name] = value
	}
	dst = append(dst, `{"alg":"`+algorithm+`","typ":`...)
	dst, err := appendValue(dst, members["typ"])
	if err != nil {
		return nil, err
	}
	delete(members, "typ")
	return appendMembers(dst, members)
}

// appendObject appends a JSON object. Its members are in the order of their names, so that equal claims give an equal
// token.
func appendObject(dst []byte, object map[string]any) ([]byte, error) {
	return appendMembers(append(dst, '{'), object)
}

// appendMembers appends members and the closing brace to an object that has been begun.
func appendMembers(dst []byte, members map[string]any) ([]byte, error) {
	names := slices.AppendSeq(make([]string, 0, len(members)), maps.Keys(members))
	slices.Sort(names)
	var err error
	for _, name := range names {
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		if dst, err = appendString(dst, name); err != nil {
			return nil, err
		}
		dst = append(dst, ':')
		if dst, err = appendValue(dst, members[name]); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendValue(dst []byte, value any) ([]byte, error) {
	switch value := value.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, value), nil
	case string:
		return appendString(dst, value)
	case json.Number:
		if number := jsontext.Value(value); number.Kind() != '0' || !number.IsValid() {
			return nil, errors.New("a number is not JSON")
		}
		return append(dst, value...), nil
	case []any:
		return appendArray(dst, value)
	case map[string]any:
		return appendObject(dst, value)
	}
	return nil, fmt.Errorf("a value has the type %T, which JSON does not have", value)
}

func appendArray(dst []byte, array []any) ([]byte, error) {
	var err error
	dst = append(dst, '[')
	for i, value := range array {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendValue(dst, value); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func appendString(dst []byte, text string) ([]byte, error) {
	dst, err := jsontext.AppendQuote(dst, text)
	if err != nil {
		return nil, errors.New("a string is not UTF-8") // the error of jsontext is not kept: it may quote
	}
	return dst, nil
}
