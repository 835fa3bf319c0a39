package wycheproof

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/internal/testworld"
)

func sign(signer *signing.Signer, algorithm, text, data string) ([]byte, error) {
	key, _, err := signer.Key(algorithm, text)
	if err != nil {
		return nil, err
	}
	return key.Sign(data)
}

// The signatures of RS256, RS384 and RS512, which are deterministic, equal those of the vectors, in whatever form the
// key is. Keys under 2048 bits are refused.
func TestRSAPKCS1(t *testing.T) {
	algorithms := map[string]string{"SHA-256": "RS256", "SHA-384": "RS384", "SHA-512": "RS512"}
	signer := signing.New(100)
	signed, refused := 0, 0
	for _, name := range []string{
		"rsa_pkcs1_1024_sig_gen_test.json",
		"rsa_pkcs1_1536_sig_gen_test.json",
		"rsa_pkcs1_2048_sig_gen_test.json",
		"rsa_pkcs1_3072_sig_gen_test.json",
		"rsa_pkcs1_4096_sig_gen_test.json",
	} {
		for _, g := range read(t, name) {
			algorithm, ok := algorithms[g.SHA]
			if !ok {
				continue // SHA-1 and SHA-224, which JWS does not have
			}
			for _, v := range g.Tests {
				for form, key := range map[string]string{
					"as given": g.PEM,
					"PKCS #8":  encodePEM("PRIVATE KEY", g.PKCS8),
					"one line": strings.ReplaceAll(g.PEM, "\n", `\n`),
				} {
					signature, err := sign(signer, algorithm, key, string(v.Message))
					if g.KeySize < 2048 {
						refused++
						wantKeyError(t, err, name, v.ID)
						continue
					}
					signed++
					if err != nil || !bytes.Equal(signature, v.Sig) {
						t.Errorf("%s %d, %s: the signature differs, or %v", name, v.ID, form, err)
					}
				}
			}
		}
	}
	atLeast(t, signed, minRSASigned)
	atLeast(t, refused, minRSARefused)
}

// MAC returns the tag of the vector, and so do HS256, HS384 and HS512 if the key could be a shared secret of a
// configuration. A truncated tag equals the beginning of the result.
func TestHMAC(t *testing.T) {
	signer := signing.New(1)
	ran := 0
	for name, algorithm := range map[string]string{
		"hmac_sha256_test.json": "HS256",
		"hmac_sha384_test.json": "HS384",
		"hmac_sha512_test.json": "HS512",
	} {
		for _, g := range read(t, name) {
			for _, v := range g.Tests {
				hash, err := signing.NewMAC(algorithm, v.Key)
				if err != nil {
					t.Errorf("%s %d: err = %v", name, v.ID, err)
					continue
				}
				hash.Write(v.Message)
				mac := hash.Sum(nil)
				signature, err := sign(signer, algorithm, string(v.Key), string(v.Message))
				if err != nil {
					t.Errorf("%s %d: err = %v", name, v.ID, err)
					continue
				}
				ran++
				if !bytes.Equal(mac, signature) {
					t.Errorf("%s %d: MAC and Sign differ", name, v.ID)
				}
				if same := bytes.Equal(mac[:g.TagSize/8], v.Tag); same != (v.Result == "valid") {
					t.Errorf("%s %d, %s: the tag is equal: %t, but it is %s", name, v.ID, v.Comment, same, v.Result)
				}
			}
		}
	}
	atLeast(t, ran, minHMAC)
}

// Every valid JWS is signed again with its private key. A deterministic signature is the same, and any other verifies
// with the public key. Algorithms that the key does not fit are refused.
func TestJWS(t *testing.T) {
	signer := signing.New(100)
	ran, refused := 0, 0
	const name = "json_web_signature_test.json"
	for _, g := range read(t, name) {
		key := g.Private.text(t)
		for _, v := range g.Tests {
			algorithm, data, want, ok := compact(v.JWS)
			if !ok {
				continue // not a JWS, a vector for verifiers
			}
			signature, err := sign(signer, algorithm, key, data)
			if !fits(algorithm, g.Private) {
				refused++
				if err == nil {
					t.Errorf("%s %d: a key of type %s signs with %s", name, v.ID, g.Private.Type, algorithm)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s %d: err = %v", name, v.ID, err)
				continue
			}
			if v.Result != "valid" {
				continue
			}
			ran++
			switch algorithm[:2] {
			case "HS", "RS":
				if !bytes.Equal(signature, want) {
					t.Errorf("%s %d: the signature differs", name, v.ID)
				}
			case "ES":
				verifyES(t, &g.Private.ec(t).PublicKey, data, signature)
				verifyES(t, &g.Private.ec(t).PublicKey, data, want) // shows that verifyES is right
			case "PS":
				verifyPS(t, algorithm, &g.Private.rsa().PublicKey, data, signature)
				verifyPS(t, algorithm, &g.Private.rsa().PublicKey, data, want)
			}
		}
	}
	atLeast(t, ran, minJWS)
	atLeast(t, refused, minJWSRefused)
}

// compact returns the algorithm, the signed data and the signature of a compact JWS. ok is false if raw is not one.
func compact(raw json.RawMessage) (algorithm, data string, signature []byte, ok bool) {
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return "", "", nil, false
	}
	parts := strings.Split(text, ".")
	var decoded [3][]byte
	for i, part := range parts {
		var err error
		if decoded[i%3], err = base64.RawURLEncoding.DecodeString(part); err != nil {
			return "", "", nil, false // in vector 373, which verifiers should accept, a character is not in the alphabet
		}
	}
	var header struct {
		Algorithm string `json:"alg"`
	}
	ok = len(parts) == 3 && json.Unmarshal(decoded[0], &header) == nil
	return header.Algorithm, strings.Join(parts[:min(len(parts), 2)], "."), decoded[2], ok
}

