package main

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

const endpoint = "https://login.test/token"

var run = plugintest.Of(plugin{}, "oauthcc.wasm")

// config returns a complete configuration. Pairs of name and value add fields or replace them.
func config(pairs ...any) hosttest.Config {
	return plugintest.With(hosttest.Config{"client_id": "me", "client_secret": "{{ get_secret('crm') }}", "token_url": endpoint}, pairs...)
}

func get() *http.Request { return hosttest.GET("https://api.test/v1") }

// The token request sends grant_type, client_id and client_secret as a form, and the API gets the token
// (specification.md 3.6, 3.7 and 4.1).
func TestExchange(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		secret := h.Canary("crm")
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 300))
		got := h.Authenticate(config(), get())
		if got.Header("Authorization") != "Bearer the-access-token" || len(got.Request.Header) != 1 {
			t.Errorf("headers: %v", got.Request.Header)
		}
		exchange := h.Exchanges()[0]
		form := map[string][]string{"grant_type": {"client_credentials"}, "client_id": {"me"}, "client_secret": {secret}}
		if len(exchange.Form) != len(form) {
			t.Errorf("form fields: %v", exchange.Form)
		}
		for name, values := range form {
			if !slices.Equal(exchange.Form[name], values) {
				t.Errorf("form field %s is %q", name, exchange.Form[name])
			}
		}
		if got := exchange.Header.Get("Content-Type"); got != "application/x-www-form-urlencoded" {
			t.Errorf("Content-Type: %s", got)
		}
	})
}

// A token is reused until 60 seconds before it expires (specification.md 3.8, 4.2 and 4.3).
func TestTokenLifetime(t *testing.T) {
	for name, answer := range map[string]string{
		"number":        `{"access_token":"the-access-token","expires_in":3600}`,
		"decimal":       `{"access_token":"the-access-token","expires_in":3600.9}`,
		"numeric text":  `{"access_token":"the-access-token","expires_in":"3600"}`,
		"with the rest": `{"access_token":"the-access-token","token_type":"bearer","expires_in":3600,"scope":"a b","more":{"a":[1]}}`,
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.Canary("crm")
			h.TokenEndpoint(endpoint, hosttest.JSON(200, answer))
			plugintest.Lasts(t, h, config(), get(), "Bearer the-access-token", 3539*time.Second)
			if calls := h.Calls(); !calls[1].Cached || calls[2].Cached {
				t.Errorf("calls: %+v", calls)
			}
		})
	}
}

// Without a usable expires_in the token is used for this request only, with one warning
// (specification.md "expires_in missing, not a number or short", threats.md 33).
func TestUncachedTokens(t *testing.T) {
	for name, member := range map[string]string{
		"absent":       ``,
		"null":         `,"expires_in":null`,
		"text":         `,"expires_in":"soon"`,
		"a list":       `,"expires_in":[3600]`,
		"negative":     `,"expires_in":-3600`,
		"zero":         `,"expires_in":0`,
		"a minute":     `,"expires_in":60`,
		"under 61":     `,"expires_in":60.9`,
		"over 31 bits": `,"expires_in":2147483648`,
		"huge":         `,"expires_in":1e99`,
		"empty text":   `,"expires_in":""`,
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.Canary("crm")
			h.TokenEndpoint(endpoint, hosttest.JSON(200, `{"access_token":"the-access-token"`+member+`}`))
			for range 3 {
				h.Authenticate(config(), get())
			}
			plugintest.Exchanges(t, h, 3)
			plugintest.Warns(t, h, "not cached")
		})
	}
}

// No expires_in overflows, and a clock that is set back does not extend the validity of a token (threats.md 33).
func TestExtremesOfExpiresIn(t *testing.T) {
	for name, test := range map[string]struct {
		expiresIn int
		advance   time.Duration
		exchanges int
	}{
		"shortest, at once":           {61, 0, 1},
		"shortest, a second later":    {61, time.Second, 2},
		"longest, a day later":        {1<<31 - 1, 24 * time.Hour, 1},
		"longest, a century later":    {1<<31 - 1, 100 * 365 * 24 * time.Hour, 2},
		"longest, a second before it": {1<<31 - 1, -time.Second, 2},
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.Canary("crm")
			h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", test.expiresIn))
			h.Authenticate(config(), get())
			h.Advance(test.advance)
			h.Authenticate(config(), get())
			plugintest.Exchanges(t, h, test.exchanges)
		})
	}
}

