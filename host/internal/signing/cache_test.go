package signing

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

func ed25519PEM(t *testing.T, n byte) string {
	t.Helper()
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	der := testworld.Must(x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(seed)))(t)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// A key is parsed once. No more parsed keys are kept than the limit says. A key's text is not kept.
func TestKeyMemory(t *testing.T) {
	s := New(3)
	first := ed25519PEM(t, 0)
	parsed, _, err := s.Key("EdDSA", first)
	testworld.Check(t, err)
	again, _, err := s.Key("EdDSA", first)
	testworld.Check(t, err)
	if parsed != again {
		t.Error("the key was parsed twice")
	}
	for n := range byte(10) {
		if _, _, err := s.Sign("EdDSA", ed25519PEM(t, n), ""); err != nil {
			t.Fatal(err)
		}
	}
	if s.keys.Len() != 3 {
		t.Errorf("%d keys are remembered, want 3", s.keys.Len())
	}
	if text := fmt.Sprintf("%v %s", s.keys.Keys(), s.keys.Keys()); strings.Contains(text, "PRIVATE") {
		t.Error("the text of a key is remembered")
	}
}

// A key that does not fit an algorithm is refused even if it has been parsed for another one (threats.md 36).
func TestRememberedKeyAlgorithm(t *testing.T) {
	s := New(10)
	key := ed25519PEM(t, 1)
	if _, _, err := s.Sign("EdDSA", key, ""); err != nil {
		t.Fatal(err)
	}
	for _, algorithm := range []string{"HS256", "RS256", "ES256", "PS256"} {
		if _, _, err := s.Sign(algorithm, key, ""); err == nil {
			t.Errorf("%s signs with an Ed25519 key", algorithm)
		}
	}
	if s.keys.Len() != 1 {
		t.Errorf("%d keys are remembered, want 1: a key that is refused is none", s.keys.Len())
	}
}

// A generated key is derived from its arguments, and from nothing else. It is kept, but no more keys than the limit says, and
// one that was displaced is the same when it is made again (specification.md "the key of the proofs").
func TestGeneratedKeys(t *testing.T) {
	s := New(3)
	generate := func(algorithm string, secret byte, info string) string {
		key := testworld.Must(s.Generate(algorithm, [32]byte{secret}, info))(t)
		if _, _, err := s.Sign(algorithm, key, ""); err != nil {
			t.Errorf("%s does not sign with its key: %v", algorithm, err)
		}
		return key
	}
	first := generate("ES256", 1, "a")
	if again := generate("ES256", 1, "a"); again != first || s.generated.Len() != 1 {
		t.Errorf("a key is another one the second time, or there are %d keys", s.generated.Len())
	}
	seen := map[string]bool{first: true}
	for _, key := range []string{generate("ES256", 2, "a"), generate("ES256", 1, "b"), generate("EdDSA", 1, "a"), generate("ES384", 1, "a")} {
		if seen[key] {
			t.Error("other arguments have the same key")
		}
		seen[key] = true
	}
	if s.generated.Len() != 3 {
		t.Errorf("%d keys are kept, want 3", s.generated.Len())
	}
	if again := generate("ES256", 1, "a"); again != first {
		t.Error("a key that was displaced is another one when it is made again")
	}
	if _, err := s.Generate("RS256", [32]byte{}, ""); err == nil {
		t.Error("a key for RS256 is generated")
	}
}

func TestMinimumLimit(t *testing.T) {
	for _, limit := range []int{-1, 0, 1} {
		s := New(limit)
		if _, _, err := s.Sign("EdDSA", ed25519PEM(t, 1), ""); err != nil || s.keys.Len() != 1 {
			t.Errorf("limit %d: error %v, %d keys", limit, err, s.keys.Len())
		}
	}
}
