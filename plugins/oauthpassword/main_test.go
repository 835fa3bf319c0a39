package main

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

const endpoint = "https://login.test/token"

var run = plugintest.Of(plugin{}, "oauthpassword.wasm")

// config returns a configuration of a public client. Pairs of name and value add fields or replace them.
func config(pairs ...any) hosttest.Config {
	return plugintest.With(hosttest.Config{"username": "ann", "password": "{{ get_secret('password') }}", "token_url": endpoint, "client_auth": "none"}, pairs...)
}

func get() *http.Request { return hosttest.GET("https://api.test/v1") }

// The token request is that of RFC 6749 section 4.3.2, with the client's credentials if there are any
// (specification.md 3.30).
func TestExchange(t *testing.T) {
	const owner = "grant_type=password&username=ann&password=p%C3%A4ss+w%3Frd"
	for _, test := range []struct {
		name         string
		config       hosttest.Config
		body, header string
	}{
		{"no client", config(), owner, ""},
		{"public client", config("client_id", "me", "scope", "a b"), owner + "&client_id=me&scope=a+b", ""},
		{"post", config("client_auth", "client_secret_post", "client_id", "me", "client_secret", "{{ get_secret('crm') }}"), owner + "&client_id=me&client_secret=the+secret", ""},
		{
			"basic", config("client_auth", "client_secret_basic", "client_id", "me", "client_secret", "{{ get_secret('crm') }}"), owner,
			"Basic " + base64.StdEncoding.EncodeToString([]byte("me:the+secret")),
		},
		{"tls", config("client_auth", "tls_client_auth", "client_id", "me"), owner + "&client_id=me", ""},
		{"parameters", config("parameters", map[string]any{"acr_values": "a"}), owner + "&acr_values=a", ""},
		{"audience and resource", config("audience", "https://api.test", "resource", "urn:a"), owner + "&audience=https%3A%2F%2Fapi.test&resource=urn%3Aa", ""},
		{"user of a secret", config("username", "{{ get_secret('user') }}"), strings.Replace(owner, "ann", "bob%2Bsecret", 1), ""},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("password", "päss w?rd")
			h.Secret("crm", "the secret")
			h.Secret("user", "bob+secret")
			h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 300))
			got := h.Authenticate(test.config, get())
			if got.Header("Authorization") != "Bearer the-access-token" || len(got.Request.Header) != 1 {
				t.Errorf("the API gets %v", got.Request.Header)
			}
			if exchange := h.Exchanges()[0]; exchange.Body != test.body || exchange.Header.Get("Authorization") != test.header {
				t.Errorf("the request is %s\nAuthorization: %s", exchange.Body, exchange.Header.Get("Authorization"))
			}
		})
	}
}

// The client may sign an assertion in place of a secret.
func TestPrivateKeyJWT(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		h.Canary("password")
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 300))
		h.Authenticate(config("client_auth", "private_key_jwt", "client_id", "me", "private_key", "{{ get_secret('key') }}", "algorithm", "ES256"), get())
		form := h.Exchanges()[0].Form
		if _, claims := h.JWT(form.Get("client_assertion")); claims["sub"] != "me" || claims["aud"] != endpoint || form.Has("client_secret") {
			t.Errorf("the claims are %v", claims)
		}
	})
}

// A token is used until a minute before it expires, and until the API refuses it.
func TestTokenReuse(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("password")
		h.TokenEndpoint(endpoint, hosttest.Token("first-token", 300), hosttest.Token("second-token", 300), hosttest.Token("third-token", 300))
		for _, step := range []struct {
			pass  time.Duration
			token string
		}{{0, "first-token"}, {239 * time.Second, "first-token"}, {time.Second, "second-token"}} {
			h.Advance(step.pass)
			plugintest.Sends(t, h, config(), get(), "Bearer "+step.token)
		}
		plugintest.Renews(t, h, config(), get(), "Bearer third-token")
	})
}

// The error of a refusal has the status and the code. A configuration that is not complete is refused before.
func TestRefusals(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("password")
		h.TokenEndpoint(endpoint, hosttest.JSON(400, `{"error":"invalid_grant","error_description":"wrong password"}`))
		err := h.AuthenticateError(config(), get())
		var answer *host.TokenError
		if !errors.As(err, &answer) || answer.Status != 400 || answer.Code != "invalid_grant" || strings.Contains(err.Error(), "wrong") {
			t.Errorf("the error is %v", err)
		}
		for want, c := range map[string]hosttest.Config{
			"username: is missing: Name of the resource owner":                                             {"password": "p", "token_url": endpoint, "client_auth": "none"},
			"client_id: is missing, and client_auth is tls_client_auth: OAuth client identifier":           config("client_auth", "tls_client_auth"),
			"client_secret: has no effect unless client_auth is client_secret_post or client_secret_basic": config("client_secret", "s"),
			"client_secret: is missing, and client_auth is client_secret_post: OAuth client secret":        config("client_auth", "client_secret_post", "client_id", "me"),
			"parameters.password: is set by the type or by another field, remove it":                       config("parameters", map[string]any{"password": "a"}),
			"jwt_headers.TYP: is typ to readers that ignore case, write it so":                             config("client_auth", "private_key_jwt", "client_id", "me", "private_key", "k", "jwt_headers", map[string]any{"TYP": "a"}),
			"parameters.Scope: is scope to readers that ignore case, and that is set by":                   config("parameters", map[string]any{"Scope": "a"}),
		} {
			plugintest.Problem(t, h, c, want)
		}
	})
}
