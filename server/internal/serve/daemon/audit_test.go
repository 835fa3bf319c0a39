package daemon_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/serve/audit"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

// auditLines ends the gateway, and returns the lines of its audit log as auditLines does.
func (w *world) auditLines() []map[string]any {
	w.t.Helper()
	w.stop()
	text, _ := os.ReadFile(w.auditFile())
	w.Out("the audit log", string(text))
	return auditLines(w.t, w.auditFile())
}

// auditLines returns the lines of an audit log, which must fit, without those that are no uses.
func auditLines(t *testing.T, path string) (uses []map[string]any) {
	t.Helper()
	report, err := audit.Verify([]string{path}, "")
	if err != nil || report.Broken != nil || !report.Ended {
		t.Errorf("the audit log: %+v, %v", report, err)
	}
	text := testworld.Must(os.ReadFile(path))(t)
	for line := range strings.Lines(string(text)) {
		use := map[string]any{}
		testworld.Check(t, json.Unmarshal([]byte(line), &use))
		if use["use"] != "begin" && use["use"] != "end" && use["use"] != "act" {
			uses = append(uses, use)
		}
	}
	return uses
}

// textOf returns a short text for a line: its use, and those of its members with these names that are there.
func textOf(line map[string]any, names ...string) string {
	text := fmt.Sprint(line["use"])
	for _, name := range names {
		if line[name] != nil {
			text += fmt.Sprintf(" %s=%v", name, line[name])
		}
	}
	return text
}

const audited = `gateway:
  audit: {file: LOG}
  user: {type: header, header: {proxies: [127.0.0.1/32], id: X-User, tenant_id: X-Tenant, required: false}}
connectors:
  - name: Echo
    url: API/v1
    paths: [/notes/*]
    headers: [{name: X-Second, value: "{{ get_secret('second') }}"}]
    query: [{name: q, value: '', overridable: true}]
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('key') }}", in: header}}
  - name: Token
    url: API/v1
    auth: {type: oauth_client_credentials, config: {client_id: me, client_secret: "{{ get_secret('key') }}", token_url: API/token, client_auth: client_secret_basic}}
  - name: Missing
    url: API/v1
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('none') }}", in: header}}
`

// threats.md 181: each use of a credential has a line that says who used which, also one that failed, and that of an operator. No line
// has anything of a credential, of a path or of a query.
func TestAuditLog(t *testing.T) {
	c := testworld.NewCanaries(t)
	path, query, echoed := c.Word("the path"), c.Word("the query"), c.Word("the header")
	api := func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(rw, `{"access_token": %q, "token_type": "bearer", "expires_in": 3600}`, c.Hide("the token", "token-0123456789"))
			return
		}
		rw.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(rw, r.Header.Get("X-Key")+query)
	}
	w := start(t, api, audited, func(config *daemon.Config) {
		config.Options.Host.Secrets = host.MapSecrets{"key": c.Hide("the credential", secret), "second": c.Secret("the second secret")}
	})
	ann := http.Header{"X-User": {"ann"}, "X-Tenant": {"acme"}, "X-Echo": {echoed}}
	w.ask("GET", w.callers+"/connectors/echo/notes/"+path+"?q="+query, ann, "")
	w.ask("GET", w.callers+"/connectors/echo/"+path, ann, "")
	w.ask("GET", w.callers+"/connectors/none", ann, "")
	w.ask("PUT", w.callers+"/connectors/echo", ann, "")
	w.get(w.callers + "/connectors/token")
	w.get(w.callers + "/connectors/token")
	w.ask("GET", w.callers+"/connectors/missing", ann, "")
	w.test("echo", fmt.Sprintf(`{"path": "/notes/%s?q=%s", "user": {"id": "bob", "tenant_id": "acme"}, "headers": {"X-Echo": %q}}`, path, query, echoed))
	w.Canaries = c
	metrics := w.metrics("keywright_audit_writable 1", "keywright_audit_lost_total 0")
	var got []string
	ids := map[any]bool{}
	for _, line := range w.auditLines() {
		id := line["request_id"]
		if len(fmt.Sprint(id)) != 32 || len(fmt.Sprint(line["plugin_sha256"])) != 64 || line["node"] == nil || line["time"] == nil {
			t.Errorf("the line is %v", line)
		}
		ids[id] = true
		text := textOf(line, "tenant", "user", "connector", "type", "plugin", "origin", "method", "pattern", "status", "upstream_status", "stage", "secrets")
		got = append(got, strings.ReplaceAll(text, w.api.URL, "API"))
	}
	const (
		byEcho  = " connector=echo type=api_key plugin=built-in origin=API method=GET pattern=/notes/* status=502 upstream_status=403 secrets=[key second]"
		byToken = " connector=token type=oauth_client_credentials plugin=built-in origin=API"
		answer  = " method=GET status=403 upstream_status=403 secrets=[key]"
	)
	want := []string{
		"request tenant=acme user=ann" + byEcho, "token" + byToken + " secrets=[key]", "request" + byToken + answer, "request" + byToken + answer,
		"request tenant=acme user=ann connector=missing type=api_key plugin=built-in origin=API method=GET status=502 stage=template secrets=[none]",
		"test tenant=acme user=bob" + byEcho,
	}
	if !slices.Equal(got, want) {
		t.Errorf("the uses are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(ids) != 5 { // that of the token is that of its request
		t.Errorf("the request ids are %v", ids)
	}
	if strings.Contains(metrics, `keywright_requests_total{connector="echo",problem="credential-echoed",status="502"} 2`) || !strings.Contains(metrics, "keywright_audit_lines_total") {
		t.Errorf("the metrics are %s", metrics)
	}
}

