package signing_test

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/internal/jws"
)

// indented returns a text with spaces in front of each line, as a template leaves it in YAML.
func indented(text string) string { return "    " + strings.ReplaceAll(text, "\n", "\n    ") }

// der returns the bytes of a PEM text.
func der(text string) []byte {
	block, _ := pem.Decode([]byte(text))
	return block.Bytes
}

// member returns a number as a member of a JWK (RFC 7518 section 2).
func member(n *big.Int) string { return base64.RawURLEncoding.EncodeToString(n.Bytes()) }

// jwkOf returns a private key as a JWK, with more members in place of its own.
func jwkOf(key string, more map[string]any) string {
	k, raw := keys(), base64.RawURLEncoding.EncodeToString
	var members map[string]any
	switch key {
	case "RSA":
		k.rsa2048.Precompute()
		members = map[string]any{
			"kty": "RSA", "n": member(k.rsa2048.N), "e": "AQAB", "d": member(k.rsa2048.D),
			"p": member(k.rsa2048.Primes[0]), "q": member(k.rsa2048.Primes[1]),
			"dp": member(k.rsa2048.Precomputed.Dp), "dq": member(k.rsa2048.Precomputed.Dq), "qi": member(k.rsa2048.Precomputed.Qinv),
		}
	case "EC":
		point, scalar := must(k.p256.PublicKey.Bytes()), must(k.p256.Bytes())
		members = map[string]any{"kty": "EC", "crv": "P-256", "x": raw(point[1:33]), "y": raw(point[33:]), "d": raw(scalar)}
	default:
		members = map[string]any{"kty": "OKP", "crv": "Ed25519", "x": raw(k.ed25519[32:]), "d": raw(k.ed25519[:32])}
	}
	maps.Copy(members, more)
	maps.DeleteFunc(members, func(_ string, v any) bool { return v == nil })
	return string(must(json.Marshal(members)))
}

// A private key signs in each of the forms in which people have it, and with its own algorithms only. specification.md "keys"
func TestFormsOfPrivateKeys(t *testing.T) {
	k := keys()
	raw := base64.RawURLEncoding.EncodeToString
	rsaFamily, all := []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}, jws.Algorithms()[3:]
	lines := strings.Split(pkcs1(k.rsa2048), "\n")
	tests := []struct {
		name, key string
		signs     []string
	}{
		{"PEM with spaces for line breaks", strings.ReplaceAll(pkcs8(k.rsa2048), "\n", " "), rsaFamily},
		{"PEM without line breaks", strings.ReplaceAll(sec1(k.p256), "\n", ""), []string{"ES256"}},
		{"PEM with tabs for line breaks", strings.ReplaceAll(pkcs8(k.p384), "\n", "\t"), []string{"ES384"}},
		{"PEM that is indented", indented(pkcs8(k.rsa2048)), rsaFamily},
		{"PEM in double quotes, escaped", `"` + oneLine(pkcs8(k.p256)) + `"`, []string{"ES256"}},
		{"PEM in single quotes", "'" + pkcs8(k.p256) + "'", []string{"ES256"}},
		{"PEM that is escaped twice", strings.ReplaceAll(pkcs8(k.rsa2048), "\n", `\\n`), rsaFamily},
		{"PEM that is escaped twice, with CR", strings.ReplaceAll(pkcs8(k.rsa2048), "\n", `\\r\\n`), rsaFamily},
		{"PEM with a byte order mark", "\ufeff" + pkcs8(k.ed25519), []string{"EdDSA"}},
		{"PEM with carriage returns alone", strings.ReplaceAll(pkcs8(k.rsa2048), "\n", "\r"), rsaFamily},
		{"PEM after its parameters, without line breaks", strings.ReplaceAll(encodePEM("EC PARAMETERS", []byte{6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7})+sec1(k.p256), "\n", ""), []string{"ES256"}},

		{"PKCS #8 in Base64", base64.StdEncoding.EncodeToString(der(pkcs8(k.rsa2048))), rsaFamily},
		{"PKCS #8 in base64url", raw(der(pkcs8(k.p521))), []string{"ES512"}},
		{"PKCS #1 in Base64 with line breaks", strings.Join(lines[1:len(lines)-2], "\n"), rsaFamily},
		{"SEC 1 in Base64 and quotes", `"` + base64.StdEncoding.EncodeToString(der(sec1(k.p256))) + `"`, []string{"ES256"}},
		{"seed of Ed25519 in Base64", base64.StdEncoding.EncodeToString(k.ed25519[:32]), []string{"EdDSA"}},
		{"seed and public key of Ed25519 in base64url", raw(k.ed25519), []string{"EdDSA"}},

		{"JWK, RSA", jwkOf("RSA", nil), rsaFamily},
		{"JWK, RSA, for an algorithm", jwkOf("RSA", map[string]any{"alg": "PS384", "use": "sig", "kid": "1"}), []string{"PS384"}},
		{"JWK, EC", jwkOf("EC", map[string]any{"key_ops": []string{"sign"}, "x5c": []string{"AA=="}}), []string{"ES256"}},
		{"JWK, Ed25519", "\ufeff\n" + jwkOf("OKP", nil), []string{"EdDSA"}},
		{"JWK, Ed25519, as RFC 9864 names it", jwkOf("OKP", map[string]any{"alg": "Ed25519"}), []string{"EdDSA"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for _, algorithm := range all {
				signature, _, err := signing.New(1).Sign(algorithm, test.key, "x")
				if signs := err == nil && len(signature) > 0; signs != slices.Contains(test.signs, algorithm) {
					t.Errorf("with %s: signs %v, error %v", algorithm, signs, err)
				}
			}
		})
	}
}

