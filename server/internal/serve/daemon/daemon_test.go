package daemon_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/serve/daemon"
	"github.com/keywright/keywright/server/internal/trial"
)

// codeCache is the code cache of all worlds.
var codeCache string

func TestMain(m *testing.M) { os.Exit(testworld.InSharedDir(&codeCache, m.Run)) }

const secret = "s3cr3t-of-the-api-0123456789"

// world runs a gateway from a file, in front of an API that responds with parts of its requests.
type world struct {
	*testworld.Canaries
	t                  *testing.T
	file               string
	api                *httptest.Server
	callers, operators string
	logged             chan string // messages about configurations and certificates
	end                func() error
	log                testworld.Log
}

// Write implements the log.
func (w *world) Write(line []byte) (int, error) {
	_, _ = w.log.Write(line)
	var said struct{ Msg, Problem, Error string }
	if err := json.Unmarshal(line, &said); err == nil && strings.HasPrefix(said.Msg, "the c") {
		select {
		case w.logged <- said.Msg + ": " + said.Problem + said.Error:
		default: // a test that no longer reads messages must not block the gateway
		}
	}
	return len(line), nil
}

// patience is the time that a test waits before it fails.
const patience = time.Minute

// said returns the next message about a configuration or a certificate.
func (w *world) said() string {
	w.t.Helper()
	select {
	case text := <-w.logged:
		return text
	case <-time.After(patience):
		w.t.Fatal("the log says nothing")
		return ""
	}
}

// inUse is the message about a configuration that came into use.
const inUse = "the configuration is in use: "

// says checks that the next message about a configuration or a certificate has these texts.
func (w *world) says(want ...string) {
	w.t.Helper()
	got := w.said()
	for _, text := range want {
		if !strings.Contains(got, text) {
			w.t.Errorf("the log says %s, want %s", got, text)
		}
	}
}

// metrics returns the page of metrics, and checks that it has these lines.
func (w *world) metrics(lines ...string) string {
	w.t.Helper()
	_, page := w.get(w.operators + "/metrics")
	for _, line := range lines {
		if !strings.Contains(page, line+"\n") {
			w.t.Errorf("/metrics has no line %s:\n%s", line, page)
		}
	}
	return page
}

// gets checks the answer to GET. An empty body stands for any.
func (w *world) gets(url string, status int, body string) {
	w.t.Helper()
	if gotStatus, gotBody := w.get(url); gotStatus != status || body != "" && gotBody != body {
		w.t.Errorf("%s is answered %d %s, want %d %s", url, gotStatus, gotBody, status, body)
	}
}

// stop ends the gateway.
func (w *world) stop() {
	w.t.Helper()
	testworld.Check(w.t, w.end())
}

// eventually waits until is returns true.
func (w *world) eventually(what string, is func() bool) {
	w.t.Helper()
	for end := time.Now().Add(patience); !is(); {
		if time.Now().After(end) {
			w.t.Fatal("it never comes to it: " + what)
		}
	}
}

// shown reports whether the metrics contain a connector.
func (w *world) shown(connector string) bool {
	w.t.Helper()
	return strings.Contains(w.metrics(), `connector="`+connector+`"`)
}

func start(t *testing.T, api http.HandlerFunc, text string, change ...func(*daemon.Config)) *world {
	t.Helper()
	w := &world{Canaries: testworld.NewCanaries(t), t: t, file: filepath.Join(t.TempDir(), "connectors.yaml"), logged: make(chan string, 100)}
	w.Hide("the credential", secret)
	w.api = httptest.NewServer(api)
	t.Cleanup(w.api.Close)
	w.write(text)
	config := daemon.Config{
		File: w.file, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Logger: slog.New(slog.NewJSONHandler(w, nil)),
		Options: connectors.Options{Host: host.Config{
			Secrets: host.MapSecrets{"key": secret}, Egress: host.Egress{AllowHTTP: true, AllowPrivate: true}, CodeCache: codeCache,
		}},
	}
	for _, c := range change {
		c(&config)
	}
	t.Cleanup(func() { w.Out("the log", w.log.String()) })
	w.callers, w.operators, w.end = testworld.Serve(t, &config.Started, func(ctx context.Context) error { return daemon.Run(ctx, config) })
	if log := w.log.String(); !strings.Contains(log, fmt.Sprintf(`"msg":"serving","file":%q,"connectors":`, config.File)) {
		t.Errorf("at its start, the log has %s", log)
	}
	return w
}

