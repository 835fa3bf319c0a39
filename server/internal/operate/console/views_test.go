package console_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/operate/console"
)

// several is a file with connectors whose secrets go to different places.
const several = `
state: {type: sqlite, path: state.db, keys: ["{{ get_secret('state-key') }}"]}
connectors:
  - name: Orders
    permalink: orders
    url: https://api.example.com/orders
    headers: [{name: X-Trace, value: "{{ get_secret('trace') }}"}]
    auth: {type: api_key, config: {in: header, key: Authorization, value: "Bearer {{ get_secret('key') }}"}}
  - name: Invoices
    permalink: invoices
    url: https://invoices.example.com
    auth: {type: oauth_client_credentials, config: {token_url: 'https://id.example.com/token', client_id: me, client_secret: "{{ get_secret('client') }}"}}
  - name: Calendar
    permalink: calendar
    url: https://calendar.example.com
    auth:
      type: oauth_authorization_code
      config:
        authorization_url: https://id.example.com/authorize
        token_url: https://id.example.com/token
        client_id: me
        client_secret: "{{ get_secret('client') }}"
  - name: Mail
    permalink: mail
    url: https://mail.example.com
    auth: {type: api_key, config: {in: header, key: X-Key, value: "{{ get_secret('mail', 'tenant') }}"}}
`

// contains checks that a page has texts.
func (w *world) contains(page answer, texts ...string) {
	w.t.Helper()
	if page.status != http.StatusOK {
		w.t.Fatalf("the page is answered %d: %s", page.status, page.body)
	}
	for _, text := range texts {
		if !strings.Contains(page.body, text) {
			w.t.Errorf("the page has no %q:\n%s", text, page.body)
		}
	}
}

// The page of a file of many connectors has some of them, those with trouble first, and a filter.
func TestAPageOfManyConnectors(t *testing.T) {
	var file strings.Builder
	file.WriteString("connectors:\n")
	for i := range 300 {
		fmt.Fprintf(&file, "  - {name: C %d, permalink: c%03d, url: 'https://api%d.example.com', auth: {type: none}}\n", i, i, i)
	}
	file.WriteString("  - {name: Broken, permalink: broken, url: 'https://broken.example.com', auth: {type: bearer, config: {token: \"{{ get_secret('none') }}\"}}}\n")
	w := newWorld(t, file.String())
	page := w.get("/")
	w.contains(page, "301 in the file", "201 more are not shown", `name="q"`, `href="/connectors/broken"`)
	if strings.Count(page.body, `<th scope="row">`) != 100 || strings.Index(page.body, "/connectors/broken") > strings.Index(page.body, "/connectors/c000") {
		t.Errorf("the page has %d connectors, or the one with trouble is not first", strings.Count(page.body, `<th scope="row">`))
	}
	w.contains(w.get("/?q=API29"), "301 in the file", "those with “API29” below", `href="/connectors/c029"`, `href="/connectors/c290"`)
	w.contains(w.get("/?q=<b>"), "None has that", "&lt;b&gt;")
}

func TestSecretUseShown(t *testing.T) {
	w := newWorld(t, several)
	w.secrets["client"] = w.Secret("client")
	w.contains(
		w.get("/secrets"), `id="secret-client">client <span class="good">`, `✓</span> found`, `2 secrets are not found`, "The store of state needs it", `id="secret-trace">trace <span class="bad">`, `✗</span> missing`,
		`tenants/*/mail <span class="soft">one for each tenant`, `<td class="mono">headers.X-Trace</td>`, `<td class="mono">https://api.example.com</td>`,
		"The cached tokens of invoices are not used any more", "The grants of calendar stay", "The next request of orders has the new value: the API has to accept it before",
	)
}

