// Package digest tests the auth type digest against web servers that others wrote.
package digest

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

var lion = Account{User: "Mufasa", Password: "the password, or: a \"canary\"", Realm: "a savannah"}

// counter is a transport that counts requests.
type counter struct{ requests int }

func (c *counter) RoundTrip(r *http.Request) (*http.Response, error) {
	c.requests++
	return http.DefaultTransport.RoundTrip(r)
}

// client returns a client for the API at address, with a user and a password, and the counter of its requests.
func client(t *testing.T, address, user, password string) (*http.Client, *counter) {
	t.Helper()
	wasm, err := os.ReadFile("../../plugins/digest/digest.wasm")
	if err != nil {
		t.Fatalf("%v: `go run ./tools/plugin build plugins/digest` builds it", err)
	}
	h := testworld.Must(host.New(t.Context(), host.Config{
		Secrets: host.MapSecrets{"lion": password}, Egress: host.Egress{AllowHTTP: true},
		BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{{Name: "digest.wasm", Wasm: wasm}},
	}))(t)
	t.Cleanup(func() { _ = h.Close(context.Background()) })
	connector := testworld.Must(h.NewConnector(t.Context(), host.ConnectorConfig{
		Name: "pages", Origins: []string{address},
		Auth: host.Auth{Type: "digest", Config: map[string]any{"username": user, "password": "{{ get_secret('lion') }}"}},
	}))(t)
	base := &counter{}
	return &http.Client{Transport: connector.Transport(base)}, base
}

// The servers let requests in: the first one at the second attempt, and all others at the first.
func TestLetIn(t *testing.T) {
	hashed := Account{User: "Jäsøn Doe", Password: "Secret, or not?", Realm: "api@example.org"}
	for name, test := range map[string]struct {
		account Account
		start   func(t *testing.T, account Account) string
	}{
		"lighttpd with SHA-256": {lion, func(t *testing.T, a Account) string { return Lighttpd(t, a, "SHA-256", false) }},
		"lighttpd with MD5":     {lion, func(t *testing.T, a Account) string { return Lighttpd(t, a, "MD5", false) }},
		"lighttpd with both":    {lion, func(t *testing.T, a Account) string { return Lighttpd(t, a, "SHA-256|MD5", false) }},
		"lighttpd with UTF-8":   {hashed, func(t *testing.T, a Account) string { return Lighttpd(t, a, "SHA-256", false) }},
		"lighttpd with hashed user names": {hashed, func(t *testing.T, a Account) string {
			return Lighttpd(t, a, "SHA-256", true)
		}},
		"Apache":                         {lion, func(t *testing.T, a Account) string { return Apache(t, a, false) }},
		"Apache with UTF-8":              {hashed, func(t *testing.T, a Account) string { return Apache(t, a, false) }},
		"Apache with nonces for one use": {lion, func(t *testing.T, a Account) string { return Apache(t, a, true) }},
	} {
		t.Run(name, func(t *testing.T) {
			address := test.start(t, test.account)
			c, count := client(t, address, test.account.User, test.account.Password)
			for i, target := range []string{"/lions", "/lions?a=b&c=%22", "/lions?", "/lions"} {
				response := testworld.Must(c.Get(address + target))(t)
				body, err := io.ReadAll(response.Body)
				response.Body.Close()
				if err != nil || response.StatusCode != http.StatusOK || string(body) != Page {
					t.Errorf("%s: status %d, %q, %v", target, response.StatusCode, body, err)
				}
				if count.requests != i+2 {
					t.Errorf("%s: %d requests so far", target, count.requests)
				}
			}
			response := testworld.Must(c.Post(address+"/lions", "text/plain", io.NopCloser(strings.NewReader("a body that can be read only once"))))(t)
			response.Body.Close()
			if response.StatusCode == http.StatusUnauthorized || count.requests != 6 { // a file takes no body
				t.Errorf("POST: status %d, %d requests so far", response.StatusCode, count.requests)
			}
		})
	}
}

// The servers refuse a wrong password and a wrong user, whose 401 goes to the caller.
func TestRefused(t *testing.T) {
	for name, address := range map[string]string{
		"lighttpd": Lighttpd(t, lion, "SHA-256", false), "Apache": Apache(t, lion, false),
	} {
		for _, account := range []Account{{User: lion.User, Password: "wrong password"}, {User: "Scar", Password: lion.Password}} {
			c, count := client(t, address, account.User, account.Password)
			response := testworld.Must(c.Get(address + "/lions"))(t)
			response.Body.Close()
			if response.StatusCode != http.StatusUnauthorized || count.requests != 2 {
				t.Errorf("%s: status %d after %d requests", name, response.StatusCode, count.requests)
			}
		}
	}
}