// write replaces the file by renaming a new one, like editors. API stands for the URL of the API.
func (w *world) write(text string) {
	w.t.Helper()
	temporary := w.file + ".new"
	testworld.Check(w.t, os.WriteFile(temporary, []byte(strings.NewReplacer("API", w.api.URL, "LOG", w.auditFile()).Replace(text)), 0o600))
	testworld.Check(w.t, os.Rename(temporary, w.file))
}

// auditFile returns the path of the audit log, for which LOG stands in files.
func (w *world) auditFile() string { return filepath.Join(filepath.Dir(w.file), "audit.log") }

// answer is an answer of a server, whose body has been read.
type answer struct {
	StatusCode int
	Header     http.Header
}

// ask sends a request on a connection of its own, and returns the answer and its body. The header Host replaces the name in url.
func (w *world) ask(method, url string, header http.Header, content string) (answer, string) {
	w.t.Helper()
	r := testworld.Must(http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(content)))(w.t)
	maps.Copy(r.Header, header)
	r.Host = cmp.Or(header.Get("Host"), r.Host)
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		w.t.Error(err)
		return answer{}, ""
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Error(err)
	}
	return answer{response.StatusCode, response.Header}, string(text)
}

func (w *world) get(url string) (status int, body string) {
	w.t.Helper()
	response, body := w.ask(http.MethodGet, url, nil, "")
	w.Out("the answer of "+url, body)
	return response.StatusCode, body
}

// test sends a test of an operator.
func (w *world) test(connector, body string) (status int, answer string) {
	w.t.Helper()
	response, answer := w.ask(http.MethodPost, w.operators+"/connectors/"+connector+"/test", nil, body)
	return response.StatusCode, answer
}

// use replaces the file, and checks that it comes into use.
func (w *world) use(text string) {
	w.t.Helper()
	w.write(text)
	w.says(inUse)
}

// refuses replaces the file, and checks that it is refused for these reasons.
func (w *world) refuses(text string, why ...string) {
	w.t.Helper()
	w.write(text)
	w.says(append(why, "is not used")...)
}

// invalid checks that the daemon does not start with a file, and why.
func invalid(t *testing.T, name, file, want string, change ...func(*daemon.Config)) {
	t.Helper()
	config := daemon.Config{File: file, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&config)
	}
	testworld.WantError(t, name, daemon.Run(t.Context(), config), want)
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
	var now atomic.Int64
	now.Store(1_700_000_000)
	w := start(t, version, echo, func(c *daemon.Config) { c.Options.Host.Clock = func() time.Time { return time.Unix(now.Load(), 0) } })
	check := func(want string) { t.Helper(); w.gets(w.callers+"/connectors/echo", http.StatusOK, want) }
	state := func(successful, used, refused int, last string) {
		t.Helper()
		w.metrics(
			fmt.Sprintf("keywright_configuration_last_reload_successful %d", successful),
			"keywright_configuration_last_reload_success_timestamp_seconds "+last,
			fmt.Sprintf("keywright_configuration_reloads_total{result=\"used\"} %d", used),
			fmt.Sprintf("keywright_configuration_reloads_total{result=\"refused\"} %d", refused),
		)
	}
	check("1 true")
	state(1, 0, 0, "1.7e+09")
	now.Store(1_800_000_000)
	w.use(strings.Replace(echo, `"1"`, `"2"`, 1))
	check("2 true")
	now.Store(1_900_000_000)
	w.refuses(strings.Replace(echo, "api_key", "api_kye", 1), `5:18: connectors.echo.auth.type: there is no auth type "api_kye"`) // the whole file
	check("2 true")
	if status, body := w.get(w.operators + "/readyz"); status != http.StatusOK || !strings.HasPrefix(body, "ready\nthe configuration on disk is not in use") {
		t.Errorf("/readyz is %d %s with a bad file", status, body)
	}
	state(0, 1, 1, "1.8e+09")
	w.use(echo)
	check("1 true")
	w.gets(w.operators+"/readyz", http.StatusOK, "ready\n")
	state(1, 2, 1, "1.9e+09")
	testworld.Check(t, syscall.Kill(os.Getpid(), syscall.SIGHUP))
	w.says(inUse)
	check("1 true")
}

