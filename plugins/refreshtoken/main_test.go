package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

const (
	endpoint = "https://login.test/token"
	seed     = "the first refresh-token"
)

var run = plugintest.Of(plugin{}, "refreshtoken.wasm", func(h *hosttest.Harness) {
	h.Secret("seed", seed)
})

// config returns a configuration of a public client. Pairs of name and value add fields or replace them.
func config(pairs ...any) hosttest.Config {
	return plugintest.With(hosttest.Config{"refresh_token": "{{ get_secret('seed') }}", "token_url": endpoint, "client_auth": "none", "client_id": "me"}, pairs...)
}

func get() *http.Request { return hosttest.GET("https://api.test/v1") }

// rotated returns the answer of a token endpoint with a new refresh token.
func rotated(access, refresh string) hosttest.Answer {
	return hosttest.JSON(http.StatusOK, fmt.Sprintf(`{"access_token":%q,"token_type":"bearer","expires_in":300,"refresh_token":%q}`, access, refresh))
}

// refreshTokens returns the refresh tokens that the endpoint got.
func refreshTokens(h *hosttest.Harness) string {
	var all []string
	for _, e := range h.Exchanges() {
		all = append(all, e.Form.Get("refresh_token"))
	}
	return strings.Join(all, ", ")
}

// The token request is that of RFC 6749 section 6, with the client's credentials (specification.md 3.43).
func TestExchange(t *testing.T) {
	const grant = "grant_type=refresh_token&refresh_token=the+first+refresh-token"
	for _, test := range []struct {
		name         string
		config       hosttest.Config
		body, header string
	}{
		{"public client", config("scope", "a\n b"), grant + "&client_id=me&scope=a+b", ""},
		{"post", config("client_auth", "client_secret_post", "client_secret", "{{ get_secret('crm') }}"), grant + "&client_id=me&client_secret=the+secret", ""},
		{
			"basic", config("client_auth", "client_secret_basic", "client_secret", "{{ get_secret('crm') }}"), grant,
			"Basic " + base64.StdEncoding.EncodeToString([]byte("me:the+secret")),
		},
		{"tls", config("client_auth", "tls_client_auth"), grant + "&client_id=me", ""},
		{"parameters", config("parameters", map[string]any{"a": "b"}, "audience", "https://api.test", "resource", "urn:a"), grant + "&client_id=me&audience=https%3A%2F%2Fapi.test&resource=urn%3Aa&a=b", ""},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("crm", "the secret")
			h.TokenEndpoint(endpoint, rotated("the-access-token", "the-second-token"))
			got := h.Authenticate(test.config, get())
			if got.Header("Authorization") != "Bearer the-access-token" || len(got.Request.Header) != 1 {
				t.Errorf("the API gets %v", got.Request.Header)
			}
			if e := h.Exchanges()[0]; e.Method != http.MethodPost || e.Body != test.body || e.Header.Get("Authorization") != test.header {
				t.Errorf("the request is %s %s\nAuthorization: %s", e.Method, e.Body, e.Header.Get("Authorization"))
			}
		})
	}
}

// The client may sign an assertion in place of a secret.
func TestPrivateKeyJWT(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		h.TokenEndpoint(endpoint, rotated("the-access-token", "the-second-token"))
		h.Authenticate(config("client_auth", "private_key_jwt", "private_key", "{{ get_secret('key') }}", "algorithm", "ES256"), get())
		form := h.Exchanges()[0].Form
		if _, claims := h.JWT(form.Get("client_assertion")); claims["sub"] != "me" || claims["aud"] != endpoint || form.Get("refresh_token") != seed {
			t.Errorf("the claims are %v", claims)
		}
	})
}