// A scope is sent only if it renders to a text with words, and with one space between them (specification.md "scope").
func TestScope(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		h.Variable("none", "")
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 0))
		for scope, want := range map[string][]string{
			"read write": {"read write"}, "{{ user.email | default('all') }}": {"all"}, "": nil, "{{ get_variable('none') }}": nil,
			" a  b\tc\r\nd\n": {"a b c d"}, " \n": nil,
		} {
			h.Authenticate(config("scope", scope), get())
			exchanges := h.Exchanges()
			if got := exchanges[len(exchanges)-1].Form["scope"]; !slices.Equal(got, want) {
				t.Errorf("scope %q is sent as %q", scope, got)
			}
		}
	})
}

// The token type must be absent, or bearer in any case of letters (specification.md "token_type").
func TestTokenType(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		for tokenType, ok := range map[string]bool{
			`"bearer"`: true, `"BeArEr"`: true, `"BearerToken"`: true, `null`: true, `"mac"`: false, `"DPoP"`: false, `"my own"`: false, `7`: false, `""`: false,
		} {
			h.TokenEndpoint(endpoint, hosttest.JSON(200, `{"access_token":"the-access-token","token_type":`+tokenType+`}`))
			_, err := h.Try(config(), get())
			if (err == nil) != ok {
				t.Errorf("token_type %s: %v", tokenType, err)
			}
			if err != nil && !strings.Contains(err.Error(), "another type than bearer") {
				t.Errorf("token_type %s: %v", tokenType, err)
			}
		}
	})
}

// The error for an answer without a token has the status and the RFC 6749 code, never the body
// (specification.md "answer is no token", threats.md 20, 34).
func TestAnswersWithoutToken(t *testing.T) {
	const body = "the body says hunter2 again"
	for _, test := range []struct {
		name   string
		answer hosttest.Answer
		status int // of the TokenError, or 0 for another error
		code   string
		text   string
	}{
		{"wrong secret", hosttest.JSON(401, `{"error":"invalid_client","error_description":"`+body+`"}`), 401, "invalid_client", "401 (invalid_client)"},
		{"code of its own", hosttest.JSON(400, `{"error":"`+body+`"}`), 400, "other", "400 (an error code that is not registered)"},
		{"no code", hosttest.JSON(503, body), 503, "", "503"},
		{"redirect", hosttest.JSON(307, `{"access_token":"the-access-token"}`), 307, "", "307"},
		{"HTML", hosttest.JSON(200, "<html>"+body), 200, "", "200 with a body that"},
		{"no access_token", hosttest.JSON(200, `{"token":"`+body+`"}`), 200, "", "without an access_token"},
		{"a blank token", hosttest.JSON(200, `{"access_token":"  "}`), 200, "", "without an access_token"},
		{"a token that is no text", hosttest.JSON(200, `{"access_token":{"a":"`+body+`"}}`), 200, "", "without an access_token"},
		{"line break in the token", hosttest.JSON(200, `{"access_token":"good-token\r\nX-Evil: 1"}`), 200, "", "characters no token may have"},
		{"over 64 KiB", hosttest.JSON(200, `{"access_token":"`+strings.Repeat("t", 64<<10)+`"}`), 200, "", "more than 65536 bytes"},
		{"unreachable", hosttest.Unreachable(), 0, "", "connection refused"},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.Canary("crm")
			h.TokenEndpoint(endpoint, test.answer, hosttest.Token("the-access-token", 300))
			err := h.AuthenticateError(config(), get())
			if err.Stage != host.StageToken || !strings.Contains(err.Error(), test.text) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("stage %s: %v", err.Stage, err)
			}
			var answer *host.TokenError
			if errors.As(err, &answer) != (test.status != 0) || answer != nil && (answer.Status != test.status || answer.Code != test.code) {
				t.Errorf("as a TokenError: %+v", answer)
			}
			if answer != nil {
				h.Advance(answer.RetryAfter)
			}
			// The next request tries again (after a refusal: a second later), and its token is cached (threats.md 32).
			h.Authenticate(config(), get())
			h.Authenticate(config(), get())
			plugintest.Exchanges(t, h, 2)
		})
	}
}