func TestPluginRightsShown(t *testing.T) {
	w := newWorld(t, several)
	page := w.get("/plugins")
	w.contains(page, `id="plugin-oauth_client_credentials"`, "built in", `<a href="/connectors/invoices">invoices</a>`, "it has not run yet", "What api_key may do", `<th scope="row" class="mono">field value</th>`,
		"median at most 10\u2009000, worst 31\u2009337, of 3 runs")
	if strings.Contains(page.body, "aws_sigv4") {
		t.Error("there is a plugin that the file does not use")
	}
}

func TestGrantsShowTheConditionOfOneUser(t *testing.T) {
	w := newWorld(t, several)
	page := w.get("/grants")
	w.contains(page, `<a href="/connectors/calendar">calendar</a>`, "<td>each user</td>")
	if strings.Contains(page.body, "Condition") || strings.Contains(page.body, "/connectors/orders") {
		t.Errorf("the page has conditions of nobody, or connectors without grants:\n%s", page.body)
	}
	ask := func(user string, change func(*http.Request)) answer {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/grants", strings.NewReader(url.Values{"user": {user}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if change != nil {
			change(r)
		}
		return w.ask(r)
	}
	w.contains(ask("ann<script>", nil), `value="ann&lt;script&gt;"`, "not connected")
	if got := ask("ann", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }).status; got != http.StatusForbidden { // threats.md 151
		t.Errorf("a form of another site is answered %d", got)
	}
	if got := ask(strings.Repeat("x", 300), nil).status; got != http.StatusBadRequest {
		t.Errorf("a long ID is answered %d", got)
	}
}

// The page counts users by what their last request has met, and names none.
func TestGrantUserCount(t *testing.T) {
	w := newWorld(t, several)
	calendar, orders := w.state.Set.Connectors[2], w.state.Set.Connectors[0]
	meets := func(c *gateway.Connector, user string, change func(*gateway.Event)) {
		e := gateway.Event{Connector: c.Definition().Permalink, Served: c, User: user, Tenant: "t1", Status: 200, Began: now}
		change(&e)
		w.recorder.Request(&e)
	}
	grant := func(condition host.Condition) func(*gateway.Event) {
		return func(e *gateway.Event) {
			e.Status, e.Problem, e.Stage, e.Err = 403, "not-connected", "token", &host.GrantError{User: e.User, Condition: condition}
		}
	}
	sent := func(e *gateway.Event) { e.Sent = now }
	w.contains(w.get("/grants"), "0 connected", "0 refused")
	for range 2 {
		meets(calendar, "user-1", sent)
		meets(calendar, "user-2", sent)
		meets(calendar, "user-3", grant(host.ConditionLost))
	}
	meets(calendar, "", sent)                                                                          // no user
	meets(calendar, "user-4", func(e *gateway.Event) { e.Status, e.Problem = 502, "upstream-failed" }) // who knows
	meets(calendar, "user-5", func(e *gateway.Event) { e.Status, e.Problem, e.Err = 403, "not-connected", errors.New("first") })
	meets(orders, "user-1", sent) // it has no grants
	meets(calendar, "user-6", grant(host.ConditionUncertain))
	w.shows("/grants", "calendar each user consent 2 connected , 1 not connected , 1 uncertain , 1 lost , 0 refused")
	meets(calendar, "user-3", func(e *gateway.Event) { e.Use = gateway.UseCallback })
	meets(calendar, "user-2", grant(host.ConditionRefused))
	meets(calendar, "user-1", func(e *gateway.Event) { e.Use = gateway.UseDisconnect })
	w.shows("/grants", "calendar each user consent 1 connected , 2 not connected , 1 uncertain , 0 lost , 1 refused")
	if page := w.get("/grants").body; strings.Contains(page, "user-") {
		t.Errorf("the page names a user:\n%s", page)
	}
	for i := range 10_000 {
		meets(calendar, "many-"+strconv.Itoa(i), sent)
	}
	w.shows("/grants", "at least 9996 connected")
}