// An access token is used until a minute before it expires, and until the API refuses it. Each refresh token is sent once, also
// after the host was started anew (specification.md 3.43).
func TestRotatingRefreshToken(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(endpoint, rotated("access-token-1", "refresh-2"), rotated("access-token-2", "refresh-3"),
			rotated("access-token-3", "refresh-4"), rotated("access-token-4", "refresh-5"))
		for _, step := range []struct {
			pass    time.Duration
			restart bool
			token   string
		}{
			{0, false, "access-token-1"},
			{239 * time.Second, true, "access-token-1"},
			{time.Second, false, "access-token-2"},
			{239 * time.Second, false, "access-token-2"},
			{time.Second, true, "access-token-3"},
		} {
			h.Advance(step.pass)
			if step.restart {
				h.Restart()
			}
			plugintest.Sends(t, h, config(), get(), "Bearer "+step.token)
		}
		plugintest.Renews(t, h, config(), get(), "Bearer access-token-4")
		if got := refreshTokens(h); got != seed+", refresh-2, refresh-3, refresh-4" {
			t.Errorf("the endpoint got %s", got)
		}
	})
}

// A refresh token that does not rotate is sent again.
func TestLastingRefreshToken(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 300))
		for range 3 {
			h.Authenticate(config(), get())
			h.Advance(time.Hour)
		}
		if got := refreshTokens(h); got != seed+", "+seed+", "+seed {
			t.Errorf("the endpoint got %s", got)
		}
	})
}

// An access token without a usable expires_in is used once, and an answer with another type of token fails. The new refresh
// token is kept in both cases.
func TestNewRefreshTokenKept(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(endpoint, hosttest.JSON(200, `{"access_token":"the-access-token","refresh_token":"the-second-token"}`),
			hosttest.JSON(200, `{"access_token":"the-access-token","token_type":"mac","refresh_token":"the-third-token"}`), rotated("the-access-token", "the-fourth-token"))
		h.Authenticate(config(), get())
		if err := h.AuthenticateError(config(), get()); !strings.Contains(err.Error(), "another type than bearer") {
			t.Error(err)
		}
		h.Authenticate(config(), get())
		if got := refreshTokens(h); got != seed+", the-second-token, the-third-token" || len(h.Warnings()) != 1 {
			t.Errorf("the endpoint got %s; the warnings are %q", got, h.Warnings())
		}
	})
}

// A grant that the endpoint refuses, or whose next token cannot be kept, is not used again until there is another refresh token
// (threats.md 124).
func TestALostGrant(t *testing.T) {
	for condition, answer := range map[host.Condition]hosttest.Answer{
		host.ConditionRefused: hosttest.JSON(400, `{"error":"invalid_grant","error_description":"hunter2"}`), host.ConditionLost: hosttest.JSON(200, `{"access_token":"the-lost-access-token","refresh_token":{}}`),
	} {
		run(t, func(t *testing.T, h *hosttest.Harness) {
			h.TokenEndpoint(endpoint, answer, rotated("the-access-token", "the-third-token"))
			for range 3 {
				err := h.AuthenticateError(config(), get())
				var grant *host.GrantError
				if !errors.As(err, &grant) || grant.Condition != condition || err.Stage != host.StageToken || err.Retryable() || strings.Contains(err.Error(), "hunter2") {
					t.Fatalf("the error is %v", err)
				}
				h.Restart()
				h.Advance(time.Hour)
			}
			h.Secret("seed", "the-second-token")
			h.Authenticate(config(), get())
			if got := refreshTokens(h); got != seed+", the-second-token" {
				t.Errorf("the endpoint got %s", got)
			}
		})
	}
}

// After an answer that does not say what became of the refresh token, it is sent again: not at once, and in another process too.
func TestAnUncertainGrant(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(endpoint, hosttest.JSON(500, `hunter2`), rotated("the-access-token", "the-third-token"))
		for range 2 {
			err := h.AuthenticateError(config(), get())
			var grant *host.GrantError
			if !errors.As(err, &grant) || grant.Condition != host.ConditionUncertain || !err.Retryable() || strings.Contains(err.Error(), "hunter2") {
				t.Fatalf("the error is %v", err)
			}
			h.Restart()
		}
		h.Advance(time.Second)
		h.Authenticate(config(), get())
		if got := refreshTokens(h); got != seed+", "+seed {
			t.Errorf("the endpoint got %s", got)
		}
	})
}

