package hosttest

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"sync"

	"github.com/keywright/keywright/internal/testworld"
)

// rsaKey returns the RSA key of the process. Making a key takes longer than a test.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// Key sets a secret of the host to a new signing key for a JWS algorithm. It returns the key that verifies signatures:
// the public key, or for HS256, HS384 and HS512 the secret itself as []byte. All RSA keys of a process are the same.
func (h *Harness) Key(name, algorithm string) any {
	h.tb.Helper()
	var private, public any
	var err error
	switch algorithm {
	case "HS256", "HS384", "HS512":
		secret := testworld.RandomSecret() + testworld.RandomSecret() // the host warns of one that is shorter than the longest hash
		h.Secret(name, secret)
		return []byte(secret)
	case "RS256", "RS384", "RS512", "PS256", "PS384", "PS512":
		var key *rsa.PrivateKey
		if key, err = rsaKey(); err == nil {
			private, public = key, key.Public()
		}
	case "ES256":
		private, public, err = ecKey(elliptic.P256())
	case "ES384":
		private, public, err = ecKey(elliptic.P384())
	case "ES512":
		private, public, err = ecKey(elliptic.P521())
	case "EdDSA":
		public, private, err = ed25519.GenerateKey(rand.Reader)
	default:
		h.tb.Fatalf("hosttest: there is no key for the algorithm %q", algorithm)
	}
	if err != nil {
		h.tb.Fatalf("hosttest: making a key: %v", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		h.tb.Fatalf("hosttest: encoding a key: %v", err)
	}
	h.Secret(name, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})))
	return public
}

func ecKey(curve elliptic.Curve) (private, public any, err error) {
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	return key, key.Public(), nil
}
