package main

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

// renewals is the endpoint for refresh tokens of servers that have two.
const renewals = "https://login.test/refresh"

// server is one that does not do as RFC 6749 and RFC 6750 say, with what it gets and answers.
type server struct {
	name            string
	config          hosttest.Config
	back            url.Values
	code, refreshed hosttest.Answer // refreshed is empty if there is no refresh token
	connects        string          // the token request with the code
	renews          string          // the token request with the refresh token
	header          http.Header     // those of both requests that are looked at
	api, sent       string          // the header of the API, and its value
	lasting         time.Duration   // 0: until the API refuses the token
}

var servers = []server{
	{
		name: "JSON", config: config("token_request", "json", "resource", "urn:a urn:b", "parameters", map[string]any{"tenant": 7}),
		code:     tokens("access_token", "the-first-access-token", "refresh_token", "the-refresh-token"),
		connects: `{"client_id":"me","client_secret":"a \"secret\"","code":"CODE","code_verifier":"VERIFIER","grant_type":"authorization_code","redirect_uri":"REDIRECT","resource":["urn:a","urn:b"],"tenant":"7"}`,
		renews:   `{"client_id":"me","client_secret":"a \"secret\"","grant_type":"refresh_token","refresh_token":"the-refresh-token","resource":["urn:a","urn:b"],"tenant":"7"}`,
		header:   http.Header{"Content-Type": {"application/json"}}, refreshed: tokens("access_token", "another-access-token", "expires_in", 300),
		api: "Authorization", sent: "Bearer another-access-token", lasting: 240 * time.Second,
	},
	{
		name:     "a header of its own",
		config:   config("key", "X-Shop-Token", "prefix", "", "client_auth", "none", "client_secret", nil),
		code:     tokens("access_token", "the-first-access-token"),
		connects: "grant_type=authorization_code&code=CODE&redirect_uri=REDIRECT&code_verifier=VERIFIER&client_id=me",
		api:      "X-Shop-Token", sent: "the-first-access-token",
	},
	{
		name: "two endpoints, with headers and parameters of their own",
		config: config("refresh_url", renewals, "parameters", map[string]any{"type": "web"}, "refresh_parameters", map[string]any{"type": "refresh"},
			"token_headers", map[string]any{"X-Api-Key": "{{ get_secret('crm') }}"}, "client_auth", "none", "client_secret", nil, "prefix", "token"),
		code:     tokens("access_token", "the-first-access-token", "refresh_token", "the-refresh-token"),
		connects: "grant_type=authorization_code&code=CODE&redirect_uri=REDIRECT&code_verifier=VERIFIER&client_id=me&type=web",
		renews:   "grant_type=refresh_token&refresh_token=the-refresh-token&client_id=me&type=refresh",
		header:   http.Header{"X-Api-Key": {`a "secret"`}}, refreshed: tokens("access_token", "another-access-token"),
		api: "Authorization", sent: "token another-access-token",
	},
	{
		name: "no expires_in", config: config("token_ttl", 3600, "client_auth", "none", "client_secret", nil),
		code:     tokens("access_token", "the-first-access-token", "refresh_token", "the-refresh-token"),
		connects: "grant_type=authorization_code&code=CODE&redirect_uri=REDIRECT&code_verifier=VERIFIER&client_id=me",
		renews:   "grant_type=refresh_token&refresh_token=the-refresh-token&client_id=me", refreshed: tokens("access_token", "another-access-token"),
		api: "Authorization", sent: "Bearer another-access-token", lasting: 3540 * time.Second,
	},
	{
		name: "no PKCE, another name for the code, and an answer that is nested",
		config: config("pkce", "none", "callback_code_parameter", "app_code", "token_code_parameter", "auth_code", "token_type", "any",
			"token_from", "json:/data/token", "refresh_token_from", "json:/data/refresh", "expires_at_from", "json:/data/ends"),
		back:      url.Values{"app_code": {"CODE"}, "code": {"of another kind", "twice"}},
		code:      hosttest.JSON(200, `{"token_type":"bot","data":{"token":"the-first-access-token","refresh":"the-refresh-token"}}`),
		refreshed: hosttest.JSON(200, `{"token_type":"bot","data":{"token":"another-access-token","ends":1767323645}}`),
		connects:  "grant_type=authorization_code&auth_code=CODE&redirect_uri=REDIRECT&client_id=me&client_secret=a+%22secret%22",
		renews:    "grant_type=refresh_token&refresh_token=the-refresh-token&client_id=me&client_secret=a+%22secret%22",
		api:       "Authorization", sent: "Bearer another-access-token", lasting: 540 * time.Second,
	},
}

// A server that takes token requests, answers them, or wants the token in a way of its own is served by fields (specification.md
// 3.46).
func TestServersWithWaysOfTheirOwn(t *testing.T) {
	for _, s := range servers {
		run.Case(t, s.name, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("crm", `a "secret"`)
			renewing := endpoint
			if s.config["refresh_url"] != nil {
				renewing = renewals
				h.TokenEndpoint(endpoint, s.code)
				h.TokenEndpoint(renewals, s.refreshed)
			} else {
				h.TokenEndpoint(endpoint, s.code, s.refreshed)
			}
			back := s.back
			if back == nil {
				back = url.Values{"code": {"CODE"}}
			}
			var challenge string
			testworld.Check(t, h.Consent(s.config, func(u *url.URL) url.Values { challenge = u.Query().Get("code_challenge"); return back }))
			if (challenge == "") != (s.config["pkce"] == "none") {
				t.Errorf("the code_challenge is %q", challenge)
			}
			s.compare(t, h, 0, endpoint, s.connects)
			s.request(t, h)
			if s.renews != "" {
				s.compare(t, h, 1, renewing, s.renews)
			}
			exchanges := len(h.Exchanges())
			for _, pause := range []time.Duration{s.lasting - time.Second, 2 * time.Second} {
				h.Advance(max(pause, 0))
				if s.lasting > 0 && len(h.Exchanges()) != exchanges {
					t.Errorf("the endpoint was asked %d times", len(h.Exchanges()))
				}
				s.request(t, h)
			}
			if s.lasting > 0 && len(h.Exchanges()) != exchanges+1 {
				t.Errorf("after the token's end the endpoint was asked %d times, want %d", len(h.Exchanges()), exchanges+1)
			}
		})
	}
}