// A key that cannot be used is refused with the reason: it is encrypted, public, a certificate, damaged at a line, for another
// use, or its members do not fit. Nothing of it is in the error (threats.md 350).
func TestKeyErrors(t *testing.T) {
	k := keys()
	standard := base64.StdEncoding.EncodeToString
	lines := strings.SplitAfter(pkcs8(k.rsa2048), "\n")
	edited := func(line int, edit func(string) string) string {
		all := slices.Clone(lines)
		all[line-1] = edit(all[line-1])
		return strings.Join(all, "")
	}
	encrypted := must(asn1.Marshal(struct { // PBES2, as openssl pkcs8 -topk8 writes it
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}{pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}}, randomBytes(64)}))
	other := append(slices.Clone(k.ed25519[:32]), keys().ed25519[:32]...)
	tests := []struct {
		name, algorithm, key, problem string
	}{
		{"letter lost in a line", "RS256", edited(7, func(l string) string { return l[1:] }), "is damaged PEM, in line 7"},
		{"letter changed", "RS256", edited(9, func(l string) string { return "ü" + l[2:] }), "is damaged PEM, in line 9"},
		{"letter changed, indented", "RS256", indented(edited(9, func(l string) string { return "?" + l[1:] })), "is damaged PEM, in line 9"},
		{"letter changed, escaped", "RS256", oneLine(edited(9, func(l string) string { return "?" + l[1:] })), "is damaged PEM, in line 9"},
		{"line lost", "RS256", edited(5, func(string) string { return "" }), "is damaged PEM: some of it is missing"},
		{"end lost", "RS256", strings.Join(lines[:9], ""), "is damaged PEM: the block that begins in line 1 has no end"},
		{"end of another type", "RS256", strings.Replace(pkcs8(k.rsa2048), "END PRIVATE", "END PUBLIC", 1), "is damaged PEM: the block that begins in line 1 has no end"},

		{"encrypted, in Base64", "ES256", standard(encrypted), "is encrypted"},
		{"public, in Base64", "RS256", standard(der(publicKey(k.rsa2048.Public()))), "is a public key"},
		{"certificate, in Base64", "RS256", standard(der(certificate(k.rsa2048))), "is a certificate"},
		{"public, called private", "RS256", strings.ReplaceAll(publicKey(k.rsa2048.Public()), "PUBLIC", "PRIVATE"), "is a public key"},
		{"cut off, in Base64", "RS256", standard(der(pkcs8(k.rsa2048)))[:800], "is not PEM"},
		{"with more behind it, in Base64", "RS256", standard(append(der(pkcs8(k.rsa2048)), 0)), "is not PEM"},
		{"both alphabets", "RS256", "-" + standard(der(pkcs8(k.rsa2048)))[1:700] + "+/", "is not PEM"},
		{"seed of Ed25519 for RSA", "RS256", standard(k.ed25519[:32]), "is not PEM"},
		{"RSA in Base64 for EC", "ES256", standard(der(pkcs8(k.rsa2048))), "is an RSA key: an EC key on P-256 is needed"},
		{"31 bytes for Ed25519", "EdDSA", standard(k.ed25519[:31]), "is not PEM"},
		{"64 bytes whose second half is no public key", "EdDSA", standard(other), "its second half is not the public key"},

		{"JWK that is damaged", "ES256", jwkOf("EC", nil)[:60], "begins with { and is no JWK"},
		{"JWK with a member twice", "ES256", strings.Replace(jwkOf("EC", nil), "{", `{"d":"AA",`, 1), "begins with { and is no JWK"},
		{"key file", "RS256", `{"type":"service_account","private_key":"` + oneLine(pkcs8(k.rsa2048)) + `"}`, "is JSON without kty"},
		{"set of keys", "ES256", `{"keys":[` + jwkOf("EC", nil) + `]}`, "is JSON without kty"},
		{"JWK that is public", "ES256", jwkOf("EC", map[string]any{"d": nil}), "is a public key"},
		{"JWK that is a shared secret", "ES256", `{"kty":"oct","k":"AA"}`, "is a shared secret"},
		{"JWK for encryption", "ES256", jwkOf("EC", map[string]any{"use": "enc"}), "is not for signing"},
		{"JWK that may verify", "ES256", jwkOf("EC", map[string]any{"key_ops": []string{"verify"}}), "is not for signing"},
		{"JWK for another algorithm", "RS256", jwkOf("RSA", map[string]any{"alg": "RS512"}), "is a JWK for another algorithm"},
		{"JWK, EC with another's public half", "ES256", jwkOf("EC", map[string]any{"x": member(k.p384.X)}), "do not fit each other"},
		{"JWK, Ed25519 with another's public half", "EdDSA", jwkOf("OKP", map[string]any{"x": standard(make([]byte, 33))}), "do not fit each other"},
		{"JWK, RSA with another exponent", "RS256", jwkOf("RSA", map[string]any{"dp": "AQAB"}), "is damaged, or of an unknown kind"},
		{"JWK, RSA with another modulus", "RS256", jwkOf("RSA", map[string]any{"n": member(k.rsa3072.N)}), "is damaged, or of an unknown kind"},
		{"JWK, RSA without primes", "RS256", jwkOf("RSA", map[string]any{"p": nil}), "lacks p, q, dp, dq or qi"},
		{"JWK on another curve", "ES256", jwkOf("EC", map[string]any{"crv": "secp256k1"}), "or of an unknown kind"},
		{"JWK of another kind", "ES256", `{"kty":"AKP","d":"AA"}`, "or of an unknown kind"},
		{"JWK, RSA of 8,193 bits", "RS256", jwkOf("RSA", map[string]any{"n": member(new(big.Int).Lsh(big.NewInt(1), 8192))}), "is an RSA key of 8193 bits"},
		{"JWK of 16 KiB", "RS256", jwkOf("RSA", map[string]any{"x5c": strings.Repeat("A", 16<<10)}), "is longer than 16384 bytes"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := signing.New(1).Sign(test.algorithm, test.key, "x")
			if err == nil || !strings.Contains(err.Error(), test.problem) {
				t.Fatalf("the error is %v, want %q", err, test.problem)
			}
			if leaks(err.Error(), test.key) {
				t.Errorf("the error holds some of the key: %v", err)
			}
		})
	}
}

// A certificate is read in the same forms as a key.
func TestFormsOfCertificates(t *testing.T) {
	text := certificate(keys().rsa2048)
	for name, form := range map[string]string{
		"spaces": strings.ReplaceAll(text, "\n", " "), "none": strings.ReplaceAll(text, "\n", ""), "indented": indented(text), "escaped": oneLine(text),
	} {
		if chain, err := signing.Certificates(form + "\n" + form); err != nil || len(chain) != 2 {
			t.Errorf("with line breaks %s: %d certificates, %v", name, len(chain), err)
		}
	}
	_, err := signing.Certificates(text[:200] + "?" + text[201:])
	if err == nil || err.Error() != "is damaged PEM, in line 4: copy the whole text again" {
		t.Errorf("a damaged certificate: %v", err)
	}
}
