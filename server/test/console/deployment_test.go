// Package console tests the console with a browser: each page with axe-core, with the keyboard alone, without scripts, and before
// pages of other origins.
package console

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

// file is the configuration. The token endpoint refuses the client of invoices.
const file = `state: {type: sqlite, path: state.db, keys: ["{{ get_secret('state-key') }}"]}
gateway:
  user: {type: jwt, jwt: {cookie: session, jwks_file: keys.json, issuer: 'https://id.example.com', audiences: gateway}}
connectors:
  - name: Orders
    permalink: orders
    url: API/v1
    paths: [/**]
    method: [GET, POST]
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('orders') }}", in: header}}
  - name: Invoices
    permalink: invoices
    url: API/invoices
    paths: [/**]
    auth: {type: oauth_client_credentials, config: {token_url: API/token, client_id: keywright, client_secret: "{{ get_secret('invoices') }}"}}
  - name: Customers
    permalink: customers
    url: API/crm
    paths: [/**]
    auth: {type: oauth_client_credentials, config: {token_url: API/token/customers, client_id: keywright, client_secret: "{{ get_secret('customers') }}", scope: read}}
  - name: Calendar
    permalink: calendar
    url: API/calendar
    auth:
      type: oauth_authorization_code
      config: {authorization_url: API/authorize, token_url: API/token, client_id: keywright, client_secret: "{{ get_secret('calendar') }}"}
  - name: Mail
    permalink: mail
    url: API/mail
    headers: [{name: X-Trace, value: "{{ get_secret('mail-trace') }}"}]
    auth: {type: basic, config: {username: keywright, password: "{{ get_secret('mail', 'tenant') }}"}}
`

// deployment has a gateway with its console, and an API before which it stands.
type deployment struct {
	*testworld.Canaries
	t *testing.T
	// file is the path of the configuration.
	file string
	// callers and operators are the URLs of the gateway.
	callers, operators string
	// token is that of operators, if they log in.
	token string
	// calls counts the requests to the API.
	calls atomic.Int64
	// down reports whether the API fails, and starting whether the token endpoint of invoices does, which otherwise refuses the client.
	down, starting atomic.Bool
	// issued is the token of the other token endpoint.
	issued string
	clock  *testworld.Clock
	log    testworld.Log
}

// newDeployment runs a gateway. With login, operators log in with a token. In the files of parts, by their names, are more connectors.
func newDeployment(t *testing.T, login bool, parts ...string) *deployment {
	t.Helper()
	w := &deployment{Canaries: testworld.NewCanaries(t), t: t, clock: testworld.NewClock(time.Now())}
	w.issued = w.Word("the issued token")
	api := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("Date", w.clock.Now().UTC().Format(http.TimeFormat))
		if strings.HasPrefix(r.URL.Path, "/token") {
			w.clock.Advance(31 * time.Millisecond)
		}
		switch {
		case r.URL.Path == "/token/customers":
			rw.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(rw, `{"access_token": %q, "token_type": "Bearer", "expires_in": 3600}`, w.issued)
			return
		case strings.HasPrefix(r.URL.Path, "/status/"):
			status, _ := strconv.Atoi(strings.Split(r.URL.Path, "/")[2])
			rw.WriteHeader(status)
			return
		case r.URL.Path == "/token" && w.starting.Load():
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		case r.URL.Path == "/token":
			rw.Header().Set("Content-Type", "application/json")
			rw.WriteHeader(http.StatusUnauthorized)
			_, _ = fmt.Fprint(rw, `{"error": "invalid_client"}`)
			return
		}
		w.clock.Advance(time.Duration(18+w.calls.Add(1)%9*11) * time.Millisecond)
		if w.down.Load() {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
		_, _ = fmt.Fprint(rw, "fine")
	}))
	t.Cleanup(api.Close)
	dir := t.TempDir()
	w.file = filepath.Join(dir, "connectors.yaml")
	text := file
	for i, part := range parts {
		text = "connectors_dir: teams\n" + strings.TrimPrefix(text, "connectors_dir: teams\n")
		testworld.Check(t, os.MkdirAll(filepath.Join(dir, "teams"), 0o700))
		w.write(fmt.Sprintf("teams/team-%c.yaml", 'a'+i), strings.ReplaceAll(part, "API", api.URL))
	}
	w.write("connectors.yaml", strings.ReplaceAll(text, "API", api.URL))
	w.write("keys.json", `{"keys": [{"kty": "OKP", "crv": "Ed25519", "kid": "2026-05", "alg": "EdDSA", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`)
	secrets := host.MapSecrets{"state-key": base64.StdEncoding.EncodeToString([]byte("0123456789abcdefghijklmnopqrstuv"))}
	w.Hide("the state key", secrets["state-key"])
	for _, name := range []string{"orders", "invoices", "customers", "calendar"} {
		secrets[name] = w.Word("the secret " + name)
	}
	config := daemon.Config{
		File: w.file, Version: "v1.0.0", Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Logger: w.log.Logger(),
		Options: connectors.Options{Host: host.Config{Clock: w.clock.Now, Secrets: secrets, Egress: host.Egress{AllowHTTP: true, AllowPrivate: true}}},
	}
	if login {
		w.token = w.Word("the token of operators")
		config.Admin, config.Login.TokenFile = "0.0.0.0:0", w.write("token", w.token)
	}
	w.run(config)
	return w
}

