// Package signing makes JSON Web Signatures and HMACs with keys in text form. It implements RFC 7515 (JWS), RFC 7518
// (algorithms), RFC 8037 (EdDSA) and RFC 7519 (JWT).
//
// The errors and warnings of this package contain no key, no value of a header or claim, and no signed data.
package signing

import (
	"cmp"
	"crypto"
	"crypto/fips140"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"maps"
	"regexp"
	"strconv"
	"strings"

	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/jws"
)

// ErrAlgorithm is the error for an algorithm that is not in jws.Algorithms, nor contract.SignRS1 where that is allowed. It does not
// quote the name, which may come from a secret.
var ErrAlgorithm = errors.New("unknown algorithm: use HS256, HS384, HS512, RS256, RS384, RS512, ES256, ES384, ES512, " +
	"PS256, PS384, PS512 or EdDSA, in this spelling")

// Signer signs, and keeps the keys that it has parsed or generated. It is safe for concurrent use.
type Signer struct {
	// Uses has the uses of keys beside JWS.
	Uses *Uses
	keys *lru.Cache[fingerprint, *Key]
	// generated has keys in PEM, by the hash of what they were derived from.
	generated *lru.Cache[fingerprint, string]
}

// fingerprint identifies a key. It has a hash of the text of a parsed key, so that the text itself is not kept.
type fingerprint struct {
	algorithm string
	text      [sha256.Size]byte
}

// New returns a Signer that keeps up to keys parsed keys, at least one, and as many generated ones. A key that is no longer
// used stays in memory until others displace it.
func New(keys int) *Signer {
	return &Signer{&Uses{newLRU[string, string](maxUses)}, newLRU[fingerprint, *Key](keys), newLRU[fingerprint, string](keys)}
}

func newLRU[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, _ := lru.New[K, V](max(size, 1)) // the only error is for sizes below one
	return cache
}

// rs1 implements contract.SignRS1. It is not in package jws, because no JWT is signed or verified with it.
var rs1 = &jwt.SigningMethodRSA{Name: contract.SignRS1, Hash: crypto.SHA1}

// methodOf returns the implementation of an algorithm of Signer.Key, or nil if there is none.
func methodOf(algorithm string) jwt.SigningMethod {
	if algorithm == contract.SignRS1 {
		return rs1
	}
	return jws.Method(algorithm)
}

// Key is a key for an algorithm.
type Key struct {
	method jwt.SigningMethod
	// private is the key in the type that the method signs with.
	private any
	// jwk is the public half, and Thumbprint that of it (RFC 7638). They are empty for the secret of an HMAC.
	jwk, Thumbprint string
}

// Key returns the key in a text, for an algorithm of package jws or contract.SignRS1. For HS256, HS384 and HS512, it is the bytes of the
// text. A key shorter than the hash is used, with a warning. For the others, the key is one of [ParsePrivate].
//
// The error is ErrAlgorithm, or a *KeyError if the key is wrong.
func (s *Signer) Key(algorithm, text string) (k *Key, warning string, err error) {
	method := methodOf(algorithm)
	if method == nil {
		return nil, "", ErrAlgorithm
	}
	if err := CheckFIPS(algorithm); err != nil {
		return nil, "", err
	}
	if method, ok := method.(*jwt.SigningMethodHMAC); ok {
		secret, warning, err := hmacKey(method, text)
		err = cmp.Or(err, checkLength(algorithm, secret))
		return &Key{method: method, private: secret}, warning, err // not parsed, so not kept
	}
	id := fingerprint{method.Alg(), sha256.Sum256([]byte(text))}
	if k, ok := s.keys.Get(id); ok {
		return k, "", nil
	}
	k = &Key{method: method}
	if k.private, err = privateKey(method, text); err != nil {
		return nil, "", err
	}
	if k.jwk, err = JWK(k.private.(crypto.Signer).Public()); err != nil { // a crypto.Signer, as privateKey has checked
		return nil, "", err
	}
	k.Thumbprint = Thumbprint(k.jwk)
	s.keys.Add(id, k)
	return k, "", nil
}

// Sign returns the JWS signature of data (RFC 7515 section 5.1), or its signature with contract.SignRS1. With ES256, ES384 and
// ES512 it is r and s, one after the other, of 64, 96 or 132 bytes in all (RFC 7518 section 3.4). PS256, PS384 and PS512 use a
// salt as long as the hash (section 3.5).
func (k *Key) Sign(data string) ([]byte, error) {
	signature, err := k.method.Sign(data, k.private)
	if err != nil {
		return nil, fmt.Errorf("signing with %s: %w", k.method.Alg(), err)
	}
	return signature, nil
}

