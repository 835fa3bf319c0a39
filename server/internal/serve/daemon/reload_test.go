package daemon_test

import (
	"context"
	"crypto/sha256"
	"errors"
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
	"time"

	"go.uber.org/goleak"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

const oauth = `connectors:
  - name: Echo
    url: API/v1
    auth: {type: oauth_client_credentials, config: {client_id: id, client_secret: "{{ get_secret('key') }}", token_url: API/token}}
`

// named returns a connector with another name.
func named(name string) string {
	return strings.Replace(strings.TrimPrefix(echo, "connectors:\n"), "Echo", name, 1)
}

// threats.md 64: a connector that a change does not affect keeps its token, whatever else changes.
func TestAChangeKeepsTheTokensOfOtherConnectors(t *testing.T) {
	var exchanges atomic.Int32
	w := start(t, func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" {
			rw.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(rw, `{"access_token":"token-%d","token_type":"bearer","expires_in":3600}`, exchanges.Add(1))
			return
		}
		_, _ = io.WriteString(rw, "as "+strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer token-"))
	}, oauth+named("Other"))
	testworld.Check(t, os.WriteFile(filepath.Join(filepath.Dir(w.file), "key"), []byte(secret), 0o600))
	use := func(text, want string) {
		t.Helper()
		w.use(text)
		w.gets(w.callers+"/connectors/echo", http.StatusOK, want)
	}
	if _, body := w.get(w.callers + "/connectors/echo"); body != "as 1" {
		t.Fatalf("the first request has %s", body)
	}
	use(oauth+named("New"), "as 1")
	use(oauth, "as 1")
	use("secrets: [{type: dir, path: .}]\n"+oauth, "as 1")
	use("gateway: {access_log: true}\n"+oauth, "as 1")
	use(strings.Replace(oauth, "    auth", "    headers: [{name: X-A, value: b}]\n    timeout: 3s\n    auth", 1), "as 1")
	use(strings.Replace(oauth, "client_id: id", "client_id: other", 1), "as 2")
	use(oauth, "as 1")
}

// slow returns an API that blocks requests for /v1/slow. Each sends on there, and then waits for release.
func slow() (api http.HandlerFunc, there, release chan struct{}) {
	there, release = make(chan struct{}), make(chan struct{})
	return func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/slow" {
			there <- struct{}{}
			<-release
		}
		version(rw, r)
	}, there, release
}

var slowEcho = strings.Replace(echo, "    auth:", "    paths: [/slow]\n    auth:", 1)

// noneLeft returns a check that all goroutines started since have ended. The check waits longer than goleak's half a second,
// because a goroutine that reads a file may end long after the others.
func noneLeft(t *testing.T) (check func()) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	return func() {
		t.Helper()
		for end := time.Now().Add(patience); ; {
			err := goleak.Find(before)
			if err == nil {
				return
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
	}
}

// No request is lost while the file changes and the server ends, and no goroutine is left.
func TestRequestsInFlightWhileTheFileChanges(t *testing.T) {
	defer noneLeft(t)()
	api, there, release := slow()
	w := start(t, api, slowEcho)
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if status, body := w.get(w.callers + "/connectors/echo/slow"); status != http.StatusOK || !strings.HasSuffix(body, " true") {
				t.Errorf("a request in flight: %d %s", status, body)
			}
		})
		<-there
		w.use(strings.Replace(slowEcho, `"1"`, `"2"`, 1))
	}
	done := make(chan error)
	go func() { done <- w.end() }()
	close(release)
	all.Wait()
	testworld.Check(t, <-done)
	w.api.Close()
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

