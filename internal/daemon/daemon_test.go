package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/connectors"
	"github.com/keywright/keywright/internal/daemon"
)

const secret = "s3cr3t-of-the-api-0123456789"

// world is a gateway that runs from a file, before an API that answers with what it got.
type world struct {
	t                  *testing.T
	file               string
	api                *httptest.Server
	callers, operators string
	logged             chan string // what the log said of a configuration, or a certificate
	end                func() error

	mu  sync.Mutex
	log bytes.Buffer
}

// Write is the log.
func (w *world) Write(line []byte) (int, error) {
	w.mu.Lock()
	w.log.Write(line)
	w.mu.Unlock()
	var said struct{ Msg, Problem, Error string }
	if err := json.Unmarshal(line, &said); err == nil && strings.HasPrefix(said.Msg, "the c") {
		w.logged <- said.Msg + ": " + said.Problem + said.Error
	}
	return len(line), nil
}

func start(t *testing.T, api http.HandlerFunc, text string) *world {
	t.Helper()
	w := &world{t: t, file: filepath.Join(t.TempDir(), "connectors.yaml"), logged: make(chan string, 10)}
	w.api = httptest.NewServer(api)
	t.Cleanup(w.api.Close)
	w.write(text)
	ctx, cancel := context.WithCancel(context.Background())
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Config{
			File: w.file, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Logger: slog.New(slog.NewJSONHandler(w, nil)),
			Options: connectors.Options{Host: host.Config{Secrets: host.MapSecrets{"key": secret}, Egress: host.Egress{AllowHTTP: true, AllowPrivate: true}}},
			Started: func(callers, operators string) {
				w.callers, w.operators = callers, operators
				close(started)
			},
		})
	}()
	select {
	case <-started:
	case err := <-ended:
		t.Fatal(err)
	}
	w.end = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := w.end(); err != nil {
			t.Error(err)
		}
		if strings.Contains(w.log.String(), secret) {
			t.Error("the log holds the credential")
		}
	})
	return w
}

// write replaces the file, as editors do.
func (w *world) write(text string) {
	w.t.Helper()
	temporary := w.file + ".new"
	if err := os.WriteFile(temporary, []byte(strings.ReplaceAll(text, "API", w.api.URL)), 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(temporary, w.file); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) get(url string) (status int, body string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, url, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	response, err := transport.RoundTrip(r)
	if err != nil {
		w.t.Error(err)
		return 0, ""
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Error(err)
	}
	return response.StatusCode, string(content)
}

const echo = `connectors:
  - name: Echo
    url: API/v1
    headers: [{name: X-Version, value: "1"}]
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('key') }}", in: header}}
`

func version(w http.ResponseWriter, r *http.Request) {
	_, _ = fmt.Fprintf(w, "%s %t", r.Header.Get("X-Version"), r.Header.Get("X-Key") == secret)
}

func TestReload(t *testing.T) {
	w := start(t, version, echo)
	check := func(want string) {
		t.Helper()
		if status, body := w.get(w.callers + "/connectors/echo"); status != http.StatusOK || body != want {
			t.Errorf("%d %s, want %s", status, body, want)
		}
	}
	check("1 true")
	w.write(strings.Replace(echo, `"1"`, `"2"`, 1))
	if got := <-w.logged; got != "the configuration is in use: " {
		t.Errorf("the log says %s", got)
	}
	check("2 true")
	w.write(strings.Replace(echo, "api_key", "api_kye", 1)) // all or nothing
	if got := <-w.logged; !strings.Contains(got, "is not used") || !strings.Contains(got, `5:18: connectors.echo.auth.type: there is no auth type "api_kye"`) {
		t.Errorf("the log says %s", got)
	}
	check("2 true")
	if status, _ := w.get(w.operators + "/readyz"); status != http.StatusOK {
		t.Errorf("/readyz is %d with a bad file", status)
	}
	w.write(echo)
	<-w.logged
	check("1 true")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if got := <-w.logged; got != "the configuration is in use: " {
		t.Errorf("on SIGHUP, the log says %s", got)
	}
	check("1 true")
}

// A connector that is gone is in the metrics no more: no label grows without bound.
func TestMetricsOfWhatIsThere(t *testing.T) {
	w := start(t, version, echo+strings.Replace(strings.TrimPrefix(echo, "connectors:\n"), "Echo", "Other", 1))
	w.get(w.callers + "/connectors/echo")
	w.get(w.callers + "/connectors/other")
	shown := func(connector string) bool {
		_, page := w.get(w.operators + "/metrics")
		return strings.Contains(page, `connector="`+connector+`"`)
	}
	if !shown("echo") || !shown("other") {
		t.Fatal("the metrics do not show the connectors")
	}
	w.write(echo)
	<-w.logged
	for range 1000 { // until the connector is closed, which nobody waits for
		if !shown("other") {
			break
		}
	}
	if shown("other") || !shown("echo") {
		t.Error("the metrics show a connector that is gone, or not the one that is there")
	}
}

// With gateway.access_log, requests that go well are in the log, without their paths and queries.
func TestAccessLog(t *testing.T) {
	for _, wanted := range []bool{false, true} {
		w := start(t, version, fmt.Sprintf("gateway: {access_log: %t}\n", wanted)+echo+"    query: [{name: q, value: '', overridable: true}]\n")
		w.get(w.callers + "/connectors/echo?q=private")
		if err := w.end(); err != nil {
			t.Error(err)
		}
		if got := w.log.String(); strings.Contains(got, `"msg":"request","request_id":`) != wanted || strings.Contains(got, "private") {
			t.Errorf("access_log %t: the log is %s", wanted, got)
		}
	}
}

// No request is lost while the file changes and the server ends, and nothing stays behind.
func TestRequestsInFlightWhileTheFileChanges(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	there, release := make(chan struct{}), make(chan struct{})
	w := start(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/slow" {
			there <- struct{}{}
			<-release
		}
		version(rw, r)
	}, echo+"    paths: [/slow]\n")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if status, body := w.get(w.callers + "/connectors/echo/slow"); status != http.StatusOK || !strings.HasSuffix(body, " true") {
				t.Errorf("a request in flight: %d %s", status, body)
			}
		})
		<-there
		w.write(strings.Replace(echo+"    paths: [/slow]\n", `"1"`, `"2"`, 1))
		<-w.logged
	}
	done := make(chan error)
	go func() { done <- w.end() }()
	close(release)
	all.Wait()
	if err := <-done; err != nil {
		t.Error(err)
	}
	w.api.Close()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestFileThatIsBadFromTheStart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "connectors.yaml")
	if err := os.WriteFile(file, []byte("connectors: [{name: A}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	err := daemon.Run(t.Context(), daemon.Config{File: file, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "connectors.a.url: is missing") {
		t.Errorf("the error is %v", err)
	}
}

