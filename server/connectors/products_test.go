package connectors_test

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

// A product is an API that a few lines of YAML are enough for.
type product struct {
	secrets host.MapSecrets
	// request is the method and path of the request, and body its form.
	request, body string
	// api answers as the product documents it, at all its hosts. It answers with an error unless the credential is right.
	api http.HandlerFunc
}

// Each product gets the credential that it documents, from the YAML in docs/auth-types.md alone, and a second request asks for
// no second token.
func TestProducts(t *testing.T) {
	for name, p := range products(t) {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			seen := map[string]int{}
			base := served(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				seen[r.Host+r.URL.Path]++
				mu.Unlock()
				p.api(w, r)
			})
			options := connectors.Options{Host: host.Config{Secrets: p.secrets, Base: base}}
			set, problems := load(t, "connectors:\n"+documented(t, name), options)
			if problems != nil {
				t.Fatal(strings.Join(problems, "\n"))
			}
			client := &http.Client{Transport: set.Connectors[0].Upstream().Transport(base)}
			for range 2 {
				method, path, _ := strings.Cut(p.request, " ")
				r := testworld.Must(http.NewRequestWithContext(t.Context(), method, set.Connectors[0].BaseURL().String()+path, strings.NewReader(p.body)))(t)
				if p.body != "" {
					r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				}
				response := testworld.Must(client.Do(r))(t)
				body, err := io.ReadAll(response.Body)
				response.Body.Close()
				if response.StatusCode != http.StatusOK || err != nil || !strings.Contains(string(body), `"ok":true`) {
					t.Fatalf("%d: body = %s err = %v", response.StatusCode, body, err)
				}
			}
			for where, times := range seen {
				if want := map[bool]int{true: 1, false: 2}[strings.Contains(where, "token") || strings.Contains(where, "login")]; times != want {
					t.Errorf("%d requests to %s", times, where)
				}
			}
		})
	}
}

// documented returns the connector of a name in docs/auth-types.md.
func documented(t *testing.T, name string) string {
	t.Helper()
	page := testworld.Must(os.ReadFile(filepath.Join("..", "..", "docs", "auth-types.md")))(t)
	_, text, found := strings.Cut(string(page), "\n- name: "+name+"\n")
	if !found {
		t.Fatalf("docs/auth-types.md has no connector %s", name)
	}
	text = strings.SplitN(text, "\n```", 2)[0] // the end of the example
	return "- name: " + strings.SplitN(name+"\n"+text, "\n- name: ", 2)[0] + "\n"
}

// served returns a transport that sends the requests for all hosts to one server.
func served(t *testing.T, handler http.HandlerFunc) http.RoundTripper {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: "example.com"},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, server.Listener.Addr().String())
		},
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// The host of a file has the built-in types that its connectors use, each once, and a type by its alias.
func TestBuiltInTypesOfAFile(t *testing.T) {
	const text = `connectors:
  - {name: A, url: 'https://a.example', auth: {type: basic, config: {username: a}}}
  - {name: B, url: 'https://b.example', auth: {type: apikey, config: {in: header, key: X-Key, value: v}}}
  - {name: C, url: 'https://c.example', auth: {type: basic, config: {username: c}}}
`
	set, problems := load(t, text, connectors.Options{})
	if problems != nil {
		t.Fatal(strings.Join(problems, "\n"))
	}
	var types []string
	for _, p := range set.Host.Plugins() {
		types = append(types, p.Type)
		if !p.BuiltIn {
			t.Errorf("%s is not built in", p.Type)
		}
	}
	if want := []string{"basic", "api_key"}; !slices.Equal(types, want) {
		t.Errorf("the host has %q, want %q", types, want)
	}
}

// answers returns a handler that answers {"ok":true} if the request is right, and otherwise 401 with the reason.
func answers(check func(*http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := check(r); err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(map[string]any{"ok": false, "error": err.Error()})
			return
		}
		_, _ = io.WriteString(w, `{"ok":true}`)
	}
}

// header returns a handler that wants a header.
func header(name, value string) http.HandlerFunc {
	return answers(func(r *http.Request) error {
		if got := r.Header[name]; !slices.Equal(got, []string{value}) {
			return fmt.Errorf("%s: %q", name, got)
		}
		return nil
	})
}

// user returns a handler that wants a user name and a password.
func user(name, password string) http.HandlerFunc {
	return answers(func(r *http.Request) error {
		if gotName, gotPassword, ok := r.BasicAuth(); !ok || gotName != name || gotPassword != password {
			return fmt.Errorf("user %q with %q", gotName, gotPassword)
		}
		return nil
	})
}

// rsaKey makes the key of all products. Making a key takes longer than a test.
var rsaKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// keys returns a key as GitHub's PEM file and as Google's JSON file, and its public half.
func keys(t *testing.T) (github, google string, public *rsa.PublicKey) {
	t.Helper()
	key := testworld.Must(rsaKey())(t)
	github = string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}))
	der := testworld.Must(x509.MarshalPKCS8PrivateKey(key))(t)
	file := testworld.Must(json.MarshalIndent(map[string]string{
		"type": "service_account", "project_id": "my-project", "private_key_id": googleKeyID,
		"private_key":  string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"client_email": googleEmail, "client_id": "103200000000000000000", "auth_uri": "https://accounts.google.com/o/oauth2/auth",
		"token_uri": "https://oauth2.googleapis.com/token", "universe_domain": "googleapis.com",
	}, "", "  "))(t)
	return github, string(file), &key.PublicKey
}