// After a refusal of the client, the error has the status and the code, and the same refresh token is sent again.
func TestARefusedClient(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(endpoint, hosttest.JSON(401, `{"error":"invalid_client","error_description":"hunter2"}`), hosttest.Token("the-access-token", 300))
		err := h.AuthenticateError(config(), get())
		var answer *host.TokenError
		if !errors.As(err, &answer) || answer.Status != 401 || answer.Code != "invalid_client" || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error is %v", err)
		}
		h.Advance(answer.RetryAfter)
		h.Authenticate(config(), get())
		if got := refreshTokens(h); got != seed+", "+seed {
			t.Errorf("the endpoint got %s", got)
		}
	})
}

// A token counts only if the answer is a success.
func TestTokenWithOtherStatus(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(endpoint, hosttest.JSON(http.StatusMultipleChoices, `{"access_token":"the-access-token","token_type":"bearer","expires_in":300}`))
		plugintest.Refuses(t, h, config(), get(), "", "300")
	})
}

// All problems of a configuration are found when it is loaded.
func TestProblems(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		without := config()
		delete(without, "refresh_token")
		for want, c := range map[string]hosttest.Config{
			"refresh_token: is missing: Refresh token to begin with":                                       without,
			"client_secret: has no effect unless client_auth is client_secret_post or client_secret_basic": config("client_secret", "s"),
			"parameters.refresh_token: is set by the type or by another field, remove it":                  config("parameters", map[string]any{"refresh_token": "a"}),
			"refresh_token: names user.token, which a grant would outlive: name a secret":                  config("refresh_token", "{{ user.token }}"),
		} {
			h.UserTokenHosts("login.test")
			plugintest.Problem(t, h, c, want)
			h.Restart()
		}
	})
}

// An explanation shows the request with masks, and sends nothing.
func TestExplain(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		e := h.Explain(config(), get())
		if len(e.Steps) != 1 || e.Steps[0].Exchange.Body != "grant_type=refresh_token&refresh_token=<refresh_token>&client_id=me" || len(h.Exchanges()) != 0 {
			t.Errorf("the steps are %+v", e.Steps)
		}
	})
}

// A refresh token is sent again, once, if the endpoint has refused the time of the client's assertion and not the grant. The token
// lasts by the clock of the endpoint. Apigee's type of tokens is that of bearer tokens.
func TestClockOfTheClientsAssertion(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		const behind = 5 * time.Minute
		h.Key("key", "RS256")
		h.TokenEndpoint(endpoint, plugintest.Dated(h, hosttest.JSON(http.StatusUnauthorized, `{"error":"invalid_client"}`), -behind), hosttest.JSON(http.StatusOK, fmt.Sprintf(`{"access_token":"the-access-token","token_type":"BearerToken","expires_at":%d}`,
			h.Now().Add(10*time.Minute-behind).Unix())), hosttest.Token("another-token", 3600))
		c := config("client_auth", "private_key_jwt", "private_key", "{{ get_secret('key') }}", "expires_at_from", "json:/expires_at")
		plugintest.Sends(t, h, c, get(), "Bearer the-access-token")
		if got := refreshTokens(h); got != seed+", "+seed {
			t.Errorf("the refresh tokens are %s", got)
		}
		h.Advance(9*time.Minute - time.Second)
		h.Authenticate(c, get())
		plugintest.Exchanges(t, h, 2)
		h.Advance(time.Second)
		h.Authenticate(c, get())
		plugintest.Exchanges(t, h, 3)
	})
}

// The offset of the endpoint's clock was learnt before the host's clock was set right. A token that would be over at once by it lasts by
// the host's clock.
func TestStaleClockOffset(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		const behind = time.Hour
		h.Key("key", "RS256")
		answer := func(refusal bool, offset time.Duration) hosttest.Answer {
			return func(r *http.Request) (*http.Response, error) {
				a := hosttest.JSON(http.StatusOK, fmt.Sprintf(`{"access_token":"an-access-token","token_type":"Bearer","expires_at":%d}`, h.Now().Add(59*time.Minute+offset).Unix()))
				if refusal {
					a = hosttest.JSON(http.StatusUnauthorized, `{"error":"invalid_client"}`)
				}
				response, err := a(r)
				response.Header.Set("Date", h.Now().Add(offset).UTC().Format(http.TimeFormat))
				return response, err
			}
		}
		h.TokenEndpoint(endpoint, answer(true, behind), answer(false, behind), answer(false, 0))
		c := config("client_auth", "private_key_jwt", "private_key", "{{ get_secret('key') }}", "expires_at_from", "json:/expires_at")
		h.Authenticate(c, get())
		h.Advance(behind) // the host's clock is set right
		for range 3 {
			h.Authenticate(c, get())
		}
		plugintest.Exchanges(t, h, 3)
	})
}