func TestBadInitialFile(t *testing.T) {
	file := testworld.File(t, "connectors.yaml", "connectors: [{name: A}]")
	invalid(t, "", file, "connectors.a.url: is missing")
}

func TestOperators(t *testing.T) {
	w := start(t, version, echo)
	for range 3 {
		w.get(w.callers + "/connectors/echo")
	}
	w.get(w.callers + "/connectors/of-a-caller")
	w.get(w.callers + "/connectors/echo?q=of-a-caller")
	w.eventually("all requests are counted", func() bool { // a request is counted after its response
		return strings.Contains(w.metrics(), `status="200"} 4`)
	})
	page := w.metrics(
		`keywright_requests_total{connector="echo",problem="",status="200"} 4`,
		`keywright_requests_total{connector="",problem="unknown-connector",status="404"} 1`,
		`keywright_authentications_total{connector="echo",from="reuse"} 3`,
		`keywright_upstream_seconds_count{connector="echo"} 4`,
	)
	if strings.Contains(page, "of-a-caller") || strings.Contains(page, secret) {
		t.Error("/metrics has what callers send")
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/debug/pprof/": 200, "/": 200, "/connectors/echo": 200, "/connectors/echo/v1": 404, "/x": 404} {
		w.gets(w.operators+path, want, "")
	}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/healthz", "/connectors/echo/test"} { // threats.md 22
		w.gets(w.callers+path, http.StatusNotFound, "")
	}
}

// A test request of an operator is sent, and its result does not contain the credential.
func TestTry(t *testing.T) {
	w := start(t, version, strings.Replace(echo, "/v1", "/v1?units={{ user.email }}", 1)+"    method: POST\n    request: '{\"q\":{{ json_encode(body_text) }}}'\n")
	status, answer := w.test("echo", `{"body":"hello ü","user":{"email":"ann@example.com"}}`)
	var shown trial.Result
	if err := json.Unmarshal([]byte(answer), &shown); err != nil || status != http.StatusOK || shown.Status != http.StatusOK || string(shown.Body) != "1 true" {
		t.Fatalf("%d %s: err = %v", status, answer, err)
	}
	if got := shown.Request; got.URL != w.api.URL+"/v1?units=ann%40example.com" || got.Method != http.MethodPost || got.Body != `{"q":"hello ü"}` ||
		!slices.Contains(got.Headers, abi.Pair{Name: "X-Key", Value: "{{ get_secret('key') }}"}) {
		t.Errorf("the request is shown as %+v", got)
	}
	if strings.Contains(answer, secret) {
		t.Error("the result holds the credential")
	}
}

// A refused file with a missing plugin is read again when the plugin is created.
func TestLaterPlugin(t *testing.T) {
	w := start(t, version, echo)
	plugin := filepath.Join(t.TempDir(), "plugin.wasm")
	w.refuses("plugins: [{path: "+plugin+"}]\n"+echo, "names a file that does not exist")
	testworld.Check(t, os.WriteFile(plugin, []byte("not a module"), 0o600))
	if got := w.said(); !strings.Contains(got, "is not used") || strings.Contains(got, "does not exist") {
		t.Errorf("the log says %s", got)
	}
}