// A change of other settings keeps the keys of sessions, because their issuer may be down.
func TestKeysOutliveAChange(t *testing.T) {
	var up atomic.Bool
	users := issuer(t, &up)
	up.Store(true)
	w := start(t, version, users+echo)
	ready := w.operators + "/readyz"
	w.gets(ready, http.StatusOK, "")
	up.Store(false)
	w.use(users + strings.Replace(echo, `"1"`, `"2"`, 1))
	w.gets(ready, http.StatusOK, "")
	w.use(users + "egress: {plain_http: [intranet.example.com]}\n" + echo)
	w.gets(ready, http.StatusOK, "")
	w.use(strings.Replace(users, "audiences: gateway", "audiences: other", 1) + echo)
	w.gets(ready, http.StatusServiceUnavailable, "")
}

// issuer starts an issuer that answers while up is true, and returns the settings of a gateway with its sessions.
func issuer(t *testing.T, up *atomic.Bool) (settings string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if !up.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"keys":[]}`)
	}))
	t.Cleanup(server.Close)
	return "gateway: {user: {type: jwt, jwt: {bearer: true, jwks_url: '" + server.URL + "', issuer: https://id.example.com, audiences: gateway}}}\n"
}

// reading waits until a pipe is being read, and keeps it open without writing until release is called.
func reading(t *testing.T, name string) (release func()) {
	t.Helper()
	opened := make(chan *os.File, 1)
	go func() {
		file, err := os.OpenFile(name, os.O_WRONLY, 0) // blocks until there is a reader
		if err != nil {
			t.Error(err)
		}
		opened <- file
	}()
	select {
	case file := <-opened:
		return func() { _ = file.Close() }
	case <-time.After(patience):
		t.Fatal("nobody reads the file")
		return nil
	}
}

// pipe replaces the file by a pipe, which blocks its readers.
func (w *world) pipe() {
	w.t.Helper()
	testworld.Check(w.t, syscall.Mkfifo(w.file+".new", 0o600))
	testworld.Check(w.t, os.Rename(w.file+".new", w.file))
}

// A gateway ends while it reads a file that hangs, and does not report the file as invalid.
func TestEndingWhileAFileHangs(t *testing.T) {
	defer noneLeft(t)()
	w := start(t, version, echo)
	w.pipe()
	release := reading(t, w.file)
	ended := make(chan error, 1)
	go func() { ended <- w.end() }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Error("it does not end")
	}
	if log := w.log.String(); strings.Contains(log, "ERROR") || strings.Contains(log, "WARN") {
		t.Errorf("the log is %s", log)
	}
	release() // the set is read after the end
	w.api.Close()
}

// A gateway ends while it reads its first file.
func TestEndingWhileTheFirstFileHangs(t *testing.T) {
	defer noneLeft(t)()
	file := filepath.Join(t.TempDir(), "connectors.yaml")
	testworld.Check(t, syscall.Mkfifo(file, 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- daemon.Run(ctx, daemon.Config{File: file, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)})
	}()
	release := reading(t, file)
	defer release()
	cancel()
	select {
	case err := <-ended:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
	case <-time.After(patience):
		t.Error("it does not end")
	}
}

// gatedSecrets blocks reads of secrets. A read sends on there if possible, and then waits for release.
type gatedSecrets struct {
	host.Secrets
	there, release chan struct{}
}

func (g gatedSecrets) Secret(ctx context.Context, name string) (string, error) {
	select {
	case g.there <- struct{}{}:
	default: // an earlier read has sent
	}
	<-g.release
	return g.Secrets.Secret(ctx, name)
}

// A request that waits for a secret while the file changes is then authenticated with the configuration it began with.
func TestSetClosesAfterRequests(t *testing.T) {
	gate := gatedSecrets{nil, make(chan struct{}, 1), make(chan struct{})}
	w := start(t, version, echo+named("Third"), func(c *daemon.Config) {
		gate.Secrets = c.Options.Host.Secrets
		c.Options.Host.Secrets = gate
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.gets(w.callers+"/connectors/echo", http.StatusOK, "1 true")
	}()
	<-gate.there
	w.use(strings.Replace(echo, `"1"`, `"2"`, 1))
	for range 10 { // time in which the old set could be closed
		w.get(w.operators + "/metrics")
	}
	close(gate.release)
	<-done
}

// The hosts and origins of the file apply, also after a change.
func TestHostsAndOriginsOfTheFile(t *testing.T) {
	settings := func(name string) string {
		return "gateway: {hosts: [" + name + ".example.com], origins: ['https://app." + name + ".example.com']}\n"
	}
	w := start(t, version, settings("first")+echo)
	ask := func(host, origin string, want int) {
		t.Helper()
		header := http.Header{"Host": {host}}
		if origin != "" {
			header.Set("Origin", origin)
		}
		response, _ := w.ask(http.MethodGet, w.callers+"/connectors/echo", header, "")
		if response.StatusCode != want {
			t.Errorf("Host %s, Origin %s: %d, want %d", host, origin, response.StatusCode, want)
		}
	}
	check := func(name, other string) {
		t.Helper()
		ask(name+".example.com", "", http.StatusOK)
		ask(name+".example.com", "https://app."+name+".example.com", http.StatusOK)
		ask(name+".example.com", "https://app."+other+".example.com", http.StatusForbidden)
		ask(other+".example.com", "", http.StatusMisdirectedRequest)
	}
	check("first", "second")
	w.use(settings("second") + echo)
	check("second", "first")
}

// Sessions that a change does not affect are not closed: their keys can still be read.
func TestLastingSessions(t *testing.T) {
	var up atomic.Bool
	users := issuer(t, &up)
	w := start(t, version, users+echo)
	w.use(users + echo + named("Other"))
	w.use(users + echo)
	w.eventually("the set before is closed", func() bool { return !w.shown("other") })
	up.Store(true)
	w.eventually("the keys are there", func() bool {
		status, _ := w.get(w.operators + "/readyz")
		return status == http.StatusOK
	})
}

// The files of connectors_dir are followed: one that is added, one that is wrong, and one that is taken away. All of them count, or
// nothing does.
func TestConnectorDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "connectors.d")
	testworld.Check(t, os.Mkdir(dir, 0o700))
	w := start(t, version, "connectors_dir: "+dir+"\n"+echo)
	put := func(name, text string) {
		t.Helper()
		temporary := filepath.Join(filepath.Dir(dir), "new")
		testworld.Check(t, os.WriteFile(temporary, []byte(strings.ReplaceAll(text, "API", w.api.URL)), 0o600))
		testworld.Check(t, os.Rename(temporary, filepath.Join(dir, name)))
	}
	status := func(connector string) int {
		t.Helper()
		status, _ := w.get(w.callers + "/connectors/" + connector)
		return status
	}
	connector := "connectors:\n" + named("Added")
	put("added.yaml", connector)
	if said := w.said(); !strings.Contains(said, "the configuration is in use") || status("added") != http.StatusOK {
		t.Errorf("with a file more: %s, %d", said, status("added"))
	}
	put("wrong.yaml", "connectors:\n  - name: Wrong\n")
	if said := w.said(); !strings.Contains(said, "wrong.yaml:2:5: connectors.wrong") || status("added") != http.StatusOK {
		t.Errorf("with a file that is wrong: %s, %d", said, status("added"))
	}
	put("wrong.yaml", strings.Replace(connector, "Added", "Mended", 1))
	for said := w.said(); !strings.Contains(said, "the configuration is in use"); {
		said = w.said()
	}
	testworld.Check(t, os.Remove(filepath.Join(dir, "added.yaml")))
	if said := w.said(); !strings.Contains(said, "the configuration is in use") || status("added") != http.StatusNotFound || status("mended") != http.StatusOK {
		t.Errorf("with a file less: %s, %d, %d", said, status("added"), status("mended"))
	}
}

// A removed connector is removed from the metrics, so that the number of labels does not grow without bound.
func TestCurrentMetrics(t *testing.T) {
	w := start(t, version, echo+named("Other"))
	w.get(w.callers + "/connectors/echo")
	w.get(w.callers + "/connectors/other")
	w.eventually("the metrics show the connectors", func() bool { return w.shown("echo") && w.shown("other") })
	w.use(echo)
	w.eventually("the connector that is gone is forgotten", func() bool { return !w.shown("other") })
	if !w.shown("echo") {
		t.Error("the metrics do not show the connector that is there")
	}
}

// A connector that is added again keeps its metrics when a request ends that began before its removal.
func TestMetricsOfReturnedConnector(t *testing.T) {
	api, there, release := slow()
	w := start(t, api, slowEcho+named("Other")+named("Third"))
	done := make(chan struct{})
	w.get(w.callers + "/connectors/third")
	go func() { defer close(done); w.get(w.callers + "/connectors/echo/slow") }()
	<-there
	w.use(slowEcho)
	w.use(slowEcho + named("Other"))
	w.get(w.callers + "/connectors/other")
	w.eventually("the metrics show other and third", func() bool { return w.shown("other") && w.shown("third") })
	close(release)
	<-done
	w.eventually("the first file's connectors are forgotten", func() bool { return !w.shown("third") })
	if !w.shown("other") {
		t.Error("the metrics of a connector that is in use are gone, since an older request ended")
	}
}

// Metrics of a removed connector that a request adds two changes later are removed too.
func TestMetricsOfLastingRequest(t *testing.T) {
	api, there, release := slow()
	w := start(t, api, slowEcho)
	done := make(chan struct{})
	go func() { defer close(done); w.get(w.callers + "/connectors/echo/slow") }()
	<-there
	for _, text := range []string{slowEcho + named("Other"), "gateway: {access_log: true}\nconnectors:\n" + named("Other")} {
		w.use(text)
	}
	close(release)
	<-done
	w.eventually("the request is counted", func() bool { return strings.Contains(w.log.String(), `"msg":"request"`) })
	w.eventually("the connector that is gone is forgotten", func() bool { return !w.shown("echo") })
}

// A file of authorities that changes is read again.
func TestChangedAuthorities(t *testing.T) {
	ca := testworld.File(t, "company.pem", testworld.NewAuthority(t).PEM())
	w := start(t, version, "egress: {ca_file: "+ca+"}\n"+echo)
	testworld.Check(t, os.WriteFile(ca, []byte("not a certificate"), 0o600))
	w.says("egress.ca_file: has no certificate in PEM")
	w.gets(w.callers+"/connectors/echo", http.StatusOK, "")
}

// A file whose plugin is not in keywright.lock is read again when the lock is written.
func TestLaterLock(t *testing.T) {
	w := start(t, version, echo)
	w.refuses("plugins: [{name: acme, ref: 'registry.example/acme:1'}]\n"+echo, "is not in keywright.lock")
	testworld.Check(t, os.WriteFile(filepath.Join(filepath.Dir(w.file), "keywright.lock"), []byte("not a lock"), 0o600))
	w.says("keywright.lock cannot be read")
}

// The metrics say which file is in use, by its digest, and how long requests of its connectors may wait.
func TestMetricsOfTheFileInUse(t *testing.T) {
	text := "connectors: [{name: One, url: API, auth: {type: none}, timeout: 90s}, {name: Two, url: API, auth: {type: none}}]\n"
	w := start(t, http.NotFound, text)
	digest := func() string {
		return fmt.Sprintf(`keywright_config_info{sha256="%x"} 1`, sha256.Sum256(testworld.Must(os.ReadFile(w.file))(t)))
	}
	first := digest()
	w.metrics(first, `keywright_connector_timeout_seconds{connector="one"} 90`, `keywright_connector_timeout_seconds{connector="two"} 15`)
	w.use(strings.ReplaceAll(text, "90s", "30s"))
	if page := w.metrics(digest(), `keywright_connector_timeout_seconds{connector="one"} 30`); strings.Contains(page, first) {
		t.Errorf("the file before is still on the page:\n%s", page)
	}
}
