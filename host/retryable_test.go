package host_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
)

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
			w.canary("s")
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
		w.canary("s")
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