// write writes a file beside the configuration.
func (w *deployment) write(name, content string) string {
	w.t.Helper()
	path := filepath.Join(filepath.Dir(w.file), name)
	testworld.Check(w.t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// run runs the gateway until the test ends.
func (w *deployment) run(config daemon.Config) {
	w.t.Helper()
	w.t.Cleanup(func() { w.Out("the log", w.log.String()) })
	w.callers, w.operators, _ = testworld.Serve(w.t, &config.Started, func(ctx context.Context) error { return daemon.Run(ctx, config) })
	w.operators = strings.Replace(w.operators, "[::]", "127.0.0.1", 1)
}

// use has the operator's test send a request of each connector, so that there is something to see.
func (w *deployment) use() {
	w.t.Helper()
	for _, permalink := range []string{"orders", "orders", "invoices", "mail"} {
		r := testworld.Must(http.NewRequestWithContext(w.t.Context(), http.MethodPost, w.operators+"/connectors/"+permalink+"/test", strings.NewReader(`{"user": {"id": "1", "tenant_id": "1"}}`)))(w.t)
		if w.token != "" {
			r.Header.Set("Authorization", "Bearer "+w.token)
		}
		response := testworld.Must(http.DefaultClient.Do(r))(w.t)
		_ = response.Body.Close()
	}
	w.calls.Store(0)
}

// history has callers send requests for a quarter of an hour. The token endpoint of invoices fails, and then refuses the client. The API
// fails for two minutes.
func (w *deployment) history() {
	w.t.Helper()
	for minute, count := range []int{4, 6, 5, 7, 9, 8, 6, 7, 11, 9, 8, 10, 12, 9} {
		w.down.Store(minute == 6 || minute == 7)
		w.starting.Store(minute < 13)
		for range count {
			w.call("orders")
		}
		for range count / 3 {
			w.call("customers")
		}
		if minute > 8 {
			w.call("invoices")
			w.call("calendar")
		}
		w.clock.Advance(time.Minute)
	}
	w.calls.Store(0)
}

// call sends the request of a caller.
func (w *deployment) call(permalink string) {
	w.t.Helper()
	r := testworld.Must(http.NewRequestWithContext(w.t.Context(), http.MethodGet, w.callers+"/connectors/"+permalink, http.NoBody))(w.t)
	r.AddCookie(&http.Cookie{Name: "session", Value: w.session()})
	response := testworld.Must(http.DefaultClient.Do(r))(w.t)
	_ = response.Body.Close()
}

// session returns the session token of a user, with the private key of RFC 8037 appendix A.1.
func (w *deployment) session() string {
	w.t.Helper()
	seed := testworld.Must(base64.RawURLEncoding.DecodeString("nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A"))(w.t)
	claims := fmt.Sprintf(`{"iss": "https://id.example.com", "aud": "gateway", "sub": "user-1", "exp": %d}`, time.Now().Add(time.Hour).Unix())
	text := base64.RawURLEncoding.EncodeToString([]byte(`{"alg": "EdDSA", "kid": "2026-05"}`)) + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(ed25519.NewKeyFromSeed(seed), []byte(text)))
}
