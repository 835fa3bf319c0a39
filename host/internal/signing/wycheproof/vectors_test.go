package wycheproof

import (
	"encoding/hex"
	"encoding/json"
	"io/fs"
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
