package signing_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/internal/signing"
)

// An RSA key beyond 8,192 bits is refused before it is parsed, which takes seconds. A tenant's bad key is checked again
// for each request, because only good keys are kept (threats.md 3).
func TestRSAKeySize(t *testing.T) {
	for _, test := range []struct {
		name string
		bits uint
		want string
	}{
		{"largest that is parsed", 8192, "is damaged"}, // the key has a modulus and nothing else
		{"one bit more", 8193, "is an RSA key of 8193 bits: from 2048 to 8192 are allowed"},
		{"twice as large", 16384, "is an RSA key of 16384 bits"},
	} {
		t.Run(test.name, func(t *testing.T) {
			key := encodePEM("RSA PRIVATE KEY", rsaOfSize(test.bits))
			_, _, err := signing.New(1).Sign("RS256", key, []byte("x"))
			var problem *signing.KeyError
			if !errors.As(err, &problem) || !strings.Contains(problem.Problem, test.want) {
				t.Errorf("the error is %v, want one with %q", err, test.want)
			}
		})
	}
}

// An error quotes at most 64 characters of a claim's name, and escapes line breaks: a plugin chooses the name, and
// could otherwise fill memory or forge log lines (threats.md 3, 21).
func TestErrorsCutTheNameOfAClaim(t *testing.T) {
	for name, claim := range map[string]string{
		"long":               "begin" + strings.Repeat("n", 1<<20),
		"long when written":  "begin" + strings.Repeat("\x00", 1<<20),
		"characters of more": "begin" + strings.Repeat("ß", 1<<20),
		"a line of its own":  "begin\nforged",
	} {
		t.Run(name, func(t *testing.T) {
			err := signing.Integers(map[string]any{claim: "99999999999999999999"}, []string{claim})
			if err == nil || !strings.Contains(err.Error(), `claim "begin`) {
				t.Fatalf("the error does not name the claim: %.100v", err)
			}
			if text := err.Error(); len(text) > 500 || strings.Contains(text, "\n") {
				t.Errorf("an error of %d bytes: %.100q", len(text), text)
			}
		})
	}
}
