package host_test

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/host/internal/testhook"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
)

// An error has the reason as a value, so that nobody compares texts to find what to do about it.
func TestErrorsHaveTheirReason(t *testing.T) {
	s := newSecureWorld(t)
	s.issueTo("ann", "ann", start.Add(90*day))
	ended, key := s.authority.Client("ann", start.Add(-time.Hour))
	s.store("ended", ended, key)
	untrusted := of("ann")
	untrusted.CA = testworld.NewAuthority(t).PEM()
	s.credentials()
	for name, c := range map[string]struct {
		connector *host.Connector
		is        func(error) bool
	}{
		"a client certificate that has ended": {s.secure("ended", of("ended")), func(err error) bool {
			var failed *host.CertificateError
			return errors.As(err, &failed) && failed.NotAfter.Equal(start.Add(-time.Hour))
		}},
		"an API that nobody vouches for":      {s.secure("crm", untrusted), func(err error) bool { return errors.Is(err, host.ErrServerCertificate) }},
		"an endpoint that nobody vouches for": {s.secureAs("erp", untrusted, s.credentials()), func(err error) bool { return errors.Is(err, host.ErrServerCertificate) }},
	} {
		if err := s.call(context.Background(), c.connector); !c.is(err) || errors.Is(err, host.ErrAddressRefused) {
			t.Errorf("%s: err = %v", name, err)
		}
	}
	w := newWorld(t, func(c *host.Config) { c.Base = nil })
	c := oauth("{{ get_secret('s') }}")
	c["token_url"] = "https://127.0.0.1/token"
	if err := w.refuse(w.connect("oauth_client_credentials", c), get(t.Context()), host.StageToken); !errors.Is(err, host.ErrAddressRefused) {
		t.Errorf("an address that egress does not allow: %v", err)
	}
}

// A base that wraps the host's returns the same error for the certificate of an API, without the text of net/http.
func TestCertificateErrorThroughWrappedBase(t *testing.T) {
	api := httptest.NewUnstartedServer(http.NotFoundHandler())
	api.Config.ErrorLog = log.New(io.Discard, "", 0) // the handshake fails
	api.StartTLS()
	defer api.Close()
	w := newWorld(t, func(c *host.Config) { c.Base, c.Egress = nil, host.Egress{AllowPrivate: true} })
	connector := w.open(host.ConnectorConfig{Origins: []string{api.URL}, Auth: []host.Auth{{Type: "none"}}})
	r := must(http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL, nil))(t)
	base := testworld.Answer(func(r *http.Request) (*http.Response, error) { return connector.Base().RoundTrip(r) })
	err := roundTripError(connector.Transport(base).RoundTrip(r))
	if !errors.Is(err, host.ErrServerCertificate) || strings.Contains(err.Error(), "x509") {
		t.Errorf("the error is %v", err)
	}
}

// TokenError.Offset shows the clock of the endpoint, also in the errors that come without a request to it.
func TestTheClockOfATokenEndpoint(t *testing.T) {
	for name, c := range map[string]struct {
		ahead, want time.Duration
		header      []string
	}{
		"no clock":       {},
		"the same":       {ahead: 9 * time.Second, header: []string{"Date"}},
		"ahead":          {ahead: time.Hour, want: time.Hour, header: []string{"Date"}},
		"behind":         {ahead: -7 * time.Minute, want: -7 * time.Minute, header: []string{"Date"}},
		"of a cache":     {ahead: time.Hour, header: []string{"Date", "Age"}},
		"no date at all": {header: []string{"Age"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, connector := tokenWorld(t, nil)
			header := map[string]string{"Date": w.Now().Add(c.ahead).UTC().Format(http.TimeFormat), "Age": "1"}
			var pairs []string
			for _, name := range c.header {
				pairs = append(pairs, name, header[name])
			}
			w.login.Answer(respond(http.StatusBadRequest, `{"error":"invalid_grant"}`, pairs...))
			for range 2 {
				var answer *host.TokenError
				if err := w.refuse(connector, get(t.Context()), host.StageToken); !errors.As(err, &answer) || answer.Offset != c.want {
					t.Errorf("the error is %#v", answer)
				}
			}
			if w.login.Count() != 1 {
				t.Errorf("the endpoint was asked %d times", w.login.Count())
			}
		})
	}
}