func TestOperators(t *testing.T) {
	w := start(t, version, echo)
	for range 3 {
		w.get(w.callers + "/connectors/echo")
	}
	w.get(w.callers + "/connectors/of-a-caller")
	w.get(w.callers + "/connectors/echo?q=of-a-caller")
	status, metrics := 0, ""
	for range 100 { // a request is counted once its answer has been written, which its caller may have read by then
		if status, metrics = w.get(w.operators + "/metrics"); strings.Contains(metrics, `status="200"} 4`) {
			break
		}
	}
	for _, line := range []string{
		`keywright_requests_total{connector="echo",problem="",status="200"} 4`,
		`keywright_requests_total{connector="",problem="unknown-connector",status="404"} 1`,
		`keywright_authentications_total{connector="echo",from="reuse"} 3`,
		`keywright_upstream_seconds_count{connector="echo"} 4`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("/metrics (%d) has no line %s", status, line)
		}
	}
	if strings.Contains(metrics, "of-a-caller") || strings.Contains(metrics, secret) {
		t.Error("/metrics has what callers send")
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/debug/pprof/": 200, "/connectors/echo": 404} {
		if status, _ := w.get(w.operators + path); status != want {
			t.Errorf("operators get %d for %s, want %d", status, path, want)
		}
	}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/healthz", "/connectors/echo/test"} { // threats.md 22
		if status, _ := w.get(w.callers + path); status != http.StatusNotFound {
			t.Errorf("callers get %d for %s", status, path)
		}
	}
}

// What an operator tries is sent, and shown without the credential.
func TestTry(t *testing.T) {
	w := start(t, version, strings.Replace(echo, "/v1", "/v1?units={{ user.email }}", 1)+"    method: POST\n    request: '{\"q\":{{ json_encode(body_text) }}}'\n")
	body := strings.NewReader(`{"body":"hello ü","user":{"email":"ann@example.com"}}`)
	response, err := http.Post(w.operators+"/connectors/echo/test", "application/json", body)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, _ := io.ReadAll(response.Body)
	header := response.Header.Get("X-Debug-Request")
	var shown map[string]any
	if err := json.Unmarshal([]byte(header), &shown); err != nil || response.StatusCode != http.StatusOK || string(answer) != "1 true" {
		t.Fatalf("%d %s, %s: %v", response.StatusCode, answer, header, err)
	}
	authentication, _ := json.Marshal(shown["authentication"])
	if shown["url"] != w.api.URL+"/v1?units=ann%40example.com" || shown["method"] != "POST" || shown["request_body"] != `{"q":"hello ü"}` || shown["response_body"] != "1 true" ||
		string(authentication) != `{"headers":{"X-Key":"{{ get_secret('key') }}"},"query":"","type":"api_key"}` {
		t.Errorf("X-Debug-Request is %s", header)
	}
	if strings.Contains(header, secret) {
		t.Error("X-Debug-Request holds the credential")
	}
}