// threats.md 179: while the audit log cannot be written, no credential is used, unless the operator prefers that.
func TestUnwritableAuditLog(t *testing.T) {
	for name, c := range map[string]struct {
		settings    string
		status      int
		body, ready string
		lines       int
	}{
		"refuse":   {"", http.StatusServiceUnavailable, "urn:keywright:problem:not-recorded", "no space left", 1},
		"continue": {", on_error: continue", http.StatusOK, "1 true", "ready\nthe audit log cannot be written: no space left\n", 2},
	} {
		t.Run(name, func(t *testing.T) {
			full := &fullDisk{failed: make(chan struct{}, 100)}
			w := start(t, version, "gateway: {audit: {stdout: true"+c.settings+"}}\n"+echo, func(config *daemon.Config) { config.Stdout = func() io.Writer { return full } })
			w.get(w.callers + "/connectors/echo")
			<-full.failed
			w.eventually("the log says so", func() bool { return strings.Contains(w.log.String(), "the audit log cannot be written") })
			if status, body := w.get(w.callers + "/connectors/echo"); status != c.status || !strings.Contains(body, c.body) {
				t.Errorf("status = %d body = %s", status, body)
			}
			if _, body := w.get(w.operators + "/readyz"); !strings.Contains(body, c.ready) {
				t.Errorf("/readyz says %s", body)
			}
			if _, page := w.get(w.operators + "/"); !strings.Contains(page, "The audit log cannot be written.</strong> <code>no space left</code>") {
				t.Errorf("the console shows %s", page)
			}
			w.metrics("keywright_audit_writable 0")
			full.free.Store(true)
			w.stop()
			log := testworld.File(t, "audit.log", full.String())
			if lines := auditLines(t, log); len(lines) != c.lines {
				t.Errorf("the uses are %v", lines)
			}
		})
	}
}

// fullDisk takes the first line only, until it is free.
type fullDisk struct {
	bytes.Buffer
	failed chan struct{}
	free   atomic.Bool
}

func (f *fullDisk) Write(p []byte) (int, error) {
	if f.Len() > 0 && !f.free.Load() {
		select {
		case f.failed <- struct{}{}:
		default:
		}
		return 0, errors.New("no space left")
	}
	return f.Buffer.Write(p)
}

