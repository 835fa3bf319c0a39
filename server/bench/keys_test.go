package bench

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"sync"
)

const hmacKey = "h7Jq2wXv9mLs4TzB8nRc5pKd1yGf6aUe3oVi0tQxZkMb" // 44 bytes

type keyRing struct {
	rsa     *rsa.PrivateKey
	ecdsa   *ecdsa.PrivateKey
	ed25519 ed25519.PrivateKey

	rsaPEM, ecdsaPEM, ed25519PEM string
}

// keys returns the keys, which are generated once per process.
var keys = sync.OnceValue(func() keyRing {
	must := func(err error) {
		if err != nil {
			panic(err) // randomness does not fail
		}
	}
	var k keyRing
	var err error
	k.rsa, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	k.ecdsa, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	_, k.ed25519, err = ed25519.GenerateKey(rand.Reader)
	must(err)
	text := func(key any) string {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		must(err)
		return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	k.rsaPEM, k.ecdsaPEM, k.ed25519PEM = text(k.rsa), text(k.ecdsa), text(k.ed25519)
	return k
})
