package host_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
)

// algorithms are the 13 algorithms of specification.md 3.17.
var algorithms = []string{
	"HS256", "HS384", "HS512", "RS256", "RS384", "RS512", "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "EdDSA",
}

// keyFor returns a new key pair for an algorithm: the key that signs and the key that verifies.
func keyFor(t *testing.T, algorithm string) (private, public string) {
	t.Helper()
	var signer crypto.Signer
	var err error
	switch algorithm {
	case "HS256", "HS384", "HS512":
		secret := strings.Repeat("hmac-secret-", 6)
		return secret, secret
	case "ES256":
		signer, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		signer, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		signer, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "EdDSA":
		_, signer, err = ed25519.GenerateKey(rand.Reader)
	default:
		signer, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(signer)
	if err != nil {
		t.Fatal(err)
	}
	spki, err := x509.MarshalPKIXPublicKey(signer.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: spki}))
}

// The tokens that the jwt plugin sends verify in an independent implementation, for all 13 algorithms.
func TestIndependentJWTVerification(t *testing.T) {
	var input bytes.Buffer
	for _, algorithm := range algorithms {
		private, public := keyFor(t, algorithm)
		token := strings.TrimPrefix(sentBy(t, algorithm, private), "Bearer ")
		line, err := json.Marshal(map[string]string{"token": token, "algorithm": algorithm, "key": public})
		if err != nil {
			t.Fatal(err)
		}
		input.Write(append(line, '\n'))
	}
	verify := exec.CommandContext(t.Context(), "/usr/bin/python3", "internal/signing/testdata/verify.py")
	verify.Stdin, verify.Stderr = &input, os.Stderr
	output, err := verify.Output()
	if err != nil {
		t.Fatalf("python3-jwt cannot be run; `make deps` installs it: %v", err)
	}
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	if len(lines) != len(algorithms) {
		t.Fatalf("%d answers for %d tokens", len(lines), len(algorithms))
	}
	for i, line := range lines {
		var verdict struct {
			Header map[string]any
			Claims map[string]any
			Error  string
		}
		if err := json.Unmarshal([]byte(line), &verdict); err != nil || verdict.Error != "" {
			t.Errorf("%s: err = %v verdict.Error = %s", algorithms[i], err, verdict.Error)
			continue
		}
		if verdict.Header["alg"] != algorithms[i] || verdict.Header["typ"] != "JWT" || verdict.Header["kid"] != "k1" {
			t.Errorf("%s: the header is %v", algorithms[i], verdict.Header)
		}
		if verdict.Claims["sub"] != "ann@example.com" || verdict.Claims["exp"] != float64(1_700_000_300) {
			t.Errorf("%s: the claims are %v", algorithms[i], verdict.Claims)
		}
	}
}

// sentBy returns the Authorization header that the jwt plugin sends.
func sentBy(t *testing.T, algorithm, key string) string {
	t.Helper()
	sent := ""
	h, err := host.New(t.Context(), host.Config{
		Secrets: host.MapSecrets{"key": key}, CodeCache: codeCache,
		Clock: func() time.Time { return time.Unix(1_700_000_000, 0) },
		Base: answer(func(r *http.Request) (*http.Response, error) {
			sent = r.Header.Get("Authorization")
			return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}, nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(t.Context())
	c, err := h.NewConnector(t.Context(), host.ConnectorConfig{
		Name: "api", Origins: []string{"https://api.test"},
		Auth: host.Auth{Type: "jwt", Config: map[string]any{
			"private_key": "{{ get_secret('key') }}", "algorithm": algorithm,
			"claims":      map[string]any{"sub": "{{ user.email }}", "exp": "{{ now(300) }}"},
			"jwt_headers": map[string]any{"kid": "k1"},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx := host.WithUser(t.Context(), host.User{Email: "ann@example.com"})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://api.test/", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := c.Transport(nil).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return sent
}
