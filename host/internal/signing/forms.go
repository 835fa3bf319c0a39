package signing

import (
	"bytes"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/x509"
	"encoding/asn1"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/keywright/keywright/host/internal/strictjson"
)

// begin, end and dashes are parts of the lines around a block of PEM.
const begin, end, dashes = "-----BEGIN ", "-----END ", "-----"

// lineBreaks replaces the ways in which shells, panels and JSON write line breaks. Some escape them twice.
var lineBreaks = strings.NewReplacer("\r\n", "\n", "\r", "\n", `\\r`, "", `\\n`, "\n", `\r`, "", `\n`, "\n")

// PEM returns the blocks of a PEM text (RFC 7468), in order. It also reads what environment variables, forms and Helm leave of
// one: with a byte order mark, in quotes, indented, and with line breaks that are escaped, are spaces, or are lost. Otherwise,
// problem says what is wrong, and where.
func PEM(text string) (blocks []*pem.Block, problem string) {
	text = lineBreaks.Replace(text)
	for offset := 0; ; {
		first := strings.Index(text[offset:], begin)
		if first < 0 {
			return blocks, ""
		}
		offset += first + len(begin)
		label, rest, ok := strings.Cut(text[offset:], dashes)
		body, tail, closed := strings.Cut(rest, end+label+dashes)
		if !ok || !closed || strings.Contains(body, begin) {
			return nil, fmt.Sprintf("is damaged PEM: the block that begins in line %d has no end: copy the whole text again", lineOf(text, offset))
		}
		start := len(text) - len(rest)
		block := &pem.Block{Type: label, Headers: map[string]string{}}
		if problem = decodePEM(block, text, start, start+len(body)); problem != "" {
			return nil, problem
		}
		blocks, offset = append(blocks, block), len(text)-len(tail)
	}
}

// decodePEM sets the headers (RFC 1421 section 4.6) and the bytes of a block, whose body is text[start:stop].
func decodePEM(block *pem.Block, text string, start, stop int) (problem string) {
	for {
		line, _, _ := strings.Cut(strings.TrimLeft(text[start:stop], " \t\n"), "\n")
		name, value, found := strings.Cut(line, ":")
		if !found {
			break
		}
		block.Headers[name] = value
		start += strings.Index(text[start:stop], line) + len(line)
	}
	if strings.Contains(block.Headers["Proc-Type"], "ENCRYPTED") {
		return ""
	}
	body := text[start:stop]
	der, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(body), ""))
	block.Bytes = der
	var corrupt base64.CorruptInputError
	switch {
	case err == nil && (lengthOf(der) > 0 || blockProblem(block) != ""):
		return ""
	case shortLine(body) > 0:
		start += shortLine(body)
	case errors.As(err, &corrupt) && offsetOf(body, int(corrupt)) < len(body):
		start += offsetOf(body, int(corrupt))
	default:
		return "is damaged PEM: some of it is missing: copy the whole text again"
	}
	return fmt.Sprintf("is damaged PEM, in line %d: copy the whole text again", lineOf(text, start))
}

// lineOf returns the number of the line of text[offset], from 1.
func lineOf(text string, offset int) int { return 1 + strings.Count(text[:offset], "\n") }

// offsetOf returns the index of byte n of a text without its white space, in the text itself.
func offsetOf(text string, n int) int {
	for i, r := range text {
		if !unicode.IsSpace(r) {
			if n -= utf8.RuneLen(r); n < 0 {
				return i
			}
		}
	}
	return len(text)
}

// shortLine returns the index of the first line shorter than others, or 0. Lines of PEM but the last are equally long (RFC 7468 section 2).
func shortLine(body string) (offset int) {
	lines, longest := strings.Split(strings.TrimSpace(body), "\n"), 0
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
		longest = max(longest, len(lines[i]))
	}
	for _, line := range lines[:len(lines)-1] {
		if len(line) < longest {
			return strings.Index(body, line)
		}
	}
	return 0
}

// lengthOf returns the length of the value of ASN.1 at the beginning of der, or 0 if there is none, or only a part of one.
func lengthOf(der []byte) int {
	var value asn1.RawValue
	if _, err := asn1.Unmarshal(der, &value); err != nil {
		return 0
	}
	return len(value.FullBytes)
}

