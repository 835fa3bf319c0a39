// Package vendors compares the requests of Keywright with those of the vendors' own clients.
package vendors

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
)

const (
	email = "robot@my-project.iam.gserviceaccount.com"
	// tokenURL is answered by recorder.
	tokenURL = "https://oauth2.googleapis.test/token"
	scope    = "https://www.googleapis.com/auth/drive.readonly https://www.googleapis.com/auth/devstorage.read_only"
)

// request has the parts of a request that the client of a vendor and Keywright have in common. The JWT is decoded.
type request struct {
	Method, Path string
	Form         url.Values
	Body         any
	Header       map[string]any
	Claims       map[string]any
}

// recorder is a transport that keeps the requests and answers them.
type recorder struct {
	public *rsa.PublicKey
	answer string
	status int
	t      *testing.T

	mu   sync.Mutex
	seen []request
}

// RoundTrip implements http.RoundTripper.
func (c *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	got := request{Method: r.Method, Path: r.URL.Path}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	signed := strings.TrimPrefix(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), "bearer ")
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		got.Form, err = url.ParseQuery(string(body))
		signed = got.Form.Get("assertion")
		got.Form.Del("assertion")
	} else if len(body) > 0 {
		err = json.Unmarshal(body, &got.Body)
	}
	if err != nil {
		return nil, err
	}
	got.Header, got.Claims = verified(c.t, c.public, signed)
	c.mu.Lock()
	c.seen = append(c.seen, got)
	c.mu.Unlock()
	return &http.Response{
		StatusCode: c.status, Header: http.Header{"Content-Type": {"application/json; charset=utf-8"}},
		Body: io.NopCloser(strings.NewReader(c.answer)), Request: r,
	}, nil
}

// verified returns the header and claims of a JWT that was signed with RS256. It replaces the times in it: iat by how old it
// is, in minutes, and exp by the lifetime.
func verified(t *testing.T, public *rsa.PublicKey, signed string) (header, claims map[string]any) {
	parsed, err := jwt.Parse(signed, func(*jwt.Token) (any, error) { return public, nil }, jwt.WithValidMethods([]string{"RS256"}))
	if err != nil {
		t.Errorf("%s: err = %v", signed, err)
		return nil, nil
	}
	claims = parsed.Claims.(jwt.MapClaims)
	issued, _ := parsed.Claims.GetIssuedAt()
	expires, _ := parsed.Claims.GetExpirationTime()
	claims["exp"], claims["iat"] = expires.Sub(issued.Time).String(), time.Since(issued.Time).Truncate(5*time.Minute).String()
	for name, value := range claims {
		if value == "" { // Google's client writes an empty aud
			delete(claims, name)
		}
	}
	return parsed.Header, claims
}

// connect returns a connector with the secret key.
func connect(t *testing.T, base http.RoundTripper, key string, auth host.Auth) *host.Connector {
	t.Helper()
	config := host.Config{
		Secrets: host.MapSecrets{"key": key}, Base: base, BuiltIns: []host.Plugin{{Name: auth.Type, Wasm: plugins.Of(auth.Type)}},
	}
	h := testworld.Must(host.New(t.Context(), config))(t)
	t.Cleanup(func() { _ = h.Close(context.WithoutCancel(t.Context())) })
	return testworld.Must(h.NewConnector(t.Context(), host.ConnectorConfig{Name: "vendor", Origins: []string{"https://api.test"}, Auth: []host.Auth{auth}}))(t)
}

// authorization returns the header with which a connector sends a request.
func authorization(t *testing.T, c *host.Connector) string {
	t.Helper()
	r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "https://api.test/v1", nil))(t)
	sent := testworld.Must(c.Authenticate(r))(t)
	return sent.Header.Get("Authorization")
}

func newKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	return testworld.Must(rsa.GenerateKey(rand.Reader, 2048))(t)
}

// keyFile returns a key file of Google.
func keyFile(t *testing.T, key *rsa.PrivateKey) string {
	t.Helper()
	der := testworld.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	file := testworld.Must(json.Marshal(map[string]string{
		"type": "service_account", "project_id": "my-project", "private_key_id": "370ab79b4513eb9b", "client_email": email, "token_uri": tokenURL,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})), "client_id": "1032",
	}))(t)
	return string(file)
}

// googleAuth returns a configuration with the members of the key file.
func googleAuth(more map[string]any) host.Auth {
	config := map[string]any{}
	for field, member := range map[string]string{"client_email": "client_email", "private_key": "private_key", "private_key_id": "private_key_id", "token_url": "token_uri"} {
		config[field] = "{{ json_get(get_secret('key'), '" + member + "') }}"
	}
	for name, value := range more {
		if config[name] = value; value == nil {
			delete(config, name)
		}
	}
	return host.Auth{Type: "google_service_account", Config: config}
}

