package wycheproof

import (
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"testing"

	vectors "github.com/c2sp/wycheproof"
)

// file is the part of a vector file that the tests use.
type file struct {
	NumberOfTests int     `json:"numberOfTests"`
	Groups        []group `json:"testGroups"`
}

type group struct {
	Type    string   `json:"type"`
	Curve   string   `json:"curve"`
	KeySize int      `json:"keySize"` // bits
	TagSize int      `json:"tagSize"` // bits
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

// hexBytes is written in hexadecimal.
type hexBytes []byte

func (b *hexBytes) UnmarshalText(text []byte) error {
	decoded, err := hex.DecodeString(string(text))
	*b = decoded
	return err
}

// read returns a vector file's groups.
func read(t *testing.T, name string) []group {
	t.Helper()
	text, err := fs.ReadFile(vectors.TestVectors, name)
	if err != nil {
		t.Fatal(err)
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return f.Groups
}

// atLeast fails when fewer vectors ran than did when the test was written: then a file has moved, or is not
// understood any more, and the test would pass for nothing.
func atLeast(t *testing.T, ran, want int) {
	t.Helper()
	if ran < want {
		t.Errorf("%d vectors ran, want at least %d", ran, want)
	}
	t.Logf("%d vectors", ran)
}

// How many vectors ran when the tests were written.
const (
	minRSASigned, minRSARefused         = 231, 123
	minHMAC                             = 522
	minJWS, minJWSRefused               = 44, 6
	minPEMSigned, minPEMRefused         = 94, 7599
	minRSAKeysSigned, minRSAKeysRefused = 23, 8
)
