package identity_test

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/identity"
)

// For each algorithm, a token that another implementation signed is accepted.
func TestIndependentTokens(t *testing.T) {
	algorithms := append(identity.Asymmetric(), "HS256", "HS384", "HS512")
	var keys []map[string]any
	var input bytes.Buffer
	for _, algorithm := range algorithms {
		s := newSigner(t, "key-of-"+algorithm, algorithm)
		keys = append(keys, s.jwk(map[string]any{"alg": algorithm}))
		secret, ok := s.private.([]byte)
		if !ok {
			pkcs8 := testworld.Must(x509.MarshalPKCS8PrivateKey(s.private))(t)
			secret = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
		}
		line, _ := json.Marshal(map[string]any{"claims": claims(), "algorithm": algorithm, "key": string(secret), "kid": s.id})
		input.Write(append(line, '\n'))
	}
	sign := exec.CommandContext(t.Context(), "/usr/bin/python3", "testdata/sign.py")
	sign.Stdin, sign.Stderr = &input, os.Stderr
	output, err := sign.Output()
	if err != nil {
		t.Fatalf("python3-jwt cannot be run; `make deps` installs it: %v", err)
	}
	tokens := strings.Fields(string(output))
	if len(tokens) != len(algorithms) {
		t.Fatalf("%d tokens for %d algorithms", len(tokens), len(algorithms))
	}
	c := config(t, keys...)
	c.JWT.Algorithms = algorithms
	w := newSession(t, c, nil)
	for i, token := range tokens {
		accepted(t, ann)(w.bearer(token))
		refused(t, identity.ErrUnauthenticated, token)(w.bearer(flip(token)))
		refused(t, identity.ErrUnauthenticated, token)(w.bearer(tokens[(i+1)%len(tokens)][:strings.LastIndex(tokens[(i+1)%len(tokens)], ".")] + token[strings.LastIndex(token, "."):]))
	}
}