// privateJWK has the members of a private key as a JWK: RFC 7517 section 4, RFC 7518 sections 6.2 and 6.3, RFC 8037 section 2.
type privateJWK struct {
	Kty    string   `json:"kty"`
	Use    string   `json:"use"`
	KeyOps []string `json:"key_ops"`
	Alg    string   `json:"alg"`
	Crv    string   `json:"crv"`
	X      octets   `json:"x"`
	Y      octets   `json:"y"`
	D      octets   `json:"d"`
	N      octets   `json:"n"`
	E      octets   `json:"e"`
	P      octets   `json:"p"`
	Q      octets   `json:"q"`
	DP     octets   `json:"dp"`
	DQ     octets   `json:"dq"`
	QI     octets   `json:"qi"`
	Oth    any      `json:"oth"`
}

// octets are bytes that JSON has in base64url.
type octets []byte

func (o *octets) UnmarshalText(text []byte) (err error) {
	*o, err = base64.RawURLEncoding.Strict().DecodeString(string(text))
	return err
}

// jwkDER returns the private key of a JWK in PKCS #8 or PKCS #1. algorithm is the one that the key is for, or "".
func jwkDER(text, algorithm string) (der []byte, problem string) {
	var k privateJWK
	err := strictjson.UnmarshalOpen([]byte(text), &k)
	switch {
	case err != nil:
		return nil, "begins with { and is no JWK that can be read: copy all of it"
	case k.Kty == "":
		return nil, "is JSON without kty, so no JWK: of a set of keys or a key file, store the private key alone"
	case k.Kty == "oct":
		return nil, "is a shared secret (kty oct): the private key is needed"
	case k.D == nil:
		return nil, problemPublic
	case k.Use != "" && k.Use != "sig", k.KeyOps != nil && !slices.Contains(k.KeyOps, "sign"):
		return nil, "is a JWK that is not for signing, by its use or key_ops: another key is needed"
	case k.Alg != "" && algorithm != "" && k.Alg != algorithm && (k.Alg != "Ed25519" || algorithm != "EdDSA"): // RFC 9864 section 2.2
		return nil, "is a JWK for another algorithm, by its alg: set that one, or take another key"
	}
	switch k.Kty {
	case "RSA":
		return k.rsa()
	case "EC", "OKP":
		key := k.curve()
		if der, err = x509.MarshalPKCS8PrivateKey(key); err == nil {
			return der, ""
		}
	}
	return nil, "is a JWK whose members do not fit each other, or of an unknown kind: RSA, EC on P-256, P-384 or P-521, and Ed25519 are known"
}

// rsa returns an RSA key in PKCS #1 (RFC 8017 appendix A.1.2). Its parser checks whether the members fit each other.
func (k *privateJWK) rsa() (der []byte, problem string) {
	if k.P == nil || k.Q == nil || k.DP == nil || k.DQ == nil || k.QI == nil || k.Oth != nil {
		return nil, "is an RSA key as a JWK that lacks p, q, dp, dq or qi, or has oth: convert it to PKCS #8"
	}
	n := func(o octets) *big.Int { return new(big.Int).SetBytes(o) }
	der, _ = asn1.Marshal(struct { // numbers have an encoding
		Version                     int
		N, E, D, P, Q, Dp, Dq, Qinv *big.Int
	}{0, n(k.N), n(k.E), n(k.D), n(k.P), n(k.Q), n(k.DP), n(k.DQ), n(k.QI)})
	return der, ""
}

// curve returns an EC, Ed25519 or X25519 key, or nil if the private member does not fit the public ones.
func (k *privateJWK) curve() any {
	var key any
	var public []byte
	curves := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}
	switch curve := curves[k.Crv]; {
	case k.Kty == "EC" && curve != nil:
		private, err := ecdsa.ParseRawPrivateKey(curve, k.D)
		if err != nil {
			return nil
		}
		public, _ = private.PublicKey.Bytes()
		key, public = private, public[1:] // without the 4 in front of x and y
	case k.Kty == "OKP" && k.Crv == "Ed25519" && len(k.D) == ed25519.SeedSize:
		private := ed25519.NewKeyFromSeed(k.D)
		key, public = private, private[ed25519.SeedSize:]
	case k.Kty == "OKP" && k.Crv == "X25519":
		private, err := ecdh.X25519().NewPrivateKey(k.D)
		if err != nil {
			return nil
		}
		key, public = private, private.PublicKey().Bytes()
	}
	if !bytes.Equal(public, slices.Concat(k.X, k.Y)) {
		return nil
	}
	return key
}
