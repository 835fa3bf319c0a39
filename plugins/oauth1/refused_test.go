package main

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

// A request that the API refuses is not repeated. If the API's clock is another, later requests have its time.
func TestRefused(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("consumer")
		h.Canary("token")
		future := h.Now().Add(time.Hour)
		h.API(func(r *http.Request) (*http.Response, error) {
			response, err := hosttest.JSON(401, `{"oauth_problem":"timestamp_refused"}`)(r)
			response.Header.Set("Date", future.Format(http.TimeFormat))
			return response, err
		}, hosttest.JSON(200, "{}"))
		first := h.Authenticate(config(), hosttest.GET("https://api.test/"))
		if first.Attempts != 1 || first.Response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%d attempts, status %d", first.Attempts, first.Response.StatusCode)
		}
		s := serve(t, h.Authenticate(config(), hosttest.GET("https://api.test/")).Request)
		if got := s.own.Get("oauth_timestamp"); got != strconv.FormatInt(future.Unix(), 10) {
			t.Errorf("the time is %s", got)
		}
	})
}

// without returns a configuration without the secrets of an HMAC.
func without(pairs ...any) hosttest.Config {
	return config(append([]any{"consumer_secret", nil, "token_secret", nil}, pairs...)...)
}

// Requests that cannot be signed are not sent. The errors name the field, or the parameter.
func TestRefusedRequests(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("consumer")
		h.Canary("token")
		h.Key("ec", "ES256")
		h.Secret("empty", "")
		get := hosttest.GET("https://api.test/?a=b")
		for _, test := range map[string]struct {
			c     hosttest.Config
			r     *http.Request
			stage host.Stage
			words string
		}{
			"PLAINTEXT with the secret of a signature, by a template": {
				config("signature_method", "{{ user.id | default('PLAINTEXT') }}"), get, host.StageConfig, "plaintext_consumer_secret is missing",
			},
			"PLAINTEXT in the query, by a template": {
				without("signature_method", "PLAINTEXT", "plaintext_consumer_secret", "{{ get_secret('consumer') }}", "in", "{{ user.id | default('query') }}"),
				get, host.StagePlugin, "do not reach",
			},
			"another key": {without("signature_method", "RSA-SHA1", "private_key", "{{ get_secret('ec') }}"), get, host.StageSign, "an RSA key is needed"},
			"a parameter of OAuth in the query": {
				config(), hosttest.GET("https://api.test/?oauth%5Fnonce=1"), host.StagePlugin, "the parameter oauth_nonce: leave it out",
			},
			"a signature in the form": {config(), form("POST", "https://api.test/", "oauth_signature=1"), host.StagePlugin, "the parameter oauth_signature"},
			"a form that is none":     {config(), form("POST", "https://api.test/", "a=%zz"), host.StageBody, "percent-encoded"},
			"JSON with in: form":      {config("in", "form"), hosttest.POST("https://api.test/", "{}"), host.StageMutation, "form"},
			"GET with in: form":       {config("in", "form"), get, host.StageMutation, "body"},
			"an empty secret":         {config("consumer_secret", "{{ get_secret('empty') }}"), get, host.StageTemplate, "consumer_secret"},
		} {
			plugintest.Refuses(t, h, test.c, test.r, test.stage, test.words)
		}
	})
}

// What contradicts itself is refused at load, all at once.
func TestProblems(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("consumer")
		for _, test := range []struct {
			want string
			c    hosttest.Config
		}{
			{"", config()},
			{"", config("realm", "r", "body_hash", true, "signature_method", "HMAC-SHA256")},
			{"consumer_key", config("consumer_key", nil)},
			{"consumer_secret", config("consumer_secret", nil)},
			{"consumer_secret", config("consumer_secret", nil, "signature_method", "HMAC-SHA256")},
			{"private_key", without("signature_method", "RSA-SHA1")},
			{"plaintext_consumer_secret", without("signature_method", "PLAINTEXT")},
			{"consumer_secret token_secret private_key", config("signature_method", "RSA-SHA1")},
			{"consumer_secret token_secret", config("signature_method", "PLAINTEXT", "plaintext_consumer_secret", "s")},
			{"private_key algorithm plaintext_consumer_secret plaintext_token_secret", config("private_key", "k", "algorithm", "RS1",
				"plaintext_consumer_secret", "s", "plaintext_token_secret", "t")},
			{"", config("signature_method", "{{ get_variable('method') }}", "private_key", "k", "plaintext_consumer_secret", "s")},
			{"signature_method in body_hash", config("signature_method", "HMAC-SHA512", "in", "cookie", "body_hash", "maybe")},
			{"algorithm", config("algorithm", "RS256")},
			{"version", config("version", "2.0")},
			{"realm in body_hash", without("signature_method", "PLAINTEXT", "plaintext_consumer_secret", "{{ get_secret('consumer') }}", "in", "query", "realm", "r", "body_hash", true)},
			{"realm body_hash", config("in", "form", "realm", "r", "body_hash", true)},
			{"private_key", without("signature_method", "RSA-SHA1", "private_key", " ")},
			{"in", without("signature_method", "PLAINTEXT", "plaintext_consumer_secret", "{{ get_secret('consumer') }}", "in", "query")},
			{"in", without("signature_method", "PLAINTEXT", "plaintext_consumer_secret", "{{ get_secret('consumer') }}", "in", "form")},
		} {
			plugintest.Problems(t, h, test.c, test.want)
		}
	})
}

// An explanation shows the parameters, and the secrets as their templates.
func TestExplain(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("consumer")
		h.Canary("token")
		e := h.Explain(config("realm", "r"), hosttest.GET("https://api.test/?a=b"))
		if len(e.Added.Headers) != 1 || !strings.HasPrefix(e.Added.Headers[0].Value, `OAuth realm="r", oauth_consumer_key="reports", `) ||
			!strings.Contains(e.Added.Headers[0].Value, "get_secret('consumer')") {
			t.Errorf("added: %+v", e.Added)
		}
	})
}