// fits reports whether a key has the type and the curve that an algorithm needs.
func fits(algorithm string, key jwk) bool {
	switch algorithm {
	case "HS256", "HS384", "HS512":
		return key.Type == "oct"
	case "RS256", "RS384", "RS512", "PS256", "PS384", "PS512":
		return key.Type == "RSA"
	case "ES256":
		return key.Curve == "P-256"
	case "ES384":
		return key.Curve == "P-384"
	case "ES512":
		return key.Curve == "P-521"
	}
	return false
}

func digest(bits, data string) (crypto.Hash, []byte) {
	hash := map[string]crypto.Hash{"256": crypto.SHA256, "384": crypto.SHA384, "512": crypto.SHA512}[bits]
	h := hash.New()
	h.Write([]byte(data))
	return hash, h.Sum(nil)
}

func verifyES(t *testing.T, key *ecdsa.PublicKey, data string, signature []byte) {
	t.Helper()
	bits := map[int]string{256: "256", 384: "384", 521: "512"}[key.Params().BitSize]
	size := (key.Params().BitSize + 7) / 8
	if len(signature) != 2*size {
		t.Errorf("ES%s: a signature of %d bytes", bits, len(signature))
		return
	}
	r, s := new(big.Int).SetBytes(signature[:size]), new(big.Int).SetBytes(signature[size:])
	if _, sum := digest(bits, data); !ecdsa.Verify(key, sum, r, s) {
		t.Errorf("ES%s: the signature does not verify", bits)
	}
}

func verifyPS(t *testing.T, algorithm string, key *rsa.PublicKey, data string, signature []byte) {
	t.Helper()
	hash, sum := digest(algorithm[2:], data)
	options := &rsa.PSSOptions{SaltLength: rsa.PSSSaltLengthEqualsHash}
	if err := rsa.VerifyPSS(key, hash, sum, signature, options); err != nil {
		t.Errorf("%s: err = %v", algorithm, err)
	}
}

// Private EC keys in PEM, including edge cases, sign with the algorithm of their curve and with no other. Keys for key
// agreement on other curves do not sign at all.
func TestPEMKeys(t *testing.T) {
	ecAlgorithms := []string{"ES256", "ES384", "ES512"}
	signer := signing.New(100)
	signed, refused := 0, 0
	for name, fitting := range map[string]string{
		"ecdh_secp224r1_pem_test.json": "",
		"ecdh_secp256r1_pem_test.json": "ES256",
		"ecdh_secp384r1_pem_test.json": "ES384",
		"ecdh_secp521r1_pem_test.json": "ES512",
		"x25519_pem_test.json":         "",
		"x448_pem_test.json":           "",
	} {
		seen := map[string]bool{}
		for _, g := range read(t, name) {
			for _, v := range g.Tests {
				if seen[v.Private] {
					continue
				}
				seen[v.Private] = true
				for _, algorithm := range append([]string{"EdDSA", "RS256", "PS256", "HS256"}, ecAlgorithms...) {
					signature, err := sign(signer, algorithm, v.Private, string(v.Message))
					if algorithm != fitting {
						refused++
						wantKeyError(t, err, name, v.ID)
						continue
					}
					signed++
					if err != nil {
						t.Errorf("%s %d: err = %v", name, v.ID, err)
						continue
					}
					verifyES(t, publicEC(t, v.Private), string(v.Message), signature)
				}
			}
		}
	}
	atLeast(t, signed, minPEMSigned)
	atLeast(t, refused, minPEMRefused)
}

func publicEC(t *testing.T, text string) *ecdsa.PublicKey {
	t.Helper()
	block, _ := pem.Decode([]byte(text))
	key := testworld.Must(x509.ParsePKCS8PrivateKey(block.Bytes))(t)
	return &key.(*ecdsa.PrivateKey).PublicKey
}

// RSA keys of many sizes, and with three primes, sign if they have 2048 bits or more.
func TestRSAKeys(t *testing.T) {
	signer := signing.New(100)
	signed, refused := 0, 0
	for _, name := range []string{
		"rsa_oaep_misc_test.json",
		"rsa_three_primes_oaep_2048_sha1_mgf1sha1_test.json",
		"rsa_three_primes_oaep_3072_sha224_mgf1sha224_test.json",
		"rsa_three_primes_oaep_4096_sha256_mgf1sha256_test.json",
	} {
		seen := map[string]bool{}
		for _, g := range read(t, name) {
			if seen[g.PEM] {
				continue
			}
			seen[g.PEM] = true
			data := "eyJhbGciOiJQUzI1NiJ9.e30"
			signature, err := sign(signer, "PS256", g.PEM, data)
			if g.KeySize < 2048 {
				refused++
				wantKeyError(t, err, name, g.Tests[0].ID)
				continue
			}
			signed++
			if err != nil {
				t.Errorf("%s %d: err = %v", name, g.Tests[0].ID, err)
				continue
			}
			verifyPS(t, "PS256", publicRSA(t, g.PKCS8), data, signature)
		}
	}
	atLeast(t, signed, minRSAKeysSigned)
	atLeast(t, refused, minRSAKeysRefused)
}

func publicRSA(t *testing.T, der []byte) *rsa.PublicKey {
	t.Helper()
	key := testworld.Must(x509.ParsePKCS8PrivateKey(der))(t)
	return &key.(*rsa.PrivateKey).PublicKey
}

func wantKeyError(t *testing.T, err error, name string, id int) {
	t.Helper()
	var keyError *signing.KeyError
	if !errors.As(err, &keyError) {
		t.Errorf("%s %d: %v, want a KeyError", name, id, err)
	}
}
