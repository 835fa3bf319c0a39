package signing_test

import (
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/host/internal/signing"
)

const hmacText = "a shared secret that is longer than sixty-four bytes, so that no hash asks for more"

// keys returns the private keys of the tests. It makes them once, because RSA keys take a while.
var keys = sync.OnceValue(func() (k struct {
	rsa1024, rsa2048, rsa3072 *rsa.PrivateKey
	p224, p256, p384, p521    *ecdsa.PrivateKey
	ed25519                   ed25519.PrivateKey
	x25519                    *ecdh.PrivateKey
	ed448, secp256k1          []byte // DER, since Go cannot generate these keys
},
) {
	k.rsa1024 = must(rsa.GenerateKey(rand.Reader, 1024))
	k.rsa2048 = must(rsa.GenerateKey(rand.Reader, 2048))
	k.rsa3072 = must(rsa.GenerateKey(rand.Reader, 3072))
	k.p224 = must(ecdsa.GenerateKey(elliptic.P224(), rand.Reader))
	k.p256 = must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	k.p384 = must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	k.p521 = must(ecdsa.GenerateKey(elliptic.P521(), rand.Reader))
	k.ed25519 = ed25519.NewKeyFromSeed(randomBytes(32))
	k.x25519 = must(ecdh.X25519().GenerateKey(rand.Reader))
	k.ed448 = must(asn1.Marshal(struct {
		Version   int
		Algorithm pkix.AlgorithmIdentifier
		Key       []byte
	}{0, pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 3, 101, 113}}, append([]byte{4, 57}, randomBytes(57)...)}))
	k.secp256k1 = must(asn1.Marshal(struct {
		Version int
		Key     []byte
		Curve   asn1.ObjectIdentifier `asn1:"explicit,tag:0"`
	}{1, randomBytes(32), asn1.ObjectIdentifier{1, 3, 132, 0, 10}}))
	return k
})

// rsaOfSize returns the DER of a PKCS #1 key that ends after its modulus.
func rsaOfSize(bits uint) []byte {
	n := new(big.Int).Lsh(big.NewInt(1), bits-1)
	return must(asn1.Marshal(struct {
		Version int
		N       *big.Int
	}{0, n}))
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func encodePEM(blockType string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: blockType, Bytes: der}))
}

func pkcs8(key any) string {
	return encodePEM("PRIVATE KEY", must(x509.MarshalPKCS8PrivateKey(key)))
}

func pkcs1(key *rsa.PrivateKey) string {
	return encodePEM("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key))
}

// pssOnly returns a key in PKCS #8 for RSASSA-PSS only, as openssl genpkey -algorithm RSA-PSS writes it.
func pssOnly(key *rsa.PrivateKey) string {
	return encodePEM("PRIVATE KEY", must(asn1.Marshal(struct {
		Version   int
		Algorithm pkix.AlgorithmIdentifier
		Key       []byte
	}{0, pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 1, 10}}, x509.MarshalPKCS1PrivateKey(key)})))
}

func sec1(key *ecdsa.PrivateKey) string {
	return encodePEM("EC PRIVATE KEY", must(x509.MarshalECPrivateKey(key)))
}

func publicKey(key any) string {
	return encodePEM("PUBLIC KEY", must(x509.MarshalPKIXPublicKey(key)))
}

func certificate(key *rsa.PrivateKey) string {
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	return encodePEM("CERTIFICATE", must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)))
}

// oneLine writes line breaks as \n, as in an environment variable.
func oneLine(text string) string {
	return strings.ReplaceAll(text, "\n", `\n`)
}

// fitting returns, for each algorithm, a private key and its public key in PEM, or the shared secret as both.
func fitting(t testing.TB) map[string]struct{ private, public string } {
	t.Helper()
	k := keys()
	type pair = struct{ private, public string }
	hs := pair{hmacText, hmacText}
	rs := pair{pkcs8(k.rsa2048), publicKey(k.rsa2048.Public())}
	return map[string]pair{
		"HS256": hs, "HS384": hs, "HS512": hs,
		"RS256": rs, "RS384": rs, "RS512": rs,
		"PS256": rs, "PS384": rs, "PS512": rs,
		"ES256": {pkcs8(k.p256), publicKey(k.p256.Public())},
		"ES384": {pkcs8(k.p384), publicKey(k.p384.Public())},
		"ES512": {pkcs8(k.p521), publicKey(k.p521.Public())},
		"EdDSA": {pkcs8(k.ed25519), publicKey(k.ed25519.Public())},
	}
}

// signJWT returns a JWT that a Signer has signed.
func signJWT(s *signing.Signer, algorithm, key string, header, claims map[string]any) (string, error) {
	return signing.JWT(algorithm, header, claims, func(input string) ([]byte, error) {
		signature, _, err := s.Sign(algorithm, key, input)
		return signature, err
	})
}
