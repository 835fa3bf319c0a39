package wycheproof

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// jwk is a private JSON Web Key (RFC 7517) of a type that can sign.
type jwk struct {
	Type  string `json:"kty"`
	Curve string `json:"crv"`
	K     b64    `json:"k"` // the shared secret
	N     b64    `json:"n"`
	E     b64    `json:"e"`
	D     b64    `json:"d"` // the private exponent of RSA, or the private key of EC
	P     b64    `json:"p"`
	Q     b64    `json:"q"`
}

// b64 is bytes that JSON has in base64url.
type b64 []byte

func (b *b64) UnmarshalText(text []byte) error {
	decoded, err := base64.RawURLEncoding.DecodeString(string(text))
	*b = decoded
	return err
}

func (b b64) integer() *big.Int { return new(big.Int).SetBytes(b) }

// text returns the key as it is in a connector's configuration: the shared secret itself, or PKCS #8 in PEM.
func (k jwk) text(t *testing.T) string {
	t.Helper()
	switch k.Type {
	case "oct":
		return string(k.K)
	case "RSA":
		return pkcs8(t, k.rsa())
	case "EC":
		return pkcs8(t, k.ec(t))
	}
	t.Fatalf("unknown key type %q", k.Type)
	return ""
}

func (k jwk) rsa() *rsa.PrivateKey {
	return &rsa.PrivateKey{
		PublicKey: rsa.PublicKey{N: k.N.integer(), E: int(k.E.integer().Int64())},
		D:         k.D.integer(),
		Primes:    []*big.Int{k.P.integer(), k.Q.integer()},
	}
}

func (k jwk) ec(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	curves := map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()}
	return testworld.Must(ecdsa.ParseRawPrivateKey(curves[k.Curve], k.D))(t)
}

func pkcs8(t *testing.T, key any) string {
	t.Helper()
	der := testworld.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	return encodePEM("PRIVATE KEY", der)
}

func encodePEM(blockType string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: der}))
}
