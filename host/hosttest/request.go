package hosttest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/internal/jws"
	"github.com/keywright/keywright/internal/testworld"
)

// GET returns a GET request.
func GET(target string) *http.Request { return request(http.MethodGet, target, "") }

// POST returns a POST request with a body that can be replayed.
func POST(target, body string) *http.Request { return request(http.MethodPost, target, body) }

func request(method, target, body string) *http.Request {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(context.Background(), method, target, reader)
	if err != nil {
		panic("hosttest: " + err.Error()) // in the test's own code
	}
	return r
}

// Result is the result of a request that was authenticated and sent.
type Result struct {
	// Request is the request as the API received it. If it was sent twice, it is the second one.
	Request *http.Request
	// Response is the answer of the API.
	Response *http.Response
	// Attempts is the number of times that the request was sent. It is 2 if the API refused a cached token.
	Attempts int
	// Requests are all requests as the API received them.
	Requests []*http.Request
}

// Header returns a header of the request that the API received.
func (r *Result) Header(name string) string { return r.Request.Header.Get(name) }

// Query returns the query of the request that the API received.
func (r *Result) Query() url.Values { return r.Request.URL.Query() }

// Authenticate sends a request through a connector with the configuration, and fails the test if the request is not
// sent. Requests with the same configuration share a connector, and so cached tokens.
func (h *Harness) Authenticate(config Config, r *http.Request) *Result {
	h.tb.Helper()
	result, err := h.Try(config, r)
	if err != nil {
		h.tb.Fatalf("the request was not authenticated: %v", err)
	}
	return result
}

// AuthenticateError is like Authenticate for a request that must not be sent. It returns the host's error, and fails the test if the
// request was sent. It also fails the test if the configuration is invalid; use [Harness.Problems] for that.
func (h *Harness) AuthenticateError(config Config, r *http.Request) *host.Error {
	h.tb.Helper()
	result, err := h.Try(config, r)
	if err == nil || result != nil && result.Attempts > 0 {
		h.tb.Fatalf("the request was sent, but is one that must not be")
	}
	failure, ok := errors.AsType[*host.Error](err)
	if !ok {
		h.tb.Fatalf("the connector itself has problems, which Harness.Problems gives: %v", err)
	}
	return failure
}

// Try is like Authenticate for a request that may fail. If the API has received the request, it returns a result even with an error.
func (h *Harness) Try(config Config, r *http.Request) (*Result, error) {
	h.tb.Helper()
	connector, err := h.connect(config, r)
	if err != nil {
		return nil, err
	}
	defer h.evidence.begin()()
	logged := len(h.Logs())
	result := &Result{}
	api := func(r *http.Request) (*http.Response, error) { return h.receive(r, result) }
	result.Response, err = connector.Transport(testworld.Answer(api)).RoundTrip(r.WithContext(h.context(r.Context()))) //nolint:bodyclose // the result has the response
	h.evidence.failure("the request's error", err)
	if errors.Is(err, sandbox.ErrTrap) { // a panic of the plugin leaves its text in the host's log only
		for _, record := range h.Logs()[logged:] {
			h.tb.Logf("the host's log: %s", record.Message)
		}
	}
	if result.Attempts == 0 {
		return nil, err
	}
	return result, err
}

// Explain returns the explanation of a request, and fails the test if there is an error.
func (h *Harness) Explain(config Config, r *http.Request) *host.Explanation {
	h.tb.Helper()
	connector, err := h.connect(config, r)
	if err != nil {
		h.tb.Fatalf("%v", err)
	}
	defer h.evidence.begin()()
	explanation, err := connector.Explain(r.WithContext(h.context(r.Context())))
	if err != nil {
		h.evidence.failure("Explain's error", err)
		h.tb.Fatalf("the request cannot be explained: %v", err)
	}
	h.evidence.text("the explanation", fmt.Sprintf("%+v", *explanation))
	return explanation
}

// Problems checks a configuration and returns its problems. It returns nil if there are none.
func (h *Harness) Problems(config Config) []host.Problem {
	h.tb.Helper()
	_, err := h.connect(config, GET("https://api.test"))
	invalid := &host.ConfigError{}
	if err != nil && !errors.As(err, &invalid) {
		h.tb.Fatalf("%v", err)
	}
	return invalid.Problems
}

