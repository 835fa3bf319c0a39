package daemon_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/serve/audit"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

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
		if use["use"] != "begin" && use["use"] != "end" {
			uses = append(uses, use)
		}
	}
	return uses
}

// use has the members of a line that tests compare.
type use struct{ use, id, user, connector, origin, method, pattern, status, stage, secrets string }

func useOf(line map[string]any) use {
	text := func(name string) string {
		if line[name] == nil {
			return ""
		}
		return fmt.Sprint(line[name])
	}
	return use{
		text("use"), text("request_id"), text("tenant") + "/" + text("user"), text("connector") + " " + text("type") + " " + text("plugin"), text("origin"),
		text("method"), text("pattern"), text("status") + " " + text("upstream_status"), text("stage"), text("secrets"),
	}
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
	log := filepath.Join(t.TempDir(), "audit.log")
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
	w := start(t, api, strings.ReplaceAll(audited, "LOG", log), func(config *daemon.Config) {
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
	_, metrics := w.get(w.operators + "/metrics")
	w.stop()
	lines := auditLines(t, log)
	text, _ := os.ReadFile(log)
	c.Out("the audit log", string(text))
	var got []use
	ids := map[string]bool{}
	for _, line := range lines {
		u := useOf(line)
		if len(u.id) != 32 || len(fmt.Sprint(line["plugin_sha256"])) != 64 || line["node"] == nil || line["time"] == nil {
			t.Errorf("the line is %v", line)
		}
		ids[u.id], u.id = true, ""
		u.origin = strings.ReplaceAll(u.origin, w.api.URL, "API")
		got = append(got, u)
	}
	want := []use{
		{"request", "", "acme/ann", "echo api_key built-in", "API", "GET", "/notes/*", "502 403", "", "[key second]"},
		{"token", "", "/", "token oauth_client_credentials built-in", "API", "", "", " ", "", "[key]"},
		{"request", "", "/", "token oauth_client_credentials built-in", "API", "GET", "", "403 403", "", "[key]"},
		{"request", "", "/", "token oauth_client_credentials built-in", "API", "GET", "", "403 403", "", "[key]"},
		{"request", "", "acme/ann", "missing api_key built-in", "API", "GET", "", "502 ", "template", "[none]"},
		{"test", "", "acme/bob", "echo api_key built-in", "API", "GET", "/notes/*", "502 403", "", "[key second]"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("the uses are\n%v\nwant\n%v", got, want)
	}
	if len(ids) != 5 { // that of the token is that of its request
		t.Errorf("the request ids are %v", ids)
	}
	if strings.Contains(metrics, `keywright_requests_total{connector="echo",problem="credential-echoed",status="502"} 2`) || !strings.Contains(metrics, "keywright_audit_writable 1") ||
		!strings.Contains(metrics, "keywright_audit_lost_total 0") || !strings.Contains(metrics, "keywright_audit_lines_total") {
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
			w := start(t, version, "gateway: {audit: {stdout: true"+c.settings+"}}\n"+echo, func(config *daemon.Config) { config.Stdout = full })
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
			if _, metrics := w.get(w.operators + "/metrics"); !strings.Contains(metrics, "keywright_audit_writable 0") {
				t.Error("the metrics do not say so")
			}
			full.free.Store(true)
			w.stop()
			log := testworld.File(t, "audit.log", string(full.Bytes()))
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
	log := filepath.Join(t.TempDir(), "audit.log")
	with := fmt.Sprintf("gateway: {audit: {file: %q}}\n", log) + echo
	w := start(t, version, with)
	for _, text := range []string{echo, strings.Replace(with, "audit.log", "other.log", 1), strings.Replace(with, "audit.log\"", "audit.log\", on_error: continue", 1)} {
		w.write(text)
		w.says("gateway.audit cannot be added, changed or taken away while this runs: restart it")
	}
	w.use(strings.ReplaceAll(with, "Echo", "Other"))
	w.get(w.callers + "/connectors/other")
	w.stop()
	if lines := auditLines(t, log); len(lines) != 1 || lines[0]["connector"] != "other" {
		t.Errorf("the uses are %v", lines)
	}
}

// Requests in flight at the end have their lines, also the one that a caller has left.
func TestAuditLogAtEnd(t *testing.T) {
	log := filepath.Join(t.TempDir(), "audit.log")
	asked, answer := make(chan struct{}), make(chan struct{})
	endpoint := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		_, _ = io.WriteString(rw, `{"access_token": "token-0123456789", "token_type": "bearer", "expires_in": 3600}`)
	}))
	t.Cleanup(endpoint.Close)
	w := start(t, version, strings.NewReplacer("LOG", log, "API/token", endpoint.URL).Replace(audited))
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
	w.eventually("the gateway knows that the caller has left", func() bool {
		_, page := w.get(w.operators + "/metrics")
		return strings.Contains(page, "caller-gone")
	})
	ended := make(chan error, 1)
	go func() { ended <- w.end() }()
	close(answer)
	if err := <-ended; err != nil {
		t.Error(err)
	}
	var uses []string
	for _, line := range auditLines(t, log) {
		uses = append(uses, fmt.Sprint(line["use"], " ", line["problem"]))
	}
	slices.Sort(uses)
	if want := []string{"request caller-gone", "token <nil>"}; !slices.Equal(uses, want) {
		t.Errorf("the uses are %q, want %q", uses, want)
	}
}
