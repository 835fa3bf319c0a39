package host_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/host/internal/testhook"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// start is the time at which every test's clock begins.
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

// silent is the answer of an endpoint that says nothing.
func silent(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// equal checks that two values are equal.
func equal(t *testing.T, want, got any) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// bubble runs a test in a bubble of time.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// must is [testworld.Must].
func must[T any](v T, err error) func(testworld.TB) T { return testworld.Must(v, err) }

var check = testworld.Check

func status(code int) answer { return respond(code, "") }

// newWorld returns a world with the secrets s, k and text. Each change may replace what the host gets.
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
	h := must(host.New(ctx, config))(t)
	w.host = h
	for _, secret := range []string{"s", "k", "text"} {
		w.canary(secret)
	}
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
func (w *world) canary(name string) string { return w.canaryOf(name, testworld.RandomSecret()) }

// canaryOf sets a secret to a value that the test looks for, and returns that.
func (w *world) canaryOf(name, value string) string {
	w.setSecret(name, w.Hide("secret "+name, value))
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

// open makes a connector that must be right. Without a name it is crm, and without origins its origin is apiOrigin.
func (w *world) open(c host.ConnectorConfig) *host.Connector {
	w.t.Helper()
	return must(w.tryOpen(c))(w.t)
}

// tryOpen makes a connector as open does.
func (w *world) tryOpen(c host.ConnectorConfig) (*host.Connector, error) {
	if c.Name = cmp.Or(c.Name, "crm"); c.Origins == nil {
		c.Origins = []string{apiOrigin}
	}
	connector, err := w.host.NewConnector(context.Background(), c)
	w.OutError("the connector's problems", err)
	return connector, err
}

// refuseConnector checks that a connector has one problem, at a path, with a text in its message.
func (w *world) refuseConnector(c host.ConnectorConfig, path, text string) {
	w.t.Helper()
	_, err := w.tryOpen(c)
	if wrong, ok := errors.AsType[*host.ConfigError](err); !ok || len(wrong.Problems) != 1 || wrong.Problems[0].Path != path || !strings.Contains(wrong.Problems[0].Message, text) {
		w.t.Errorf("%+v: %v, want %s: %s", c, err, path, text)
	}
}

func (w *world) connectAs(name, authType string, c config) *host.Connector {
	w.t.Helper()
	return w.open(host.ConnectorConfig{Name: name, Auth: []host.Auth{{Type: authType, Config: c}}})
}

// tokenWorld returns a world with a token endpoint that answers with login, or else issues t1, and a connector that uses it.
func tokenWorld(t *testing.T, login answer, change ...func(*host.Config)) (*world, *host.Connector) {
	t.Helper()
	w := newWorld(t, change...)
	if login != nil {
		w.login.Answer(login)
	}
	return w, w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
}

// keyWorld returns a world, and a connector that sends the secret s in the header X-Key.
func keyWorld(t *testing.T) (*world, *host.Connector) {
	t.Helper()
	w := newWorld(t)
	return w, w.connect("api_key", key("{{ get_secret('s') }}"))
}

// problems returns what is wrong with a configuration, as "path: message" lines without the connector.
func (w *world) problems(authType string, c config) []string {
	w.t.Helper()
	_, err := w.tryOpen(host.ConnectorConfig{Auth: []host.Auth{{Type: authType, Config: c}}})
	if err == nil {
		return nil
	}
	wrong, ok := errors.AsType[*host.ConfigError](err)
	if !ok {
		w.t.Fatalf("not a ConfigError: %v", err)
	}
	var list []string
	for _, p := range wrong.Problems {
		list = append(list, p.Path+": "+p.Message)
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

// background sends a request in the background, and returns a channel that gets its error.
func (w *world) background(c *host.Connector, r *http.Request) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := w.try(c, r)
		done <- err
	}()
	return done
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

// guest is a plugin in plain Go that runs functions of a test. It has the host functions of a module.
type guest struct {
	about        abi.Description
	output       string // replaces the description if not empty
	validate     func(contract.Env) error
	authenticate func(contract.Env) (output string, err error)
	// consent and connect are the functions of a guest with consent.
	consent, connect func(contract.Env) (output string, err error)
}

var _ sandbox.Guest = (*guest)(nil)

// plugin returns the guest as a plugin for host.Config. It has the type custom unless about names another.
func (g *guest) plugin(grants ...string) host.Plugin {
	g.about.ABI, g.about.Version, g.about.Summary = abi.Version, "1.0.0", "A guest of a test."
	if g.about.Type == "" {
		g.about.Type = "custom"
	}
	return testhook.NativePlugin("guest", g, grants).(host.Plugin)
}

// Has implements sandbox.Guest.
func (g *guest) Has(export string) bool {
	switch export {
	case contract.ExportValidate:
		return g.validate != nil
	case contract.ExportConsent:
		return g.consent != nil
	case contract.ExportConnect:
		return g.connect != nil
	}
	return export != contract.ExportDisconnect
}

// Call implements sandbox.Guest.
func (g *guest) Call(_ context.Context, export string, env contract.Env) (result sandbox.Result, err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case runtime.Error:
			panic(p) // a bug of the host or of the test
		default:
			result, err = sandbox.Result{}, &sandbox.Error{Kind: sandbox.ErrEnded}
		}
	}()
	output := ""
	switch export {
	case contract.ExportDescribe:
		document, _ := json.Marshal(g.about)
		if output = string(document); g.output != "" {
			output = g.output
		}
	case contract.ExportValidate:
		err = g.validate(env)
	case contract.ExportConsent:
		output, err = g.consent(env)
	case contract.ExportConnect:
		output, err = g.connect(env)
	default:
		output, err = g.authenticate(env)
	}
	if err != nil {
		return sandbox.Result{Code: 1, Message: err.Error()}, nil
	}
	return sandbox.Result{Output: []byte(output), OutputSet: true}, nil
}

// withGuest returns a change of a configuration that adds the guest to its plugins.
func withGuest(g *guest, grants ...string) func(*host.Config) {
	p := g.plugin(grants...)
	return func(c *host.Config) { c.Plugins = append(c.Plugins, p) }
}

// sealedField returns a field for a secret, with its sinks.
func sealedField(name string, sinks ...string) abi.Field {
	return abi.Field{Name: name, Kind: abi.KindString, Sealed: true, Sinks: sinks}
}

// value returns a field of the configuration.
func value(env contract.Env, field string) string {
	v, _ := env.ConfigGet(field)
	return v
}

// header returns a mutation that sets one header.
func header(name, value string) string {
	return marshal(contract.Mutation{Headers: []abi.Pair{{Name: name, Value: value}}})
}

// query returns a mutation that appends one query parameter.
func query(name, value string) string {
	return marshal(contract.Mutation{Query: []abi.Pair{{Name: name, Value: value}}})
}

func marshal(v any) string {
	document, err := json.Marshal(v)
	if err != nil {
		panic("a test's document: " + err.Error())
	}
	return string(document)
}

// tokenReply sends a token request and returns its reply.
func tokenReply(env contract.Env, r contract.TokenRequest) (reply contract.TokenReply) {
	if err := json.Unmarshal(env.TokenRequest([]byte(marshal(r))), &reply); err != nil {
		panic("a test's reply: " + err.Error())
	}
	return reply
}

// loadError returns the error of a host that loads a guest and no built-in type.
func loadError(t *testing.T, g *guest) error {
	t.Helper()
	h, err := host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{g.plugin()}})
	if err == nil {
		check(t, h.Close(t.Context()))
	}
	return err
}

// decodeJWT decodes a compact JWT, RFC 7519 section 7.2, without verifying it.
func decodeJWT(t *testing.T, token string) (header, claims map[string]any) {
	t.Helper()
	parts := strings.Split(strings.TrimPrefix(token, "Bearer "), ".")
	if len(parts) != 3 {
		t.Fatalf("%d parts, want header.payload.signature", len(parts))
	}
	for i, object := range []*map[string]any{&header, &claims} {
		document, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err == nil {
			err = json.Unmarshal(document, object)
		}
		if err != nil {
			t.Fatalf("part %d: %v", i, err)
		}
	}
	return header, claims
}