// Google's client for Go sends the same token requests for the same key file.
func TestGoogleTokens(t *testing.T) {
	key := newKey(t)
	file := keyFile(t, key)
	for name, test := range map[string]struct {
		subject, target string
		config          map[string]any
		answer          string
	}{
		"access token": {"", "", map[string]any{"scope": scope}, `{"access_token":"an-access-token","token_type":"Bearer","expires_in":3599}`},
		"for a user":   {"ann@example.com", "", map[string]any{"scope": scope, "subject": "ann@example.com"}, `{"access_token":"an-access-token","token_type":"Bearer","expires_in":3599}`},
		"ID token":     {"", "https://run.test", map[string]any{"token_type": "id_token", "target_audience": "https://run.test"}, `{"id_token":"e30.e30.YQ"}`},
	} {
		t.Run(name, func(t *testing.T) {
			c := &recorder{t: t, public: &key.PublicKey, status: http.StatusOK, answer: test.answer}
			var scopes []string
			if test.target == "" {
				scopes = strings.Fields(scope)
			}
			theirs := testworld.Must(google.JWTConfigFromJSON([]byte(file), scopes...))(t)
			theirs.Subject = test.subject
			if test.target != "" {
				theirs.PrivateClaims, theirs.UseIDToken = map[string]any{"target_audience": test.target}, true
			}
			token := testworld.Must(theirs.TokenSource(context.WithValue(t.Context(), oauth2.HTTPClient, &http.Client{Transport: c})).Token())(t)
			if got, want := authorization(t, connect(t, c, file, googleAuth(test.config))), token.Type()+" "+token.AccessToken; got != want {
				t.Errorf("Authorization: %s, want %s", got, want)
			}
			delete(c.seen[0].Claims, "prn") // an old name of sub, which Google's client also sends
			if diff := cmp.Diff(c.seen[:1], c.seen[1:]); diff != "" {
				t.Errorf("(-Google's client +Keywright)\n%s", diff)
			}
		})
	}
}

// Google's client for Go signs the same JWTs, which need no token endpoint.
func TestGoogleSelfSigned(t *testing.T) {
	key := newKey(t)
	file := keyFile(t, key)
	audience := func() (oauth2.TokenSource, error) {
		return google.JWTAccessTokenSourceFromJSON([]byte(file), "https://pubsub.googleapis.com/")
	}
	scoped := func() (oauth2.TokenSource, error) {
		return google.JWTAccessTokenSourceWithScope([]byte(file), strings.Fields(scope)...)
	}
	for name, test := range map[string]struct {
		theirs func() (oauth2.TokenSource, error)
		config map[string]any
	}{
		"audience": {audience, map[string]any{"token_type": "self_signed_jwt", "token_url": nil, "audience": "https://pubsub.googleapis.com/"}},
		"scope":    {scoped, map[string]any{"token_type": "self_signed_jwt", "token_url": nil, "scope": scope}},
	} {
		t.Run(name, func(t *testing.T) {
			source := testworld.Must(test.theirs())(t)
			token := testworld.Must(source.Token())(t)
			ours := strings.TrimPrefix(authorization(t, connect(t, nil, file, googleAuth(test.config))), "Bearer ")
			wantHeader, wantClaims := verified(t, &key.PublicKey, token.AccessToken)
			header, claims := verified(t, &key.PublicKey, ours)
			if diff := cmp.Diff([]any{wantHeader, wantClaims}, []any{header, claims}); diff != "" {
				t.Errorf("(-Google's client +Keywright)\n%s", diff)
			}
		})
	}
}

// GitHub's client for Node sends the same request for a token.
func TestGitHubInstallation(t *testing.T) {
	key := newKey(t)
	file := filepath.Join(t.TempDir(), "app.private-key.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	testworld.Check(t, os.WriteFile(file, text, 0o600))
	c := &recorder{
		t: t, public: &key.PublicKey, status: http.StatusCreated,
		answer: `{"token":"ghs_16C7e42F292c6912E7710c838347Ae178B4a","expires_at":"` + time.Now().Add(time.Hour).UTC().Format(time.RFC3339) + `","permissions":{},"repository_selection":"selected"}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response, err := c.RoundTrip(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", response.Header.Get("Content-Type"))
		w.WriteHeader(response.StatusCode)
		_, _ = io.Copy(w, response.Body)
		_ = response.Body.Close()
	}))
	defer server.Close()
	client := exec.CommandContext(t.Context(), "node", "installation.js", server.URL, file, "Iv1.8a61f9b3a7aba766")
	var complaints bytes.Buffer
	client.Stderr = &complaints
	token, err := client.Output()
	if err != nil {
		t.Fatalf("GitHub's client does not run (make deps installs it): %v\n%s", err, complaints.String())
	}
	connector := connect(t, c, string(text), host.Auth{Type: "github_app", Config: map[string]any{
		"api_url": "https://api.github.test", "client_id": "Iv1.8a61f9b3a7aba766", "installation_id": 1234, "private_key": "{{ get_secret('key') }}",
		"repositories": "hello-world octo.repo", "permissions": map[string]any{"contents": "read", "issues": "write"},
	}})
	if got := authorization(t, connector); got != "Bearer "+string(token) {
		t.Errorf("Authorization: %s, want %s", got, token)
	}
	if diff := cmp.Diff(c.seen[:1], c.seen[1:]); diff != "" {
		t.Errorf("(-GitHub's client +Keywright)\n%s", diff)
	}
}