// A change of the file cannot end the audit log, or lead it elsewhere.
func TestReloadKeepsTheAuditLog(t *testing.T) {
	const with = "gateway: {audit: {file: LOG}}\n" + echo
	w := start(t, version, with)
	for _, text := range []string{echo, strings.Replace(with, "LOG", "LOG.other", 1), strings.Replace(with, "LOG", "LOG, on_error: continue", 1)} {
		w.refuses(text, "gateway.audit cannot be added, changed or taken away while this runs: restart it")
	}
	w.use(strings.ReplaceAll(with, "Echo", "Other"))
	w.get(w.callers + "/connectors/other")
	if lines := w.auditLines(); len(lines) != 1 || lines[0]["connector"] != "other" {
		t.Errorf("the uses are %v", lines)
	}
}

// Requests in flight at the end have their lines, also the one that a caller has left.
func TestAuditLogAtEnd(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	endpoint := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		_, _ = io.WriteString(rw, `{"access_token": "token-0123456789", "token_type": "bearer", "expires_in": 3600}`)
	}))
	t.Cleanup(endpoint.Close)
	w := start(t, version, strings.ReplaceAll(audited, "API/token", endpoint.URL))
	left := make(chan struct{})
	go func() {
		defer close(left)
		client := &http.Client{Timeout: time.Second}
		if response, err := client.Get(w.callers + "/connectors/token"); err == nil {
			_ = response.Body.Close()
		}
	}()
	<-asked
	<-left
	w.eventually("the gateway knows that the caller has left", func() bool { return strings.Contains(w.metrics(), "caller-gone") })
	ended := make(chan error, 1)
	go func() { ended <- w.end() }()
	close(answer)
	testworld.Check(t, <-ended)
	var uses []string
	for _, line := range w.auditLines() {
		uses = append(uses, fmt.Sprint(line["use"], " ", line["problem"]))
	}
	slices.Sort(uses)
	if want := []string{"request caller-gone", "token <nil>"}; !slices.Equal(uses, want) {
		t.Errorf("the uses are %q, want %q", uses, want)
	}
}

const headerUsers = `user: {type: header, header: {proxies: [127.0.0.1/32], id: X-User, tenant_id: X-Tenant, required: false}}`

// With gateway.access_log, each request has a line, without its path and query, and with the user's ID only if the operator wants it.
func TestAccessLog(t *testing.T) {
	api := func(rw http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/gone") {
			rw.WriteHeader(http.StatusGone)
		}
	}
	for name, c := range map[string]struct {
		settings string
		lines    int
		user     any
	}{
		"off":        {"", 0, nil},
		"on":         {"access_log: true, ", 2, nil},
		"with users": {"access_log: true, access_log_users: true, ", 2, `a\u202en`}, // threats.md 21
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t, api, "gateway: {"+c.settings+headerUsers+"}\n"+echo+"    paths: [/notes/*]\n    query: [{name: q, value: '', overridable: true}]\n")
			w.ask("GET", w.callers+"/connectors/echo/notes/gone?q=private", http.Header{"X-User": {"a\u202en"}, "X-Tenant": {"acme"}}, "")
			w.ask("BREW", w.callers+"/connectors/echo/private", nil, "")
			w.stop()
			log := w.log.String()
			var lines []map[string]any
			for text := range strings.Lines(log) {
				line := map[string]any{}
				testworld.Check(t, json.Unmarshal([]byte(text), &line))
				if line["msg"] == "request" {
					lines = append(lines, line)
				}
			}
			if len(lines) != c.lines || strings.Contains(log, "private") {
				t.Fatalf("the log is %s", log)
			}
			if c.lines == 0 {
				return
			}
			for member, want := range map[string]any{
				"method": "GET", "connector": "echo", "pattern": "/notes/*", "tenant": "acme", "user": c.user, "status": 410.0, "upstream_status": 410.0, "problem": "",
			} {
				if lines[0][member] != want {
					t.Errorf("%s is %v, want %v", member, lines[0][member], want)
				}
			}
			total, isNumber := lines[0]["total_ms"].(float64)
			upstream := lines[0]["upstream_ms"].(float64)
			if !isNumber || upstream <= 0 || total < upstream || total > patience.Seconds()*1000 {
				t.Errorf("the times are %v and %v", total, upstream)
			}
			if lines[1]["method"] != "OTHER" || lines[1]["pattern"] != "" || lines[1]["upstream_status"] != 0.0 || lines[1]["status"] != 405.0 {
				t.Errorf("the line of a refused request is %v", lines[1])
			}
		})
	}
}

