package console_test

import (
	"context"
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/operate/activity"
	"github.com/keywright/keywright/server/internal/operate/acts"
	"github.com/keywright/keywright/server/internal/operate/connections"
	"github.com/keywright/keywright/server/internal/operate/console"
	"github.com/keywright/keywright/server/internal/operate/records"
	"github.com/keywright/keywright/server/internal/serve/audit"
	"github.com/keywright/keywright/server/statedb/sqlite"
)

// oneKey is a file with a connector that sends a key.
const oneKey = `
connectors:
  - name: Orders
    permalink: orders
    url: https://api.example.com/orders
    paths: [/**]
    auth: {type: api_key, config: {in: header, key: Authorization, value: "Bearer {{ get_secret('key') }}"}}
`

// links returns the paths of the pages and files that a page refers to.
func links(body string) (all []string) {
	for _, match := range regexp.MustCompile(`(?:href|src)="(/[^"#]*)"`).FindAllStringSubmatch(body, -1) {
		all = append(all, match[1])
	}
	return all
}

// threats.md 151
func TestNoOtherSiteReadsFramesOrKeepsAPage(t *testing.T) {
	w := newWorld(t, oneKey)
	for _, path := range append([]string{"/"}, links(w.get("/").body)...) {
		answer := w.get(path)
		if answer.status != http.StatusOK {
			t.Errorf("%s: answer.status = %d answer.body = %s", path, answer.status, answer.body)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy":     "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"Access-Control-Allow-Origin": "",
		} {
			if got := answer.header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if strings.Contains(answer.body, " style=") || strings.Contains(answer.body, "<style") || regexp.MustCompile(`<script[^>]*>[^<]| on[a-z]+=`).MatchString(answer.body) {
			t.Errorf("%s has a style or a script that the policy refuses", path)
		}
	}
}

func TestPageSize(t *testing.T) {
	w := newWorld(t, oneKey)
	size := len(w.get("/").body)
	for _, path := range []string{"/console.css", "/console.js"} {
		size += len(w.get(path).body)
	}
	if size > 100_000 {
		t.Errorf("a page with its files has %d bytes", size)
	}
}

func TestUnknownPaths(t *testing.T) {
	w := newWorld(t, oneKey)
	for _, path := range []string{"/connector", "/x", "/pages/layout.html", "/console.map"} {
		if status := w.get(path).status; status != http.StatusNotFound {
			t.Errorf("%s: status = %d", path, status)
		}
	}
}

func TestRefusedFileOnPages(t *testing.T) {
	w := newWorld(t, oneKey)
	w.state.Refused, w.state.Problems = now, []console.Problem{{Text: "28:9: client_secrt is not known here"}, {Text: "30:1: another"}}
	if body := w.get("/").body; !strings.Contains(body, "28:9: client_secrt is not known here</code> and 1 more") {
		t.Errorf("the page is\n%s", body)
	}
}

func TestAuditFailureOnPages(t *testing.T) {
	w := newWorld(t, oneKey)
	w.state.Unrecorded = "no space left on <device>"
	for _, path := range []string{"/", "/configuration"} {
		if body := w.get(path).body; !strings.Contains(body, "The audit log cannot be written.</strong> <code>no space left on &lt;device&gt;</code>") {
			t.Errorf("the page %s is\n%s", path, body)
		}
	}
}

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

func TestSecretUseShown(t *testing.T) {
	w := newWorld(t, several)
	w.secrets["client"] = w.Secret("client")
	w.contains(
		w.get("/secrets"), `2 secrets are not found`, "The store of state needs it", `<code>headers.X-Trace</code>`,
		"Cached tokens are not used any more", "Grants stay", "The next request has the new value: the API has to accept it before",
	)
	w.shows("/secrets", "client ✓ found 2 connectors", "trace ✗ the secret is not found orders", "tenants/*/mail one for each tenant")
	if page := plain(w.get("/secrets").body); strings.Index(page, "trace ✗ the secret is not found") > strings.Index(page, "client ✓ found") {
		t.Errorf("what is missing does not come first: %s", page)
	}
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
	w.contains(w.get("/sessions"), "https://id.example.com", "the cookie session", "1 h ago", "ends in 29 d, at ")
	w.shows("/sessions", "first EdDSA Ed25519 3 h", "second EdDSA Ed25519 1 h")
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
	for _, path := range []string{"/", "/connectors/orders", "/failures", "/plugins", "/secrets", "/connections", "/nodes", "/configuration", "/sessions"} {
		w.contains(w.get(path), "</html>") // get searches it
	}
}

// before is a file, and after what became of it. Both have credentials that somebody has written into them, in $1 and $2.
const (
	before = `
gateway: {hosts: [gw.example.com]}
connectors:
  - {name: Gone, permalink: gone, url: https://api.example.com, auth: {type: api_key, config: {in: header, key: X-Key, value: "$1 {{ get_secret('key') }}"}}}
  - {name: Same, permalink: same, url: https://api.example.com, egress: {allow: [10.0.0.0/8]}, auth: {type: api_key, config: {in: header, key: X-Key, value: "$1 {{ get_secret('key') }}"}}}
  - name: Orders
    permalink: orders
    url: https://api.example.com/hooks/$1?key=$1
    headers: [{name: X-Trace, value: $1}, {name: X-Old, value: $1}]
    auth: {type: api_key, config: {in: header, key: X-Key, value: "$1 {{ get_secret('key') }}"}}
`
	after = `
gateway: {hosts: [gw.example.com], access_log: true}
connectors:
  - {name: Same, permalink: same, url: https://api.example.com, egress: {allow: [10.0.0.0/8]}, auth: {type: api_key, config: {in: header, key: X-Key, value: "$1 {{ get_secret('key') }}"}}}
  - {name: New, permalink: new, url: https://api.example.com, auth: {type: api_key, config: {in: header, key: X-Key, value: "$2 {{ get_secret('key') }}"}}}
  - name: Orders
    permalink: orders
    url: https://api2.example.com/hooks/$2?key=$2
    method: [GET, POST]
    headers: [{name: X-Trace, value: $2}]
    timeout: 5s
    auth: {type: api_key, config: {in: header, key: X-Key, value: "$2 {{ get_secret('key') }}"}}
`
)

// set returns the connectors of a file, with the literal credentials of the world in it.
func (w *world) set(file string) *connectors.Set {
	w.t.Helper()
	text := strings.NewReplacer("$1", w.literal(1), "$2", w.literal(2)).Replace(file)
	set, err := connectors.Read(w.t.Context(), "connectors.yaml", []byte(text), connectors.Options{WithoutStore: true, Host: host.Config{Secrets: w.secrets}})
	testworld.Check(w.t, err)
	w.t.Cleanup(func() { _ = set.Close(context.Background()) }) // there are no calls
	return set
}

// literal returns a credential that is in a file.
func (w *world) literal(n int) string {
	name := "literal-" + string(rune('0'+n))
	if w.secrets[name] == "" {
		w.secrets[name] = w.Word(name)
	}
	return w.secrets[name]
}

func TestMain(m *testing.M) { os.Exit(testworld.InSharedDir(&codeCache, m.Run)) }

// now is the time at which a world begins.
var now = time.Date(2026, 5, 4, 10, 20, 30, 0, time.UTC)

// world has a gateway with the connectors of a file, and its console. Every page is searched for the secrets.
type world struct {
	*testworld.Canaries
	t       testing.TB
	clock   *testworld.Clock
	log     testworld.Log
	secrets host.MapSecrets
	// servers answers requests of the gateway to APIs and token endpoints.
	servers     *testworld.Server
	gateway     *gateway.Gateway
	recorder    *activity.Recorder
	connections *connections.Connections
	acts        *acts.Log
	state       console.State
	console     http.Handler
	// nodes are the reports of other nodes, and note says what they lack. find is that of the store, or nil.
	nodes []*activity.Report
	note  string
	find  func(context.Context, string) (*activity.Failure, error)
}

// openRecords opens a store in memory for connections and acts.
func (w *world) openRecords(set *connectors.Set) {
	w.t.Helper()
	db := testworld.Must(sqlite.OpenMemory(w.t.Context(), sqlite.Options{}))(w.t)
	state := testworld.Must(host.NewState(w.t.Context(), host.StateConfig{Store: db, Keys: [][]byte{[]byte("a state key of 32 bytes, for all")}}))(w.t)
	w.t.Cleanup(func() { _ = errors.Join(state.Close(context.Background()), db.Close()) })
	store := &records.Store{Records: db, State: state}
	w.connections = connections.New(connections.Config{Clock: w.clock.Now, Node: "a", Store: store, Logger: w.log.Logger(), Connector: func(permalink string) *gateway.Connector {
		for _, c := range set.Connectors {
			if c.Definition().Permalink == permalink {
				return c
			}
		}
		return nil
	}})
	w.acts = acts.New(acts.Config{Node: "a", Clock: w.clock.Now, Logger: w.log.Logger(), Audit: func() *audit.Log { return nil }, Store: store})
}

// newWorld returns a world with the connectors of a file.
func newWorld(t testing.TB, file string) *world {
	t.Helper()
	w := &world{Canaries: testworld.NewCanaries(t), t: t, clock: testworld.NewClock(now), secrets: host.MapSecrets{}, servers: testworld.NewServer(testworld.Respond(http.StatusOK, "fine"))}
	w.secrets["key"] = w.Secret("key")
	w.recorder = activity.New(activity.Config{Clock: w.clock.Now, Node: "a"})
	w.gateway = gateway.New(gateway.Config{Logger: w.log.Logger(), Clock: w.clock.Now, Base: w.servers, Observe: func(e gateway.Event) { w.recorder.Request(&e) }})
	set := testworld.Must(connectors.Read(t.Context(), "connectors.yaml", []byte(file), connectors.Options{WithoutStore: true, Host: host.Config{
		Secrets: w.secrets, Clock: w.clock.Now, Logger: w.log.Logger(), Base: w.servers, CodeCache: codeCache,
		Observe: func(ctx context.Context, attempt host.Attempt) {
			w.recorder.Attempted(&attempt)
			gateway.Observe(ctx, attempt)
		},
	}}))(t)
	t.Cleanup(func() {
		_ = set.Close(context.Background()) // its calls have ended
		w.Out("log", w.log.String())
	})
	w.gateway.Use(gateway.Setup{Connectors: set.Connectors})
	w.openRecords(set)
	w.state = console.State{File: "connectors.yaml", Set: set, Used: now}
	mux := http.NewServeMux()
	for pattern, handler := range console.New(console.Config{
		Version: "v1.2.3", Started: now, Clock: w.clock.Now, Logger: w.log.Logger(), Gateway: w.gateway,
		Connections: w.connections, Acts: w.acts, State: func() console.State { return w.state },
		View: func(context.Context) (*activity.View, string) {
			return activity.Merge(append([]*activity.Report{w.recorder.Report(w.clock.Now())}, w.nodes...), w.clock.Now()), w.note
		},
		Find: func(ctx context.Context, id string) (*activity.Failure, error) {
			if f := w.recorder.Find(id); f != nil || w.find == nil {
				return f, nil
			}
			return w.find(ctx, id)
		},
		Fuel: func(authType string) console.Fuel {
			if authType != "api_key" {
				return console.Fuel{}
			}
			return console.Fuel{Runs: 3, Median: 10_000, Worst: 31_337}
		},
	}).Routes() {
		mux.Handle(pattern, handler)
	}
	w.console = mux
	return w
}

// answer is an answer of the console.
type answer struct {
	status int
	header http.Header
	body   string
}

// ask sends a request to the console.
func (w *world) ask(r *http.Request) answer {
	w.t.Helper()
	recorder := httptest.NewRecorder()
	w.console.ServeHTTP(recorder, r)
	w.Out(r.Method+" "+r.URL.Path, recorder.Body.String())
	return answer{recorder.Code, recorder.Header(), recorder.Body.String()}
}

// get returns a page.
func (w *world) get(path string) answer {
	w.t.Helper()
	return w.ask(httptest.NewRequest(http.MethodGet, "http://localhost"+path, http.NoBody))
}

// plain returns the text of a page without tags, and with single blanks.
func plain(page string) string {
	_, page, _ = strings.Cut(page, "<main")
	return strings.Join(strings.Fields(html.UnescapeString(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, " "))), " ")
}