// A server that differs from RFC 6749 gets a refresh token as it wants, and the API gets the token in the header that it wants, for
// as long as the answer or the configuration says (specification.md 3.46).
func TestServerDialects(t *testing.T) {
	c := config("token_request", "json", "token_headers", map[string]any{"X-Api-Key": "a-key"}, "audience", "a b", "key", "X-Token", "prefix", "Token",
		"token_from", "json:/data/token", "refresh_token_from", "json:/data/refresh", "token_type", "any", "token_ttl", 600)
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(endpoint,
			hosttest.JSON(200, `{"token_type":"user","data":{"token":"the-access-token","refresh":"the-second-token"}}`),
			hosttest.JSON(200, `{"data":{"token":"another-access-token"}}`))
		for _, want := range []struct{ token, body string }{
			{"Token the-access-token", `{"audience":["a","b"],"client_id":"me","grant_type":"refresh_token","refresh_token":"the first refresh-token"}`},
			{"Token another-access-token", `{"audience":["a","b"],"client_id":"me","grant_type":"refresh_token","refresh_token":"the-second-token"}`},
		} {
			for range 2 { // the second one has the cached token
				if got := h.Authenticate(c, get()); got.Header("X-Token") != want.token || len(got.Request.Header) != 1 {
					t.Errorf("the API gets %v, want %s", got.Request.Header, want.token)
				}
				h.Advance(269 * time.Second)
			}
			exchanges := h.Exchanges()
			if e := exchanges[len(exchanges)-1]; e.Body != want.body || e.Header.Get("X-Api-Key") != "a-key" {
				t.Errorf("the endpoint gets %s with %v", e.Body, e.Header)
			}
			h.Advance(3 * time.Second)
		}
		plugintest.Exchanges(t, h, 2)
	})
}

// Another token_type than bearer is refused unless the configuration allows it, and so is a header that another field sets.
func TestProblemsOfTheDialect(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("crm", "the secret")
		h.TokenEndpoint(endpoint, hosttest.JSON(200, `{"access_token":"the-access-token","token_type":"bot","expires_in":300}`))
		plugintest.Refuses(t, h, config(), get(), "", "another type than bearer")
		basic := config("client_auth", "client_secret_basic", "client_secret", "{{ get_secret('crm') }}", "token_headers", map[string]any{"authorization": "x"})
		plugintest.Problems(t, h, basic, "token_headers.authorization")
	})
}

// A refresh token may be bound to a key, which is the operator's: one that the host makes would be another with the next version of the
// plugin.
func TestBoundTokens(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		h.Canary("refresh")
		h.Key("proof", "ES256")
		h.TokenEndpoint(endpoint, plugintest.Headed(hosttest.JSON(400, `{"error":"use_dpop_nonce"}`), "DPoP-Nonce", "the-nonce"),
			hosttest.JSON(200, `{"access_token":"the-bound-token","token_type":"DPoP","expires_in":300,"refresh_token":"the-second-refresh-token"}`))
		got := h.Authenticate(config("sender", "dpop", "proof_key", "{{ get_secret('proof') }}"), get())
		if _, claims := h.JWT(got.Header("DPoP")); got.Header("Authorization") != "DPoP the-bound-token" || claims["ath"] == nil {
			t.Errorf("headers = %v, want a token with its proof", got.Request.Header)
		}
		if _, claims := h.JWT(h.Exchanges()[1].Header.Get("DPoP")); claims["nonce"] != "the-nonce" {
			t.Errorf("claims = %v, want the endpoint's nonce", claims)
		}
		plugintest.Problem(t, h, config("sender", "dpop"), "proof_key: is missing, and sender is dpop")
	})
}