// An operator is told why a test failed, and the user of one has the names that templates have.
func TestTryThatFails(t *testing.T) {
	w := start(t, version, strings.Replace(echo, "/v1", "/v1?units={{ tenant_id }}", 1))
	for body, want := range map[string]string{
		`{"user":{"tenant_id":"t1"}}`: "1 true",
		`{}`:                          `"cause":"url: column `,
		`{"usr":{}}`:                  `unknown field \"usr\"`,
	} {
		response, err := http.Post(w.operators+"/connectors/echo/test", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if text := strings.ReplaceAll(string(answer), `\\`, `\`); !strings.Contains(text, want) || strings.Contains(text, "upstream-failed") {
			t.Errorf("%s: %s, want %s", body, answer, want)
		}
	}
}

// Half a file may be well-formed: it does not open to everybody what needed a session.
func TestUsersAreNotTakenAway(t *testing.T) {
	users := "gateway: {user: {type: header, header: {proxies: [192.0.2.1], email: X-Email}}}\n"
	w := start(t, version, users+echo)
	w.write(echo)
	if got := <-w.logged; !strings.Contains(got, "is not used") {
		t.Errorf("the log says %s", got)
	}
	if status, _ := w.get(w.callers + "/connectors/echo"); status != http.StatusUnauthorized {
		t.Errorf("without a session: %d", status)
	}
}

// A change of something else does not lose the keys of sessions: their issuer may be down.
func TestKeysOutliveAChange(t *testing.T) {
	down := atomic.Bool{}
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"keys":[]}`)
	}))
	t.Cleanup(issuer.Close)
	users := "gateway: {user: {type: jwt, jwt: {bearer: true, jwks_url: '" + issuer.URL + "', issuer: https://id.example.com, audiences: gateway}}}\n"
	w := start(t, version, users+echo)
	ready := func(want int) {
		t.Helper()
		if status, body := w.get(w.operators + "/readyz"); status != want {
			t.Errorf("/readyz is %d %s, want %d", status, body, want)
		}
	}
	use := func(text string) {
		t.Helper()
		w.write(text)
		if got := <-w.logged; got != "the configuration is in use: " {
			t.Errorf("the log says %s", got)
		}
	}
	ready(http.StatusOK)
	down.Store(true)
	use(users + strings.Replace(echo, `"1"`, `"2"`, 1))
	ready(http.StatusOK)
	use(strings.Replace(users, "audiences: gateway", "audiences: other", 1) + echo)
	ready(http.StatusServiceUnavailable)
}

// A file may name a plugin before that is there.
func TestPluginThatComesLater(t *testing.T) {
	w := start(t, version, echo)
	plugin := filepath.Join(t.TempDir(), "plugin.wasm")
	w.write("plugins: [{path: " + plugin + "}]\n" + echo)
	if got := <-w.logged; !strings.Contains(got, "names a file that does not exist") {
		t.Errorf("the log says %s", got)
	}
	if err := os.WriteFile(plugin, []byte("not a module"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := <-w.logged; !strings.Contains(got, "is not used") || strings.Contains(got, "does not exist") {
		t.Errorf("the log says %s", got)
	}
}

// A file behind a link is followed as one that is not.
func TestFilesBehindLinks(t *testing.T) {
	w := start(t, version, echo)
	target := filepath.Join(t.TempDir(), "target.yaml")
	text := strings.ReplaceAll(strings.Replace(echo, `"1"`, `"2"`, 1), "API", w.api.URL)
	if err := os.WriteFile(target, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(w.file); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, w.file); err != nil {
		t.Fatal(err)
	}
	<-w.logged
	if err := os.WriteFile(target, []byte(strings.Replace(text, `"2"`, `"3"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	<-w.logged
	if _, body := w.get(w.callers + "/connectors/echo"); body != "3 true" {
		t.Errorf("got %s", body)
	}
}
