package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
)

// start is when every test's clock begins.
var start = time.Unix(1_700_000_000, 0)

const (
	apiOrigin = "https://api.test"
	apiURL    = apiOrigin + "/v1/things"
	tokenURL  = "https://login.test/token"
)

// world is a host with everything around it made by the test: the time, the secrets, the network, the logs. When the test
// ends, all that came out of the host is searched for every credential that went in.
type world struct {
	t    *testing.T
	host *host.Host
	leaks

	mu        sync.Mutex
	now       time.Time
	secrets   map[string]string
	login     answer // of login.test, the token endpoint
	api       answer // of every other host
	exchanges []sent // what login.test received
	requests  []sent // what the API received
	calls     []host.Attempt
	lines     bytes.Buffer // of the log, as text and as JSON
}

// answer is how a server answers a request, whose body it may read.
type answer func(*http.Request) (*http.Response, error)

// sent is a request as it was received.
type sent struct {
	method, url, body string
	header            http.Header
}

func (s sent) form() url.Values {
	form, err := url.ParseQuery(s.body)
	if err != nil {
		return url.Values{"not a form": {err.Error()}}
	}
	return form
}

// newWorld makes a world; change may replace what it gives the host.
func newWorld(t *testing.T, change ...func(*host.Config)) *world {
	t.Helper()
	w := &world{t: t, now: start, secrets: map[string]string{}, login: token("t1", 3600), api: status(http.StatusOK)}
	config := host.Config{
		Secrets:   secretsFunc(w.secret),
		Base:      roundTripper(w.roundTrip),
		CodeCache: codeCache,
		Clock:     w.time,
		Logger:    slog.New(bothHandlers(&w.lines, &w.mu)),
		Observe: func(_ context.Context, c host.Attempt) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.calls = append(w.calls, c)
		},
	}
	for _, c := range change {
		c(&config)
	}
	h, err := host.New(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	w.host = h
	t.Cleanup(w.finish)
	return w
}

// withoutBuiltIns leaves out the five, which take their time to compile.
func withoutBuiltIns(c *host.Config) { c.BuiltIns = []host.Plugin{} }