// Changes of a file behind a link are noticed.
func TestFilesBehindLinks(t *testing.T) {
	w := start(t, version, echo)
	text := strings.ReplaceAll(strings.Replace(echo, `"1"`, `"2"`, 1), "API", w.api.URL)
	target := testworld.File(t, "target.yaml", text)
	testworld.Check(t, errors.Join(os.Symlink(target, w.file+".new"), os.Rename(w.file+".new", w.file)))
	w.said()
	testworld.Check(t, os.WriteFile(target, []byte(strings.Replace(text, `"2"`, `"3"`, 1)), 0o600))
	w.eventually("the new text is in use", func() bool { // the file may have been read half-written
		_, body := w.get(w.callers + "/connectors/echo")
		return body == "3 true"
	})
}

// A token endpoint that answers 101 keeps neither its caller, nor a place, nor the end of the process (threats.md 320).
func TestSwitchingTokenEndpoint_threats_320(t *testing.T) {
	defer noneLeft(t)()
	w := start(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn) // until the client closes it
	}, `connectors:
  - name: Switches
    url: API/v1
    auth: {type: oauth_client_credentials, config: {client_id: me, client_secret: "{{ get_secret('key') }}", token_url: API/token}}
`)
	// It is no answer of the API.
	if status, body := w.get(w.callers + "/connectors/switches"); status != http.StatusBadGateway || !strings.Contains(body, ":authentication-failed") {
		t.Errorf("status = %d, body = %s, want authentication-failed", status, body)
	}
	w.stop()
	w.api.Close()
}

const (
	stateKey  = "q83vEjRWeJCrze8SNFZ4kKvN7xI0VniQq83vEjRWeJA="
	withState = echo + `state: {type: sqlite, path: state.db, keys: "{{ get_secret('state') }}"}` + "\n"
)

// withStateKey adds the state key to the secrets.
func withStateKey(c *daemon.Config) {
	c.Options.Host.Secrets = host.MapSecrets{"key": secret, "state": stateKey}
}

// The store of state is opened once, stays open while the file changes, and is closed at the end. A changed member is refused,
// and says that it needs a restart.
func TestStateGoesOn(t *testing.T) {
	w := start(t, version, withState, withStateKey)
	w.Hide("the state key", stateKey)
	open := func() bool {
		_, err := os.Stat(filepath.Join(filepath.Dir(w.file), "state.db-wal"))
		return !errors.Is(err, fs.ErrNotExist)
	}
	w.metrics("keywright_state_available 1", "keywright_state_degraded_exchanges_total 0", "keywright_state_waits_total 0")
	for _, c := range []struct{ text, want string }{
		{strings.Replace(withState, "state.db", "other.db", 1), "the configuration is not used, and the one before goes on: " + "6:8: state: cannot be added or changed while this runs: restart it"},
		{echo, "the configuration is not used, and the one before goes on: state cannot be taken away while this runs: restart it"},
		{strings.Replace(withState, `"1"`, `"2"`, 1), "the configuration is in use: "},
	} {
		w.write(c.text)
		if got := w.said(); got != c.want {
			t.Errorf("the log says %s, want %s", got, c.want)
		}
		if !open() {
			t.Error("the store was closed")
		}
	}
	w.gets(w.callers+"/connectors/echo", http.StatusOK, "2 true")
	if err := w.end(); err != nil || open() {
		t.Errorf("the end: %v; the store is open: %t", err, open())
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(w.file), "other.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("another store was opened: %v", err)
	}
}

// A store of state cannot be added while the gateway runs.
func TestAddedState(t *testing.T) {
	w := start(t, version, echo, withStateKey)
	w.refuses(withState, "state: cannot be added or changed while this runs: restart it")
	if strings.Contains(w.metrics(), "keywright_state_") {
		t.Error("there are metrics of a store that is not there")
	}
}
