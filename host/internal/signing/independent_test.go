//go:build !race

// Under the race detector these tests take long, and nothing in them runs concurrently. make test runs them without it.

package signing_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/internal/jws"
	"github.com/keywright/keywright/internal/testworld"
)

// python is the interpreter of Debian, which has the packages that apt installs. PATH may name another one first.
const python = "/usr/bin/python3"

type verification struct {
	Token     string `json:"token"`
	Algorithm string `json:"algorithm"`
	Key       string `json:"key"`
}

type verdict struct {
	Header map[string]any `json:"header"`
	Claims map[string]any `json:"claims"`
	Error  string         `json:"error"`
}

// verify verifies tokens with PyJWT, all in one process, and returns the verdicts in the same order.
func verify(t *testing.T, requests []verification) []verdict {
	t.Helper()
	if output, err := exec.CommandContext(t.Context(), python, "-c", "import jwt, cryptography").CombinedOutput(); err != nil {
		t.Fatalf("%s cannot import jwt: install the package python3-jwt (apt-get install python3-jwt): %v\n%s", python, err, output)
	}
	var input bytes.Buffer
	for _, request := range requests {
		input.Write(append(must(json.Marshal(request)), '\n'))
	}
	command := exec.CommandContext(t.Context(), python, "testdata/verify.py")
	command.Stdin = &input
	command.Stderr = os.Stderr
	output := testworld.Must(command.Output())(t)
	verdicts := make([]verdict, 0, len(requests))
	for line := range bytes.Lines(output) {
		var v verdict
		testworld.Check(t, json.Unmarshal(line, &v))
		verdicts = append(verdicts, v)
	}
	if len(verdicts) != len(requests) {
		t.Fatalf("%d verdicts for %d tokens", len(verdicts), len(requests))
	}
	return verdicts
}

// For every algorithm, an independent implementation reads the header and the claims of a token as they were passed to
// JWT, and refuses the token if the signature is changed.
func TestIndependentImplementationVerifiesEveryAlgorithm(t *testing.T) {
	header := map[string]any{"kid": "key <1> & é"}
	claims := map[string]any{
		"iss": "me", "sub": "日本\u2028", "exp": json.Number("4102444800"), "scopes": []any{"a", nil, true},
		"nested": map[string]any{"n": json.Number("1.25")},
	}
	signer := signing.New(20)
	pairs := fitting(t)
	var requests []verification
	for _, algorithm := range jws.Algorithms() {
		pair := pairs[algorithm]
		token, err := signJWT(signer, algorithm, pair.private, header, claims)
		testworld.Check(t, err)
		requests = append(
			requests,
			verification{token, algorithm, pair.public},
			verification{tamper(token), algorithm, pair.public},
		)
	}
	verdicts := verify(t, requests)
	for i, request := range requests {
		if i%2 == 1 {
			if !strings.Contains(verdicts[i].Error, "Signature verification failed") {
				t.Errorf("%s: a changed signature results in %+v", request.Algorithm, verdicts[i])
			}
			continue
		}
		want := verdict{
			Header: map[string]any{"alg": request.Algorithm, "typ": "JWT", "kid": "key <1> & é"},
			Claims: map[string]any{
				"iss": "me", "sub": "日本\u2028", "exp": 4102444800., "scopes": []any{"a", nil, true},
				"nested": map[string]any{"n": 1.25},
			},
		}
		if diff := cmp.Diff(want, verdicts[i]); diff != "" {
			t.Errorf("%s: diff = %s", request.Algorithm, diff)
		}
	}
}

// tamper changes a character in the middle of the signature.
func tamper(token string) string {
	dot := strings.LastIndexByte(token, '.')
	middle := (dot + len(token)) / 2
	other := "A"
	if token[middle] == 'A' {
		other = "B"
	}
	return token[:middle] + other + token[middle+1:]
}

// An independent implementation verifies 10,000 ES signatures, some of them with leading zeros in r or s, and PS
// signatures, for which PyJWT requires a salt as long as the hash (specification.md "form of signatures", threats.md 38).
func TestIndependentImplementationVerifiesManySignatures(t *testing.T) {
	counts := []struct {
		algorithm string
		tokens    int
		length    int // the length of a signature, in bytes
	}{
		{"ES256", 8000, 64},
		{"ES384", 1000, 96},
		{"ES512", 1000, 132},
		{"PS256", 100, 256},
		{"PS384", 100, 256},
		{"PS512", 100, 256},
		{"EdDSA", 300, 64},
	}
	signer := signing.New(20)
	pairs := fitting(t)
	var requests []verification
	for _, count := range counts {
		pair := pairs[count.algorithm]
		// The first byte of r or s is 0 in one of 128 signatures, and with ES512, where it has one bit, in most. So
		// more than 1,000 may be necessary.
		zeros, most := 0, count.tokens
		if strings.HasPrefix(count.algorithm, "ES") {
			most *= 10
		}
		for i := 0; i < count.tokens || i < most && zeros == 0; i++ {
			token, err := signJWT(signer, count.algorithm, pair.private, nil, map[string]any{"i": json.Number(must(json.Marshal(i)))})
			testworld.Check(t, err)
			signature := unbase64(token[strings.LastIndexByte(token, '.')+1:])
			if len(signature) != count.length {
				t.Fatalf("%s: a signature of %d bytes, want %d", count.algorithm, len(signature), count.length)
			}
			if signature[0] == 0 || signature[len(signature)/2] == 0 {
				zeros++
			}
			requests = append(requests, verification{token, count.algorithm, pair.public})
		}
		if strings.HasPrefix(count.algorithm, "ES") && zeros == 0 {
			t.Errorf("%s: no leading zero in %d signatures", count.algorithm, most)
		}
	}
	failed := map[string]int{}
	for i, verdict := range verify(t, requests) {
		if verdict.Error != "" {
			failed[requests[i].Algorithm+": "+verdict.Error]++
		}
	}
	if len(failed) > 0 {
		t.Errorf("signatures that do not verify: %v", failed)
	}
}