// finish is every test's last check, and shows threats.md 18 and decisions.md "error texts".
func (w *world) finish() {
	w.t.Helper()
	if err := w.host.Close(context.Background()); err != nil {
		w.t.Errorf("closing the host: %v", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out("the log", w.lines.String())
	for _, c := range w.calls {
		w.outError("Observe's error", c.Err)
	}
	for _, leak := range w.found() {
		w.t.Error(leak)
	}
}

type secretsFunc func(context.Context, string) (string, error)

func (f secretsFunc) Secret(ctx context.Context, name string) (string, error) { return f(ctx, name) }

func (w *world) secret(_ context.Context, name string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return host.MapSecrets(w.secrets).Secret(context.Background(), name)
}

// setSecret returns a secret a value that the test does not look for, because it is short or not secret.
func (w *world) setSecret(name, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets[name] = value
}

// canary returns a secret a random value, and returns that.
func (w *world) canary(name string) string {
	value := randomSecret()
	w.hide("secret "+name, value)
	w.setSecret(name, value)
	return value
}

func (w *world) time() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// roundTrip is the network.
func (w *world) roundTrip(r *http.Request) (*http.Response, error) {
	s := sent{method: r.Method, url: r.URL.String(), header: r.Header.Clone()}
	if r.Body != nil {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		_ = r.Body.Close()
		s.body = string(body)
		r.Body = io.NopCloser(strings.NewReader(s.body))
	}
	w.mu.Lock()
	respond := w.api
	if r.URL.Host == "login.test" {
		respond = w.login
		w.exchanges = append(w.exchanges, s)
		w.hide("assertion", s.form().Get("assertion"))
	} else {
		w.requests = append(w.requests, s)
		if _, credential, found := strings.Cut(s.header.Get("Authorization"), " "); found {
			w.hide("credential of Authorization", credential)
		}
	}
	w.mu.Unlock()
	response, err := respond(r)
	if response != nil && response.Request == nil {
		response.Request = r
	}
	return response, err
}

func status(code int) answer { return respond(code, "") }

func respond(code int, body string) answer {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{
			StatusCode: code, Status: fmt.Sprintf("%d %s", code, http.StatusText(code)), Header: http.Header{},
			Body: io.NopCloser(strings.NewReader(body)),
		}, nil
	}
}

// token is the answer of a token endpoint that gives a bearer token, RFC 6749 section 5.1.
func token(accessToken string, expiresIn int64) answer {
	return respond(http.StatusOK, fmt.Sprintf(`{"access_token":%q,"token_type":"Bearer","expires_in":%d}`, accessToken, expiresIn))
}

// tokens returns another token to each exchange: t1, t2, and so on.
func tokens(expiresIn int64) answer {
	var mu sync.Mutex
	n := 0
	return func(r *http.Request) (*http.Response, error) {
		mu.Lock()
		n++
		answer := token(fmt.Sprintf("t%d", n), expiresIn)
		mu.Unlock()
		return answer(r)
	}
}

func (w *world) setLogin(a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.login = a
}

func (w *world) setAPI(a answer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.api = a
}

type config = map[string]any

// connect makes a connector that must be right.
func (w *world) connect(authType string, c config) *host.Connector {
	w.t.Helper()
	return w.connectAs("crm", authType, c)
}

func (w *world) connectAs(name, authType string, c config) *host.Connector {
	w.t.Helper()
	connector, err := w.host.Connect(context.Background(), host.ConnectorConfig{
		Name: name, Origins: []string{apiOrigin}, Auth: host.Auth{Type: authType, Config: c},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return connector
}

// problems returns what is wrong with a configuration, as "path: message" lines without the connector.
func (w *world) problems(authType string, c config) []string {
	w.t.Helper()
	_, err := w.host.Connect(context.Background(), host.ConnectorConfig{
		Name: "crm", Origins: []string{apiOrigin}, Auth: host.Auth{Type: authType, Config: c},
	})
	w.outError("the connector's problems", err)
	var wrong *host.ConfigError
	if err != nil && !errors.As(err, &wrong) {
		w.t.Fatalf("not a ConfigError: %v", err)
	}
	var list []string
	if wrong != nil {
		for _, p := range wrong.Problems {
			list = append(list, p.Path+": "+p.Message)
		}
	}
	return list
}

func get(ctx context.Context) *http.Request {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, apiURL, nil)
	if err != nil {
		panic(err)
	}
	return r
}

// try sends a request.
func (w *world) try(c *host.Connector, r *http.Request) (int, error) {
	response, err := c.Transport(nil).RoundTrip(r)
	w.outError("the request's error", err)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode, nil
}

// send sends a request that must succeed, and gives it as the API received it.
func (w *world) send(c *host.Connector, r *http.Request) sent {
	w.t.Helper()
	if _, err := w.try(c, r); err != nil {
		w.t.Fatalf("the request was not sent: %v", err)
	}
	return w.last()
}

// get sends a GET that must succeed, as nobody in particular.
func (w *world) get(c *host.Connector) sent {
	w.t.Helper()
	return w.send(c, get(context.Background()))
}

// refuse sends a request that must not reach the API, and gives the host's error.
func (w *world) refuse(c *host.Connector, r *http.Request, stage host.Stage, words ...string) *host.Error {
	w.t.Helper()
	before := w.received()
	_, err := w.try(c, r)
	if n := w.received(); n != before {
		w.t.Fatalf("the API received the request: %+v", w.last())
	}
	var failure *host.Error
	if !errors.As(err, &failure) {
		w.t.Fatalf("the error is %v, want a host.Error", err)
	}
	if failure.Stage != stage || failure.Connector == "" || failure.Type == "" {
		w.t.Errorf("the error is of connector %q, type %q, stage %q, want stage %q: %v", failure.Connector, failure.Type, failure.Stage, stage, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			w.t.Errorf("the error is %q, want %q in it", err, word)
		}
	}
	return failure
}

func (w *world) last() sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.requests[len(w.requests)-1]
}

func (w *world) received() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.requests)
}

func (w *world) exchanged() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.exchanges)
}

func (w *world) lastExchange() sent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.exchanges[len(w.exchanges)-1]
}

func (w *world) log() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lines.String()
}

// logged counts the lines of the text log that hold a text.
func (w *world) logged(text string) int {
	n := 0
	for line := range strings.Lines(w.log()) {
		if !strings.HasPrefix(line, "{") && strings.Contains(line, text) {
			n++
		}
	}
	return n
}