// checkUses checks the texts of the lines of auditLines. If sorted is set, their order does not count.
func (w *world) checkUses(sorted bool, want ...string) {
	w.t.Helper()
	var got []string
	for _, line := range w.auditLines() {
		got = append(got, textOf(line, "user", "connector", "pattern", "status", "upstream_status", "problem", "stage", "sent", "token_requests", "key_requests"))
	}
	if sorted {
		slices.Sort(got)
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("the uses are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const consented = `gateway:
  audit: {file: LOG}
  user: {type: header, header: {proxies: [127.0.0.1/32], id: X-User, tenant_id: X-Tenant}}
connectors:
  - name: Drive
    url: API/v1
    auth: {type: oauth_authorization_code, config: {client_id: me, client_secret: "{{ get_secret('key') }}", token_url: LOGIN/token, authorization_url: LOGIN/authorize, revocation_url: LOGIN/revoke}}
`

// threats.md 181: the begin and the end of a user's consent, also one that the authorization server refuses, the uses of the connection
// and its end have a line each, and none has a code, a state, a verifier, a cookie or a token.
func TestAuditLogOfAConsent(t *testing.T) {
	c := testworld.NewCanaries(t)
	var refuses atomic.Bool
	issued := c.Issued(time.Now)
	login := httptest.NewServer(answering(c, func(r *http.Request) (*http.Response, error) {
		if err := r.ParseForm(); err != nil {
			return nil, err
		}
		c.HideSent(testworld.Request{Body: r.PostForm.Encode()}, "")
		switch {
		case r.URL.Path == "/revoke":
			return testworld.Response(http.StatusOK, ""), nil
		case refuses.Load():
			return testworld.Refused(r)
		}
		return issued(r)
	}))
	t.Cleanup(login.Close)
	w := start(t, version, strings.ReplaceAll(consented, "LOGIN", login.URL), func(config *daemon.Config) {
		config.Options.Host.State = memoryState(t)
		config.Options.Host.Secrets = host.MapSecrets{"key": c.Secret("the client's secret")}
	})
	w.Canaries = c
	ann := &browser{w: w, user: "ann", tenant: "acme"}
	for _, refused := range []bool{true, false} {
		refuses.Store(refused)
		ann.send("GET", ann.begin(c, "drive"))
	}
	ann.send("GET", "/connectors/drive")
	ann.send("DELETE", "/connect/drive")
	ann.send("GET", "/connectors/drive")
	w.checkUses(false,
		"consent user=ann connector=drive pattern=/connect/{permalink} status=200",
		"token user=ann connector=drive stage=token token_requests=1",
		"callback user=ann connector=drive pattern=/connect/callback/{permalink} status=502 problem=consent-failed stage=token",
		"consent user=ann connector=drive pattern=/connect/{permalink} status=200",
		"token user=ann connector=drive token_requests=1",
		"callback user=ann connector=drive pattern=/connect/callback/{permalink} status=303",
		"token user=ann connector=drive token_requests=1",
		"request user=ann connector=drive status=200 upstream_status=200 sent=1",
		"token user=ann connector=drive token_requests=1",
		"disconnect user=ann connector=drive pattern=/connect/{permalink} status=204",
		"request user=ann connector=drive status=403 problem=not-connected stage=token",
	)
}

// browser is a user's browser.
type browser struct {
	w            *world
	user, tenant string
	cookie       *http.Cookie
}

// send sends a request to a path or a URL.
func (b *browser) send(method, target string) (status int, body string) {
	b.w.t.Helper()
	if strings.HasPrefix(target, "/") {
		target = b.w.callers + target
	}
	header := http.Header{"X-User": {b.user}, "X-Tenant": {b.tenant}, "Accept": {"application/json"}}
	if b.cookie != nil {
		header.Set("Cookie", b.cookie.Name+"="+b.cookie.Value)
	}
	response, body := b.w.ask(method, target, header, "")
	if cookies := (&http.Response{Header: response.Header}).Cookies(); len(cookies) > 0 {
		b.cookie = cookies[0]
	}
	return response.StatusCode, body
}

// begin begins a consent, and returns the callback with a code.
func (b *browser) begin(c *testworld.Canaries, connector string) string {
	b.w.t.Helper()
	var begun struct{ URL string }
	status, body := b.send("GET", "/connect/"+connector)
	if err := json.Unmarshal([]byte(body), &begun); err != nil || b.cookie == nil {
		b.w.t.Fatalf("the consent does not begin: %d %s", status, body)
	}
	c.Hide("the cookie of a consent", b.cookie.Value)
	to := testworld.Must(url.Parse(begun.URL))(b.w.t)
	state := c.Hide("the state of a consent", to.Query().Get("state"))
	return to.Query().Get("redirect_uri") + "?" + url.Values{"state": {state}, "code": {c.Word("a code")}}.Encode()
}

// memoryState returns a state in memory.
func memoryState(t *testing.T) *host.State {
	t.Helper()
	s := testworld.Must(host.NewState(t.Context(), host.StateConfig{Store: state.NewMemory(time.Now), Keys: [][]byte{make([]byte, 32)}}))(t)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// signer is a store with one key.
type signer struct{ key ed25519.PrivateKey }

func (s signer) Describe(context.Context, host.Key) (host.KeyInfo, error) {
	return host.KeyInfo{Type: "ed25519", Version: 1, Public: s.key.Public()}, nil
}

func (s signer) Sign(_ context.Context, _ host.Key, _ string, data []byte) ([]byte, int, error) {
	return ed25519.Sign(s.key, data), 1, nil
}

// threats.md 181: a use of a key that stays in its store is a line beside that of its request, which has nothing of the signature.
func TestAuditLogOfAKey(t *testing.T) {
	c := testworld.NewCanaries(t)
	_, key, err := ed25519.GenerateKey(rand.Reader)
	testworld.Check(t, err)
	text := "gateway: {audit: {file: LOG}}\nconnectors:\n" +
		`  - {name: Signed, url: API/v1, auth: {type: jwt, config: {algorithm: EdDSA, private_key: "{{ get_key('orders') }}", claims: {sub: ann}}}}` + "\n"
	w := start(t, answering(c, testworld.Respond(http.StatusOK, "well")), text, func(config *daemon.Config) { config.Options.Host.Keys = signer{key} })
	w.Canaries = c
	for range 2 {
		w.get(w.callers + "/connectors/signed")
	}
	w.checkUses(false,
		"key connector=signed key_requests=1",
		"request connector=signed status=200 upstream_status=200 sent=1",
		"key connector=signed key_requests=1",
		"request connector=signed status=200 upstream_status=200 sent=1",
	)
}

const tokens = `gateway: {audit: {file: LOG}}
connectors:
  - name: Orders
    url: API/v1
    refresh_ahead: 5m
    auth: {type: oauth_client_credentials, config: {client_id: me, client_secret: "{{ get_secret('key') }}", token_url: API/token}}
`

// tokenWorld is a gateway whose connector gets tokens for an hour, and whose clock belongs to the test.
type tokenWorld struct {
	*world
	ahead atomic.Int64
	// refuse is the number of requests that the API refuses next, with 401.
	refuse atomic.Int64
	// asked counts the token requests.
	asked atomic.Int64
}

func startTokens(t *testing.T) *tokenWorld {
	t.Helper()
	w := &tokenWorld{}
	began := time.Now()
	api := func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/token":
			rw.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(rw, `{"access_token": "token-0123456789-%d", "token_type": "bearer", "expires_in": 3600}`, w.asked.Add(1))
		case w.refuse.Add(-1) >= 0:
			rw.WriteHeader(http.StatusUnauthorized)
		}
	}
	w.world = start(t, api, tokens, func(config *daemon.Config) {
		config.Options.Host.Clock = func() time.Time { return began.Add(time.Duration(w.ahead.Load())) }
	})
	return w
}