func TestFileProblemsShown(t *testing.T) {
	w := newWorld(t, several)
	w.contains(w.get("/configuration"), "The file on disk is in use.", "2026-05-04T10:20:30Z", "plain HTTP")
	w.state.Refused, w.state.Problems = now.Add(time.Minute), []console.Problem{{Text: "28:9: client_secrt is not known here", Line: "        client_secrt: …", Indent: "        "}, {Text: "30:1: <b>another</b>"}}
	w.contains(w.get("/configuration"), "not in use, since 2026-05-04T10:21:30Z", "<li>28:9: client_secrt is not known here<pre", "        client_secrt: …\n        <span class=\"bad\">^</span></pre>", "&lt;b&gt;another")
}

func TestSessionsShowTheKeysAndTheirAge(t *testing.T) {
	w := newWorld(t, several)
	w.contains(w.get("/sessions"), "Requests have no user", "Callers use plain HTTP")
	keys := filepath.Join(t.TempDir(), "keys.json")
	write := func(ids ...string) {
		var all []string
		for _, id := range ids {
			all = append(all, `{"kty": "OKP", "crv": "Ed25519", "kid": "`+id+`", "alg": "EdDSA", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}`)
		}
		testworld.Check(t, os.WriteFile(keys, []byte(`{"keys": [`+strings.Join(all, ",")+`]}`), 0o600))
	}
	write("first")
	config := identity.Config{Mode: identity.ModeJWT, JWT: &identity.JWT{Cookie: "session", JWKSFile: keys, Issuer: "https://id.example.com", Audiences: []string{"gateway"}}}
	sessions := testworld.Must(identity.New(t.Context(), config, identity.Options{Clock: w.clock.Now}))(t)
	t.Cleanup(func() { _ = sessions.Close() })
	w.state.Sessions, w.state.Set.Settings.User, w.state.CertificateEnds = sessions, config, now.Add(30*24*time.Hour)
	w.clock.Advance(2 * time.Hour)
	write("first", "second")
	testworld.Check(t, sessions.Ready(t.Context()))
	w.clock.Advance(time.Hour)
	w.contains(w.get("/sessions"), "https://id.example.com", "the cookie session", `first</th><td>EdDSA</td><td>Ed25519</td><td>3 h</td>`, `second</th><td>EdDSA</td><td>Ed25519</td><td>1 h</td>`,
		"1 h ago", "ends in 29 d, at ")
	testworld.Check(t, os.Remove(keys))
	if err := sessions.Ready(t.Context()); err != nil && !errors.Is(err, identity.ErrUnavailable) {
		t.Fatal(err)
	}
	w.contains(w.get("/sessions"), "The keys cannot be read: the file of keys cannot be read", "The last good ones are used")
	w.clock.Advance(40 * 24 * time.Hour)
	w.contains(w.get("/sessions"), "has ended: 2026-06-03T10:20:30Z")
}

// threats.md 174: no page has the value of a secret, a token or a text of the store of secrets, whatever the store says.
func TestNoPageHasASecret(t *testing.T) {
	w := newWorld(t, several)
	w.secrets["client"], w.secrets["trace"] = w.Secret("client"), w.Secret("trace")
	w.servers.Answer(testworld.Token(w.Word("the token"), 3600))
	for _, connector := range w.state.Set.Connectors[:2] {
		r := httptest.NewRequest(http.MethodGet, connector.Definition().URL, http.NoBody).WithContext(host.WithUser(t.Context(), host.User{ID: "ann"}))
		r.RequestURI = ""
		if response, err := connector.Upstream().Transport(nil).RoundTrip(r); err != nil {
			t.Errorf("%s: err = %v", connector.Definition().Permalink, err)
		} else {
			_ = response.Body.Close()
		}
	}
	for _, path := range []string{"/", "/connectors/orders", "/plugins", "/secrets", "/grants", "/configuration", "/sessions"} {
		w.contains(w.get(path), "</html>") // get searches it
	}
}