// connect returns the connector of a configuration and the origin of a request. The connectors of one configuration
// have the same name, and so the same tokens.
func (h *Harness) connect(config Config, r *http.Request) (*host.Connector, error) {
	h.tb.Helper()
	live := h.live()
	h.mu.Lock()
	own, auths, name, hosts := cmp.Or(h.authType, live.Plugins()[0].Type), slices.Clone(h.auths), h.connection, h.hosts
	h.mu.Unlock()
	if len(auths) == 0 {
		auths = host.Auths{{Type: own}}
	}
	for i := range auths {
		if config != nil && auths[i].Type == own {
			auths[i].Config = config
		}
	}
	document, err := json.Marshal(auths)
	if err != nil {
		h.tb.Fatalf("hosttest: the configuration is not JSON: %v", err)
	}
	origin := r.URL.Scheme + "://" + r.URL.Host
	key := strings.Join([]string{name, origin, string(document)}, "\n")
	h.making.Lock()
	defer h.making.Unlock()
	if connector := h.connectors[key]; connector != nil {
		return connector, nil
	}
	h.literals(live, auths)
	defer h.evidence.begin()()
	connector, err := live.NewConnector(h.context(context.Background()), host.ConnectorConfig{Name: name, Origins: []string{origin}, Hosts: hosts, Auth: auths})
	if err != nil {
		h.evidence.failure("the connector's problems", err)
		return nil, err
	}
	h.connectors[key] = connector
	return connector, nil
}

func (h *Harness) literals(live *host.Host, auths host.Auths) {
	for _, a := range auths {
		info, _ := live.Plugin(a.Type)
		for _, f := range info.Fields {
			if text, ok := a.Config[f.Name].(string); ok && (f.Sealed || f.Kind == abi.KindKey) && !strings.Contains(text, "{{") {
				h.evidence.secret("field "+f.Name, text)
			}
		}
	}
}

func (h *Harness) context(ctx context.Context) context.Context {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.user == (host.User{}) {
		return ctx
	}
	return host.WithUser(ctx, h.user)
}

// receive answers a request for the API, and adds it to result.
func (h *Harness) receive(r *http.Request, result *Result) (*http.Response, error) {
	body, err := testworld.ReadBody(r)
	if err != nil {
		return nil, fmt.Errorf("hosttest: the request's body: %w", err)
	}
	clone := r.Clone(context.WithoutCancel(r.Context()))
	maps.DeleteFunc(clone.Header, func(_ string, values []string) bool { return len(values) == 0 }) // not sent by net/http
	clone.Body = io.NopCloser(strings.NewReader(body))
	result.Request = clone
	result.Requests = append(result.Requests, clone)
	result.Attempts++
	h.evidence.noteRequest(r.Header, r.URL.Query())
	return h.answer(r, &h.api)
}

// JWT decodes a compact JWT without verifying it, and fails the test if it is invalid. Numbers are json.Number.
func (h *Harness) JWT(token string) (header, claims map[string]any) {
	h.tb.Helper()
	header, claims, err := jws.Decode(strings.TrimPrefix(token, "Bearer "))
	if err != nil {
		h.tb.Fatalf("%v", err)
	}
	return header, claims
}

const redirectURI = "https://gateway.test/connect/test/callback"

// Consent has the user of [Harness.As] give consent to a connector with the configuration. server stands for the authorization
// server: it gets the URL to which the browser goes, and returns the query with which the browser comes back. Consent adds
// state, unless server has set it. The error is that of the host, if the connector has problems or the consent does not count. The token
// endpoint is that of [Harness.TokenEndpoint].
func (h *Harness) Consent(config Config, server func(request *url.URL) url.Values) error {
	h.tb.Helper()
	connector, err := h.connect(config, GET("https://api.test"))
	if err != nil {
		return err
	}
	defer h.evidence.begin()()
	const binding = "the cookie of the browser"
	ctx := h.context(context.Background())
	target, err := connector.BeginConsent(ctx, host.ConsentRequest{RedirectURI: redirectURI, Binding: binding})
	if err != nil {
		h.evidence.failure("the error of Consent", err)
		return err
	}
	h.evidence.text("the URL to which the browser goes", target)
	request, err := url.Parse(target)
	if err != nil {
		h.tb.Fatalf("hosttest: the host sends browsers to what is no URL: %v", err)
	}
	answer := server(request)
	if !answer.Has("state") {
		answer.Set("state", request.Query().Get("state"))
	}
	if code := answer.Get("code"); code != "" {
		h.evidence.secret("the code", code)
	}
	_, err = h.live().Callback(ctx, host.AuthorizationResponse{RedirectURI: redirectURI, Response: answer, Binding: binding},
		func(string) *host.Connector { return connector })
	h.evidence.failure("the error of Callback", err)
	return err
}

// Connection returns the condition of the connection of the user of [Harness.As].
func (h *Harness) Connection(config Config) host.Connection {
	h.tb.Helper()
	connector, err := h.connect(config, GET("https://api.test"))
	if err != nil {
		h.tb.Fatalf("%v", err)
	}
	connection, err := connector.Connection(h.context(context.Background()))
	if err != nil {
		h.tb.Fatalf("%v", err)
	}
	return connection
}

// Disconnect takes the grant of the user of [Harness.As] back, and returns the host's error.
func (h *Harness) Disconnect(config Config) error {
	h.tb.Helper()
	connector, err := h.connect(config, GET("https://api.test"))
	if err != nil {
		return err
	}
	defer h.evidence.begin()()
	err = connector.Disconnect(h.context(context.Background()))
	h.evidence.failure("the error of Disconnect", err)
	return err
}