// A cached token is used only for the same user, configuration and secret (specification.md "whose token", threats.md 29).
func TestTokenOwner(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		h.TokenEndpoint(endpoint, hosttest.Token("first-token", 3600), hosttest.Token("second-token", 3600),
			hosttest.Token("third-token", 3600), hosttest.Token("fourth-token", 3600))
		ask := func(c hosttest.Config, want string) {
			t.Helper()
			plugintest.Sends(t, h, c, get(), "Bearer "+want)
		}
		perUser := config("client_id", "{{ user.email }}")
		h.As(host.User{Email: "ann@example.com"})
		ask(perUser, "first-token") // the first user
		h.As(host.User{Email: "bob@example.com"})
		ask(perUser, "second-token") // another user
		h.As(host.User{Email: "ann@example.com", ID: "7"})
		ask(perUser, "first-token")                 // the first user, with a field that no template names
		ask(config("scope", "more"), "third-token") // another configuration
		h.Canary("crm")
		ask(perUser, "fourth-token") // another version of the secret
	})
}

// If the API answers 401 to a cached token, the token is replaced, once (specification.md "upstream answers 401").
func TestRefusedTokenReplacement(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		h.TokenEndpoint(endpoint, hosttest.Token("first-token", 3600), hosttest.Token("second-token", 3600))
		h.Authenticate(config(), get())
		plugintest.Renews(t, h, config(), hosttest.POST("https://api.test/v1", "body"), "Bearer second-token")
		h.API(hosttest.JSON(401, `{}`)) // the new token is refused at once
		plugintest.Answers(t, h, config(), get(), http.StatusUnauthorized, 1)
		plugintest.Exchanges(t, h, 2)
	})
}

// A token_url with a template is checked when it is rendered
// (specification.md "secrets anywhere", "token_url" and "user in the host of a URL").
func TestTokenURLFromATemplate(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		h.TokenEndpoint("https://login.test/t/nine/token", hosttest.Token("the-access-token", 300))
		h.As(host.User{TenantID: "nine"})
		h.Authenticate(config("token_url", "https://login.test/t/{{ tenant_id }}/token"), get())
		for url, text := range map[string]string{
			"http://login.test": "plain http", "https://me:it@login.test": "user info", "https://login.test/#a": "fragment",
		} {
			h.Secret("url", url)
			plugintest.Refuses(t, h, config("token_url", "{{ get_secret('url') }}"), get(), host.StageConfig, text)
		}
		// The host gets the credential, so that no value may choose it.
		plugintest.Problem(t, h, config("token_url", "https://{{ tenant_id }}.login.test/token"), "token_url: only behind the host")
	})
}

// All problems are reported at once, each with its path (specification.md "every problem at once").
func TestProblems(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for text, c := range map[string]hosttest.Config{
			"client_id client_secret token_url scopes": {"scopes": "a"},
			"token_url scope":                          config("token_url", "http://login.test", "scope", 7),
			"client_id client_secret":                  config("client_id", "", "client_secret", " "),
			"":                                         config(),
		} {
			plugintest.Problems(t, h, c, text)
		}
	})
}

// An explanation sends no token request and shows no token.
func TestExplain(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		e := h.Explain(config(), get())
		if len(e.Added.Headers) != 1 || e.Added.Headers[0].Value != "Bearer <token>" || len(h.Exchanges()) != 0 {
			t.Errorf("added: %+v, %d exchanges", e.Added, len(h.Exchanges()))
		}
	})
}