// request sends a request, and compares what the API gets.
func (s server) request(t *testing.T, h *hosttest.Harness) {
	t.Helper()
	got := h.Authenticate(s.config, get())
	if got.Header(s.api) != s.sent || len(got.Request.Header) != 1 {
		t.Errorf("the API gets %v, want %s: %s", got.Request.Header, s.api, s.sent)
	}
}

// compare compares a token request.
func (s server) compare(t *testing.T, h *hosttest.Harness, i int, where, want string) {
	t.Helper()
	got := h.Exchanges()[i]
	body := got.Body
	for name, values := range got.Form {
		if name == "redirect_uri" || name == "code_verifier" {
			body = strings.Replace(body, url.QueryEscape(values[0]), map[string]string{"redirect_uri": "REDIRECT", "code_verifier": "VERIFIER"}[name], 1)
		}
	}
	if got.Form == nil {
		body = masked(body, `"redirect_uri":"`, "REDIRECT")
		body = masked(body, `"code_verifier":"`, "VERIFIER")
	}
	if got.URL != where || body != want {
		t.Errorf("%s gets %s\nwant %s with %s", got.URL, body, where, want)
	}
	for name, value := range s.header {
		if got.Header.Get(name) != value[0] {
			t.Errorf("%s is %q, want %q", name, got.Header.Get(name), value[0])
		}
	}
}

// masked returns a JSON document with other text in the string that follows a label, if there is one.
func masked(document, label, text string) string {
	head, rest, found := strings.Cut(document, label)
	if !found {
		return document
	}
	_, tail, _ := strings.Cut(rest, `"`)
	return head + label + text + `"` + tail
}

// PKCE is left out only for a client that authenticates, and no field sets what another one sets (threats.md 150).
func TestProblemsOfTheDialect(t *testing.T) {
	for path, c := range map[string]hosttest.Config{
		"pkce":                        config("pkce", "none", "client_auth", "none", "client_secret", nil),
		"token_headers.Authorization": config("token_headers", map[string]any{"Authorization": "x"}, "client_auth", "client_secret_basic"),
		"key":                         config("key", "Host"),
		"token_from":                  config("token_from", "nowhere"),
		"refresh_parameters.resource": config("refresh_parameters", map[string]any{"resource": "x"}),
	} {
		run(t, func(t *testing.T, h *hosttest.Harness) {
			h.Canary("crm")
			plugintest.Problems(t, h, c, path)
		})
	}
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		own := config("pkce", "none", "client_auth", "none", "client_secret", nil, "token_headers", map[string]any{"Authorization": "Bearer {{ get_secret('crm') }}"})
		plugintest.Problems(t, h, own, "")
		if err := h.Consent(config("callback_code_parameter", "state"), grants); err == nil || !strings.Contains(err.Error(), "the code may not come in") {
			t.Errorf("a code in state: %v", err)
		}
	})
}

// A browser sees no secret: one that it would see is a problem when the connector is loaded (threats.md 127).
func TestTheBrowserSeesNoSecret(t *testing.T) {
	for path, c := range map[string]hosttest.Config{
		"auth.config.client_id":         config("client_id", "{{ get_secret('crm') }}"),
		"auth.config.scope":             config("scope", "read {{ get_secret('crm') }}"),
		"auth.config":                   config("authorization_parameters", map[string]any{"x": []any{"{{ get_secret('crm') }}"}}),
		"auth.config.authorization_url": config("authorization_url", "https://login.test/?a={{ get_secret('crm') }}"),
		"auth.config.issuer":            config("issuer", "https://login.test/{{ get_secret('crm') }}"),
	} {
		run.Case(t, path, func(t *testing.T, h *hosttest.Harness) {
			problems := h.Problems(c)
			if len(problems) != 1 || problems[0].Path != path || !strings.Contains(problems[0].Message, "a secret is in the authorization request") {
				t.Errorf("the problems are %+v", problems)
			}
		})
	}
}

// No configuration sets what the host does (threats.md 127).
func TestReservedParameters(t *testing.T) {
	for name, c := range map[string]hosttest.Config{
		"state":    config("authorization_url", "https://login.test/?state=mine"),
		"template": config("authorization_parameters", map[string]any{"x": "y"}, "authorization_url", "{{ get_variable('v') }}"),
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.Canary("crm")
			h.Variable("v", "https://login.test/?response_type=token")
			err := h.Consent(c, func(u *url.URL) url.Values {
				t.Errorf("the browser goes to %s", u)
				return url.Values{}
			})
			var failure *host.Error
			if !errors.As(err, &failure) || failure.Stage != host.StageConfig {
				t.Errorf("the error is %v", err)
			}
		})
	}
}