// NewMAC returns an HMAC (RFC 2104): of 20 bytes for contract.MACSHA1, 32 for contract.MACSHA256, 48 for contract.MACSHA384, 64 for
// contract.MACSHA512. The key may be any bytes of any length, because the result of one MAC may be the key of the next.
//
// The error is ErrMACAlgorithm, or a *KeyError if the key is empty or blank.
func NewMAC(algorithm string, key []byte) (hash.Hash, error) {
	newHash := hashes[algorithm]
	if newHash == nil {
		return nil, ErrMACAlgorithm
	}
	if blank(string(key)) {
		return nil, &KeyError{algorithm, problemBlank}
	}
	if err := cmp.Or(CheckFIPS(algorithm), checkLength(algorithm, key)); err != nil {
		return nil, err
	}
	return hmac.New(newHash, key), nil
}

var hashes = map[string]func() hash.Hash{
	contract.MACSHA1: sha1.New, contract.MACSHA256: sha256.New, contract.MACSHA384: sha512.New384, contract.MACSHA512: sha512.New,
}

// ErrMACAlgorithm is the error for an unknown algorithm of NewMAC.
var ErrMACAlgorithm = errors.New("unknown MAC algorithm: use HS1, HS256, HS384 or HS512, in this spelling")

// JWT returns a signed JWT in compact serialisation (RFC 7519 section 7.1). Its header has alg, typ with the value
// "JWT", and the members of header. These may replace typ. They must not include alg, crit or b64, in any case of
// letters, nor typ in another case. JWT adds no claims to claims. sign makes the signature.
//
// The values in both maps are of type string, bool, nil, json.Number, []any or map[string]any. HTML is not escaped. A
// string that is not UTF-8 is an error. The algorithms are those of package jws.
func JWT(algorithm string, header, claims map[string]any, sign func(input string) ([]byte, error)) (string, error) {
	const usualSignature = 100 // the length of most encoded signatures, with the points. Those of RSA are longer
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

// appendHeader appends the JOSE header: alg, typ, then the members of header.
func appendHeader(dst []byte, algorithm string, header map[string]any) ([]byte, error) {
	if err := checkNames(header, "alg", "crit", "b64"); err != nil {
		return nil, err
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

// checkNames returns an error if a JOSE header has one of some names, in any case of letters, or typ but in lower case. Some verifiers
// ignore the case of names, and would read "Alg" as "alg".
func checkNames(header map[string]any, fixed ...string) error {
	for name := range header {
		for _, fixed := range fixed {
			if strings.EqualFold(name, fixed) {
				return fmt.Errorf("%q may not be set", fixed)
			}
		}
		if name != "typ" && strings.EqualFold(name, "typ") {
			return errors.New(`"typ" may be set in lower case only`)
		}
	}
	return nil
}

// Integers converts top-level claims with the given names from numeric strings to integers, in place. RFC 7519 requires numbers for exp,
// iat and nbf, and templates render to strings. A numeric string is an optional sign, digits, and optionally a point and more digits, which
// are cut off. Other strings and other values stay as they are, and names without a claim are ignored.
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
		claims[name] = json.Number(strconv.FormatInt(integer, 10))
	}
	return nil
}

// digits reports whether text is one or more ASCII digits.
func digits(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// CheckPurpose returns the reason why data may not be signed for a purpose, or "". It does not look into sealed values, because
// the refusal would show what they are. begin is data in front of the first of them, or all of it. An API may have chosen a
// sealed value, so begin must exclude the forms of other protocols whatever the value is.
func CheckPurpose(purpose, data, begin string) string {
	header, _, found := strings.Cut(begin, ".")
	isJWS, mayBeJWS := opensObject(header)
	switch unsafe := "may have the form of another protocol, depending on a sealed value: put plain text in front of it, such as a word and a slash"; {
	case purpose == contract.PurposeJWT:
		return `cannot be for "jwt": jwt_sign signs JWTs`
	case found && isJWS:
		return "has the form of a JWS (RFC 7515 section 5.1)"
	case len(begin) < len(data) && (!found && mayBeJWS || purpose == contract.PurposeMessage && !isSafePrefix(begin)):
		return unsafe
	}
	switch purpose {
	case contract.PurposeHTTPSignature:
		lines := strings.Split(data, "\n")
		for i, line := range lines {
			if name, ok := component(line); !ok || (name == "@signature-params") != (i == len(lines)-1) {
				return "is no signature base (RFC 9421 section 2.5)"
			}
		}
	case contract.PurposeMessage:
		switch {
		case strings.HasPrefix(begin, "SSHSIG"):
			return "has the form of an SSH signature"
		case strings.HasPrefix(begin, strings.Repeat(" ", 64)):
			return "has the form of a TLS handshake (RFC 8446 section 4.4.3)"
		case strings.Contains(data, "\"@signature-params\": "):
			return `has the form of a signature base (RFC 9421 section 2.5), which is for "http_signature"`
		}
	}
	return ""
}

// isSafePrefix reports whether no text that begins with begin can have a form that a message may not have. A signature base begins with a
// quote, a TLS handshake with spaces, and all others with characters of base64url. isJWS has looked at what is in front of a dot.
func isSafePrefix(begin string) bool {
	if strings.Trim(begin, " ") == "" || begin[0] == '"' {
		return false
	}
	header, _, found := strings.Cut(begin, ".")
	return found || strings.ContainsFunc(header, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("-_=\r\n", r) // a decoder may skip the last ones
	})
}

// component returns the name of a line of a signature base (RFC 9421 section 2.5).
func component(line string) (name string, ok bool) {
	line, quoted := strings.CutPrefix(line, `"`)
	name, rest, found := strings.Cut(line, `"`)
	return name, quoted && found && name != "" && strings.Contains(rest, ": ")
}

// opensObject reports whether the header of a JWS, which is in front of its first dot, begins a JSON object in base64url, and whether it may
// with more text behind it. What stands behind the dot may be anything (RFC 7797). Readers such as those of Python and PHP skip characters
// of no alphabet, and take those of base64. JSON may be in UTF-16, and have a byte order mark.
func opensObject(header string) (opens, canOpen bool) {
	text := strings.Map(func(r rune) rune {
		if r == '+' || r == '/' || '0' <= r && r <= '9' || 'A' <= r && r <= 'Z' || 'a' <= r && r <= 'z' {
			return r
		}
		return -1
	}, standardAlphabet.Replace(header))
	decoded, _ := base64.RawStdEncoding.DecodeString(text) // a character that is left over makes no byte
	const blank = "\x00 \t\r\n"
	document, partial := strings.TrimLeft(string(decoded), blank), false
	for _, mark := range []string{"\xef\xbb\xbf", "\xfe\xff", "\xff\xfe"} {
		partial = partial || strings.HasPrefix(mark, document)
		document = strings.TrimPrefix(document, mark)
	}
	document, open := strings.CutPrefix(strings.TrimLeft(document, blank), "{")
	document = strings.TrimLeft(document, blank)
	opens = open && strings.IndexAny(document, `"}`) == 0
	fits := len(text)%4 != 1 || strings.ContainsAny(text[len(text)-1:], "ACDIef7uv/") // with the first bits of what is wanted next
	return opens, opens || fits && (partial || document == "")
}

var standardAlphabet = strings.NewReplacer("-", "+", "_", "/")

// weak matches the names of algorithms with MD5 or SHA-1, such as md5, SHA-1, HS1 and HMAC-SHA1.
var weak = regexp.MustCompile(`(?i)^(MD5|([A-Z]+-)?SHA-?1|[HR]S1)$`)

// CheckFIPS returns an error if the process runs with GODEBUG=fips140=only, and an algorithm is not allowed then.
func CheckFIPS(algorithm string) error {
	if fips140.Enforced() && weak.MatchString(algorithm) {
		return fmt.Errorf("%s is not allowed with fips140=only: SHA-256 and longer hashes are", algorithm)
	}
	return nil
}

// checkLength returns a [*KeyError] for a key of an HMAC that is too short for fips140=only.
func checkLength(algorithm string, key []byte) error {
	const minLength = 14 // bytes, 112 bits (SP 800-131A)
	if fips140.Enforced() && len(key) < minLength {
		return &KeyError{algorithm, fmt.Sprintf("is shorter than %d bytes, which is not allowed with fips140=only", minLength)}
	}
	return nil
}