// Attempt.Expires is the end of the token that went into the request, be it new, cached or reused.
func TestAnAttemptSaysWhenItsTokenEnds(t *testing.T) {
	w := newWorld(t, func(c *host.Config) { c.Plugins = []host.Plugin{{Wasm: plugins.AWSSigV4()}} })
	c := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
	key := w.connect("api_key", config{"in": "header", "key": "X-Key", "value": "{{ get_secret('s') }}"})
	for range 3 {
		w.get(c)
	}
	w.get(key)
	signs := w.connect("aws_sigv4", config{ // keeps its signing key
		"access_key_id": "AKID", "secret_access_key": "{{ get_secret('s') }}", "region": "eu-central-1", "service": "s3",
	})
	w.get(signs)
	w.get(signs)
	if len(w.calls) != 6 {
		t.Fatalf("%d attempts", len(w.calls))
	}
	for i, call := range w.calls[:3] {
		if want := start.Add(time.Hour - time.Minute); !call.Expires.Equal(want) {
			t.Errorf("attempt %d: %v, want %v", i, call.Expires, want)
		}
	}
	for _, call := range w.calls[3:] {
		if !call.Expires.IsZero() {
			t.Errorf("an attempt of %s without a token: %v", call.AuthType, call.Expires)
		}
	}
}

// An attempt says in which way the plugin failed, and how often it ran.
func TestHowAPluginFails(t *testing.T) {
	module := func(code string) host.Plugin {
		return host.Plugin{Name: "custom.wasm", Wasm: assemble(t, fixed(code)), Limits: host.PluginLimits{MemoryBytes: 3 << 16}}
	}
	native := func(do func(contract.Env) (string, error)) host.Plugin {
		g := &guest{authenticate: do}
		g.about.Fields = []abi.Field{sealedField("value", contract.SinkHeader)}
		return g.plugin()
	}
	for name, c := range map[string]struct {
		plugin host.Plugin
		want   host.PluginFailure
	}{
		"well":               {module(""), ""},
		"fuel":               {module(endless), host.FailureFuel},
		"memory":             {module(grows), host.FailureMemory},
		"blocks":             {module(`(loop $again (drop (call $block_new (i32.const 0) (i32.const 60000))) (br $again))`), host.FailureMemory},
		"trap":               {module(`unreachable`), host.FailureTrap},
		"no such offset":     {module(`(call $output_set (i64.const 1) (i64.const 5))`), host.FailureAnswer},
		"no mutation":        {native(fixedOutput(`{"headers":1}`)), host.FailureAnswer},
		"no credential":      {native(fixedOutput(`{}`)), host.FailureAnswer},
		"not its function":   {native(func(env contract.Env) (string, error) { return env.Body(), nil }), host.FailureAnswer},
		"a forbidden header": {native(func(env contract.Env) (string, error) { return header("Host", value(env, "value")), nil }), host.FailureAnswer},
		"its own error":      {native(func(contract.Env) (string, error) { return "", errors.New("the id is missing") }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withoutBuiltIns, func(config *host.Config) { config.Plugins = append(config.Plugins, c.plugin) })
			_, err := w.try(w.connect("custom", config{"value": "{{ get_secret('s') }}"}), get(t.Context()))
			if len(w.calls) != 1 || w.calls[0].Failure != c.want || w.calls[0].Runs != 1 || (err == nil) != (name == "well") {
				t.Errorf("%v, Observe was told of %+v", err, w.calls)
			}
		})
	}
}

// stoppedGuest is a guest whose authenticate is ended by the sandbox.
type stoppedGuest struct {
	guest
	err error
}

func (g *stoppedGuest) Call(ctx context.Context, export string, env contract.Env) (sandbox.Result, error) {
	if export == contract.ExportAuthenticate {
		return sandbox.Result{}, g.err
	}
	return g.guest.Call(ctx, export, env)
}

// A plugin whose time is over has failed, and one whose caller has gone away has not.
func TestHowAPluginFailsByTime(t *testing.T) {
	for want, err := range map[host.PluginFailure]error{
		host.FailureTime: &sandbox.Error{Kind: sandbox.ErrTime, Limit: sandbox.LimitTime},
		"":               &sandbox.Error{Kind: sandbox.ErrTime},
	} {
		g := &stoppedGuest{err: err}
		g.plugin()
		p := testhook.NativePlugin("guest", g, nil).(host.Plugin)
		p.Limits.CallTime = time.Second
		w := newWorld(t, withoutBuiltIns, func(c *host.Config) { c.Plugins = append(c.Plugins, p) })
		_, failed := w.try(w.connect("custom", nil), get(t.Context()))
		if len(w.calls) != 1 || w.calls[0].Failure != want || errors.As(failed, new(*host.LimitError)) != (want != "") {
			t.Errorf("%v, Observe was told of %+v", failed, w.calls)
		}
	}
}

