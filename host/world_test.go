package host_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
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
	*testworld.Canaries
	*testworld.Clock
	t    *testing.T
	host *host.Host

	log   testworld.Log
	login *testworld.Server // of login.test, the token endpoint
	api   *testworld.Server // of every other host

	mu      sync.Mutex
	secrets map[string]string
	calls   []host.Attempt
}

type (
	answer = testworld.Answer
	sent   = testworld.Request
)

var (
	respond = testworld.Respond
	token   = testworld.Token
	tokens  = testworld.Tokens
)

func status(code int) answer { return respond(code, "") }

// newWorld returns a world. Each change may replace what the host gets.
func newWorld(t *testing.T, change ...func(*host.Config)) *world {
	t.Helper()
	return newWorldIn(context.Background(), t, change...)
}

// newWorldIn returns a world whose host is made with a context.
func newWorldIn(ctx context.Context, t *testing.T, change ...func(*host.Config)) *world {
	t.Helper()
	w := &world{
		Canaries: testworld.NewCanaries(t), Clock: testworld.NewClock(start), t: t, secrets: map[string]string{},
		login: testworld.NewServer(token("t1", 3600)), api: testworld.NewServer(status(http.StatusOK)),
	}
	config := host.Config{
		Secrets:   secretsFunc(w.secret),
		Base:      answer(w.roundTrip),
		CodeCache: codeCache,
		Clock:     w.Now,
		Logger:    w.log.Logger(),
		Observe: func(_ context.Context, c host.Attempt) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.calls = append(w.calls, c)
		},
	}
	for _, c := range change {
		c(&config)
	}
	h, err := host.New(ctx, config)
	if err != nil {
		t.Fatal(err)
	}
	w.host = h
	t.Cleanup(w.finish)
	return w
}

// withoutBuiltIns leaves out the five, which take their time to compile.
func withoutBuiltIns(c *host.Config) { c.BuiltIns = []host.Plugin{} }

// finish is every test's last check, and shows threats.md 18 and specification.md "error texts".
func (w *world) finish() {
	w.t.Helper()
	if err := w.host.Close(context.Background()); err != nil {
		w.t.Errorf("closing the host: %v", err)
	}
	w.Out("the log", w.log.String())
	for _, c := range w.calls {
		w.OutError("Observe's error", c.Err)
	}
}

type secretsFunc func(context.Context, string) (string, error)

func (f secretsFunc) Secret(ctx context.Context, name string) (string, error) { return f(ctx, name) }

func (w *world) secret(_ context.Context, name string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return host.MapSecrets(w.secrets).Secret(context.Background(), name)
}

// setSecret sets a secret to a value that the test does not look for, because it is short or not secret.
func (w *world) setSecret(name, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.secrets[name] = value
}

// canary sets a secret to a random value, and returns that.
func (w *world) canary(name string) string {
	value := w.Secret("secret " + name)
	w.setSecret(name, value)
	return value
}

// roundTrip is the network. It hides the credentials that it sees.
func (w *world) roundTrip(r *http.Request) (*http.Response, error) {
	server := w.api
	if r.URL.Host == "login.test" {
		server = w.login
	} else if _, credential, found := strings.Cut(r.Header.Get("Authorization"), " "); found {
		w.Hide("credential of Authorization", credential)
	}
	response, err := server.RoundTrip(r)
	if server == w.login {
		for _, exchange := range server.Received() {
			w.Hide("assertion", exchange.Form().Get("assertion"))
		}
	}
	return response, err
}

type config = map[string]any

// connect makes a connector that must be right.
func (w *world) connect(authType string, c config) *host.Connector {
	w.t.Helper()
	return w.connectAs("crm", authType, c)
}

func (w *world) connectAs(name, authType string, c config) *host.Connector {
	w.t.Helper()
	connector, err := w.host.NewConnector(context.Background(), host.ConnectorConfig{
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
	_, err := w.host.NewConnector(context.Background(), host.ConnectorConfig{
		Name: "crm", Origins: []string{apiOrigin}, Auth: host.Auth{Type: authType, Config: c},
	})
	w.OutError("the connector's problems", err)
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
	w.OutError("the request's error", err)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return response.StatusCode, nil
}

// send sends a request that must succeed, and returns it as the API received it.
func (w *world) send(c *host.Connector, r *http.Request) sent {
	w.t.Helper()
	if _, err := w.try(c, r); err != nil {
		w.t.Fatalf("the request was not sent: %v", err)
	}
	return w.api.Last()
}

// get sends a GET that must succeed, as nobody in particular.
func (w *world) get(c *host.Connector) sent {
	w.t.Helper()
	return w.send(c, get(context.Background()))
}

// refuse sends a request that must not reach the API, and returns the host's error.
func (w *world) refuse(c *host.Connector, r *http.Request, stage host.Stage, words ...string) *host.Error {
	w.t.Helper()
	before := w.api.Count()
	_, err := w.try(c, r)
	if n := w.api.Count(); n != before {
		w.t.Fatalf("the API received the request: %+v", w.api.Last())
	}
	var failure *host.Error
	if !errors.As(err, &failure) {
		w.t.Fatalf("the error is %v, want a host.Error", err)
	}
	if failure.Stage != stage || failure.Connector == "" || failure.AuthType == "" {
		w.t.Errorf("the error is of connector %q, type %q, stage %q, want stage %q: %v", failure.Connector, failure.AuthType, failure.Stage, stage, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			w.t.Errorf("the error is %q, want %q in it", err, word)
		}
	}
	return failure
}

// logged counts the lines of the text log that hold a text.
func (w *world) logged(text string) int {
	n := 0
	for line := range strings.Lines(w.log.String()) {
		if !strings.HasPrefix(line, "{") && strings.Contains(line, text) {
			n++
		}
	}
	return n
}
