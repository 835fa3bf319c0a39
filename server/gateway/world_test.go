package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
)

// codeCache is the code cache of all worlds.
var codeCache string

func TestMain(m *testing.M) { os.Exit(testworld.InSharedDir(&codeCache, m.Run)) }

const secret = "s3cr3t-of-the-api-0123456789"

// agent is the User-Agent of the hosts of all worlds.
const agent = "keywright/v1"

// world is a gateway with one connector, in front of an API that records requests.
type world struct {
	*testworld.Canaries
	t       *testing.T
	host    *host.Host
	gateway *gateway.Gateway
	server  *httptest.Server // serves the gateway
	api     *httptest.Server
	secrets host.MapSecrets
	failing atomic.Pointer[error] // the error of reading any secret
	reading func(context.Context) // if not nil, called when a secret is read

	mu     sync.Mutex
	got    []*http.Request // requests at the API
	bodies []string
	answer http.HandlerFunc
	// events are those of the requests that have ended, unless the test has an Observe of its own.
	events []gateway.Event
	log    testworld.Log
	// hostLog has the log lines of the host.
	hostLog testworld.Log
}

type change func(*options, *gateway.Definition)

type options struct {
	gateway.Config
	gateway.Setup
	Plugins []host.Plugin
	// HostClock is the clock of the host. Nil means the time of day.
	HostClock func() time.Time
}

func newWorld(t *testing.T, changes ...change) *world {
	t.Helper()
	w := &world{Canaries: testworld.NewCanaries(t), t: t, secrets: host.MapSecrets{"key": secret}, answer: func(http.ResponseWriter, *http.Request) {}}
	w.api = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		w.got, w.bodies = append(w.got, r.Clone(context.Background())), append(w.bodies, string(body))
		answer := w.answer
		w.mu.Unlock()
		answer(rw, r)
	}))
	t.Cleanup(w.api.Close)
	o := &options{Config: gateway.Config{Logger: slog.New(slog.NewJSONHandler(&w.log, nil)), Observe: w.observe}}
	d := gateway.Definition{Name: "Weather", Permalink: "weather", URL: w.api.URL + "/v1", Auth: keyAuth("X-API-Key", "header")}
	for _, c := range changes {
		c(o, &d)
	}
	h := testworld.Must(host.New(t.Context(), host.Config{
		Secrets: w, UserAgent: agent, Egress: host.Egress{AllowHTTP: true, AllowPrivate: true}, Variables: map[string]string{"region": "eu"}, Plugins: o.Plugins, Clock: o.HostClock, CodeCache: codeCache,
		Logger: slog.New(gateway.LogHandler(slog.NewJSONHandler(&w.hostLog, nil))),
	}))(t)
	w.host = h
	t.Cleanup(func() { _ = h.Close(context.Background()) })
	w.gateway = gateway.New(o.Config)
	o.Connectors = []*gateway.Connector{w.connector(d)}
	w.gateway.Use(o.Setup)
	w.Hide("the credential", secret)
	t.Cleanup(func() { w.Out("the log", w.log.String()); w.Out("the host's log", w.hostLog.String()) }) // runs when no handler writes to the log any more
	w.server = httptest.NewServer(w.gateway.Handler())
	t.Cleanup(w.server.Close)
	return w
}

// keyAuth sends the credential in a header or a query parameter.
func keyAuth(name, in string) []host.Auth {
	return []host.Auth{{Type: "api_key", Config: map[string]any{"key": name, "value": "{{ get_secret('key') }}", "in": in}}}
}

// clientAuth gets tokens from an endpoint.
func clientAuth(tokenURL string) []host.Auth {
	return []host.Auth{{Type: "oauth_client_credentials", Config: map[string]any{"client_id": "me", "client_secret": "{{ get_secret('key') }}", "token_url": tokenURL}}}
}

func (w *world) observe(e gateway.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, e)
}

// Secret implements [host.Secrets].
func (w *world) Secret(ctx context.Context, name string) (string, error) {
	if w.reading != nil {
		w.reading(ctx)
	}
	if err := w.failing.Load(); err != nil {
		return "", *err
	}
	return w.secrets.Secret(ctx, name)
}

func (w *world) connector(d gateway.Definition) *gateway.Connector {
	w.t.Helper()
	return testworld.Must(gateway.NewConnector(w.t.Context(), w.host, d))(w.t)
}

// problems returns the problems of a definition, and their paths. It sets auth to none.
func (w *world) problems(d gateway.Definition) (all []host.Problem, paths string) {
	w.t.Helper()
	d.Permalink, d.Auth = "x", []host.Auth{{Type: "none"}}
	_, err := gateway.NewConnector(w.t.Context(), w.host, d)
	var wrong *host.ConfigError
	if errors.As(err, &wrong) {
		all = wrong.Problems
	} else {
		testworld.Check(w.t, err)
	}
	return all, pathsOf(all)
}

func pathsOf(problems []host.Problem) string {
	paths := make([]string, len(problems))
	for i, p := range problems {
		paths[i] = p.Path
	}
	return strings.Join(paths, " ")
}

// answer is an answer as a caller gets it.
type answer struct {
	status int
	header http.Header
	body   string
	kind   string // the last part of a problem's type
}

func (w *world) do(r *http.Request) answer {
	w.t.Helper()
	response := testworld.Must(http.DefaultTransport.RoundTrip(r))(w.t)
	defer response.Body.Close()
	body := testworld.Must(io.ReadAll(response.Body))(w.t)
	a := answer{status: response.StatusCode, header: response.Header, body: string(body)}
	w.Out("the answer to a caller", fmt.Sprint(a))
	if response.Header.Get("Content-Type") == "application/problem+json" {
		var p struct{ Type string }
		testworld.Check(w.t, json.Unmarshal(body, &p))
		a.kind = p.Type[strings.LastIndex(p.Type, ":")+1:]
	}
	return a
}

// request returns a request to the gateway. Names and values alternate in headers.
func (w *world) request(method, path, body string, headers ...string) *http.Request {
	w.t.Helper()
	r := testworld.Must(http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, strings.NewReader(body)))(w.t)
	for i := 0; i < len(headers); i += 2 {
		r.Header[headers[i]] = append(r.Header[headers[i]], headers[i+1])
	}
	return r
}

func (w *world) get(path string, headers ...string) answer {
	w.t.Helper()
	return w.do(w.request(http.MethodGet, path, "", headers...))
}

// serve calls the handler, which has told Observe of the request when it returns.
func (w *world) serve(r *http.Request) *httptest.ResponseRecorder {
	got := httptest.NewRecorder()
	w.gateway.Handler().ServeHTTP(got, r)
	return got
}

// event serves a request to the connector, and returns its event, which must be the only one.
func (w *world) event(method, path string) gateway.Event {
	w.t.Helper()
	w.serve(w.request(method, "/connectors/weather"+path, ""))
	if len(w.events) != 1 {
		w.t.Fatalf("the events are %+v, want one", w.events)
	}
	return w.events[0]
}

// last returns the request that the API received. The test fails unless there is exactly one.
func (w *world) last() *http.Request {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.got) != 1 {
		w.t.Fatalf("the API received %d requests, want 1", len(w.got))
	}
	return w.got[0]
}

func (w *world) received() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.got)
}

// answerOf returns an answer of the API with a Content-Length.
func answerOf(r *http.Request, status int, kind, body string) *http.Response {
	header := http.Header{}
	if kind != "" {
		header.Set("Content-Type", kind)
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r}
}
