package wycheproof

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"io/fs"
	"math/big"
	"testing"

	vectors "github.com/c2sp/wycheproof"

	"github.com/keywright/keywright/internal/testworld"
)

// file holds the members of a vector file that the tests use.
type file struct {
	NumberOfTests int     `json:"numberOfTests"`
	Groups        []group `json:"testGroups"`
}

type group struct {
	Type    string   `json:"type"`
	Curve   string   `json:"curve"`
	KeySize int      `json:"keySize"` // in bits
	TagSize int      `json:"tagSize"` // in bits
	SHA     string   `json:"sha"`
	PEM     string   `json:"privateKeyPem"`
	PKCS8   hexBytes `json:"privateKeyPkcs8"`
	Private jwk      `json:"private"`
	Tests   []vector `json:"tests"`
}

type vector struct {
	ID      int             `json:"tcId"`
	Comment string          `json:"comment"`
	Key     hexBytes        `json:"key"`
	Message hexBytes        `json:"msg"`
	Sig     hexBytes        `json:"sig"`
	Tag     hexBytes        `json:"tag"`
	Private string          `json:"private"`
	JWS     json.RawMessage `json:"jws"`
	Result  string          `json:"result"`
}

// hexBytes is bytes that JSON has in hexadecimal.
type hexBytes []byte

func (b *hexBytes) UnmarshalText(text []byte) error {
	decoded, err := hex.DecodeString(string(text))
	*b = decoded
	return err
}

// read returns the groups of a vector file.
func read(t *testing.T, name string) []group {
	t.Helper()
	text := testworld.Must(fs.ReadFile(vectors.TestVectors, name))(t)
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatalf("%s: err = %v", name, err)
	}
	return f.Groups
}

// atLeast fails the test if fewer vectors ran than when the test was written. Then a file has moved, or cannot be read
// any more, and the test would pass without testing anything.
func atLeast(t *testing.T, ran, want int) {
	t.Helper()
	if ran < want {
		t.Errorf("%d vectors ran, want at least %d", ran, want)
	}
	t.Logf("%d vectors", ran)
}

// The numbers of vectors that ran when the tests were written.
const (
	minRSASigned, minRSARefused         = 231, 123
	minHMAC                             = 522
	minJWS, minJWSRefused               = 44, 6
	minPEMSigned, minPEMRefused         = 94, 7599
	minRSAKeysSigned, minRSAKeysRefused = 23, 8
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