// A token endpoint that does not answer, or refuses, is no failure of the plugin, which ran twice: the second time with the
// right to ask.
func TestTokenEndpointFailureKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withoutBuiltIns, withGuest(misusing(asksOnce)))
		w.login.Answer(silent)
		w.refuse(w.connect("custom", misused), get(t.Context()), host.StageToken, "deadline exceeded")
		if len(w.calls) != 1 || w.calls[0].Failure != "" || w.calls[0].Runs != 2 {
			t.Errorf("Observe was told of %+v", w.calls)
		}
	})
}

// A retry cannot fix an error that a person must fix. It may fix an error that passes.
func TestRetryable(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	elsewhere := get(t.Context())
	elsewhere.URL.Host = "elsewhere.test"
	for name, c := range map[string]struct {
		login     answer
		change    func(*host.Config)
		tokenURL  string
		request   func(*http.Request) *http.Request
		stage     host.Stage
		retryable bool
	}{
		"the endpoint refuses the client":    {login: wrongSecret, stage: host.StageToken},
		"an answer without a token":          {login: respond(http.StatusOK, `{}`), stage: host.StageToken},
		"the endpoint redirects":             {login: status(http.StatusFound), stage: host.StageToken},
		"a token of another type":            {login: respond(http.StatusOK, `{"access_token":"t","token_type":"mac"}`), stage: host.StageToken},
		"the endpoint is down":               {login: status(http.StatusServiceUnavailable), stage: host.StageToken, retryable: true},
		"the endpoint is asked too often":    {login: status(http.StatusTooManyRequests), stage: host.StageToken, retryable: true},
		"the endpoint asks to come later":    {login: respond(http.StatusBadRequest, `{"error":"temporarily_unavailable"}`), stage: host.StageToken, retryable: true},
		"the endpoint cannot be reached":     {login: func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") }, stage: host.StageToken, retryable: true},
		"the request is cancelled":           {login: token("t1", 60), request: func(r *http.Request) *http.Request { return r.WithContext(ctx) }, stage: host.StagePlugin},
		"another origin":                     {request: func(*http.Request) *http.Request { return elsewhere }, stage: host.StageOrigin},
		"a secret that is not there":         {change: secretsFail(host.ErrSecretNotFound), stage: host.StageTemplate},
		"a store of secrets that is down":    {change: secretsFail(errors.New("the store is down")), stage: host.StageTemplate, retryable: true},
		"a store of secrets with no answer":  {change: secretsFail(context.DeadlineExceeded), stage: host.StageTemplate, retryable: true},
		"an address that may not be dialled": {change: func(c *host.Config) { c.Base = nil }, tokenURL: "https://127.0.0.1:1/token", stage: host.StageToken},
	} {
		t.Run(name, func(t *testing.T) {
			if c.change == nil {
				c.change = func(*host.Config) {}
			}
			w := newWorld(t, c.change)
			w.login.Answer(c.login)
			configuration := oauth("{{ get_secret('s') }}")
			if c.tokenURL != "" {
				configuration["token_url"] = c.tokenURL
			}
			r := get(t.Context())
			if c.request != nil {
				r = c.request(r)
			}
			err := w.refuse(w.connect("oauth_client_credentials", configuration), r, c.stage)
			if err.Retryable() != c.retryable {
				t.Errorf("Retryable is %t for %v", err.Retryable(), err)
			}
		})
	}
}

func secretsFail(err error) func(*host.Config) {
	return func(c *host.Config) {
		c.Secrets = secretsFunc(func(context.Context, string) (string, error) { return "", err })
	}
}

// A caller whose time limit passed may succeed with another attempt.
func TestRetryableWhenTimeRanOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		g := newGate(token("t1", 60))
		w.login.Answer(g.answer)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := w.refuse(w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")), get(ctx), host.StageToken); !err.Retryable() {
			t.Errorf("Retryable is false for %v", err)
		}
		close(g.open)
	})
}

// A zero Connector sends nothing and does not panic.
func TestZeroConnector(t *testing.T) {
	c := &host.Connector{}
	for name, try := range map[string]func(*http.Request) error{
		"Transport":        func(r *http.Request) error { _, err := c.Transport(nil).RoundTrip(r); return err },        //nolint:bodyclose // there is none
		"GuardedTransport": func(r *http.Request) error { _, err := c.GuardedTransport(nil).RoundTrip(r); return err }, //nolint:bodyclose // there is none
		"Authenticate":     func(r *http.Request) error { _, err := c.Authenticate(r); return err },
		"Explain":          func(r *http.Request) error { _, err := c.Explain(r); return err },
	} {
		var failed *host.Error
		if err := try(get(t.Context())); !errors.As(err, &failed) || failed.Stage != host.StageOrigin || failed.Retryable() {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
	if c.Secrets() != nil || c.Config().Name != "" {
		t.Error("it has a configuration")
	}
}
