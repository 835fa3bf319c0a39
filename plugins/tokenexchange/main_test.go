package main

import (
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

const (
	endpoint  = "https://login.test/token"
	second    = "https://api-login.test/token"
	grantType = "urn:ietf:params:oauth:grant-type:token-exchange"
	bearer    = "urn:ietf:params:oauth:grant-type:jwt-bearer"
)

var run = plugintest.Of(plugin{}, "tokenexchange.wasm", func(h *hosttest.Harness) {
	h.Secret("user", "token-of-the-user")
	h.Secret("actor", "token-of-the-actor")
	h.Secret("crm", "secret:of the client")
	h.Secret("other", "secret for another")
})

// config returns a configuration without client authentication. Pairs of name and value add fields or replace them.
func config(pairs ...any) hosttest.Config {
	return plugintest.With(hosttest.Config{"subject_token": "{{ get_secret('user') }}", "token_url": endpoint, "client_auth": "none"}, pairs...)
}

func get() *http.Request { return hosttest.GET("https://api.test/v1") }

// check compares a token request with the URL, the Authorization header and the form that are right.
func check(t *testing.T, got hosttest.Exchange, url, authorization string, form url.Values) {
	t.Helper()
	if got.URL != url || got.Header.Get("Authorization") != authorization || !maps.EqualFunc(got.Form, form, slices.Equal) {
		t.Errorf("the request goes to %s with Authorization %q: %v\nwant %s with %q: %v", got.URL, got.Header.Get("Authorization"), got.Form, url, authorization, form)
	}
}

// The request is that of RFC 8693 section 2.3 (specification.md 3.31).
func TestExampleOfTheStandard(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("rs08", "long-secure-random-secret")
		h.Secret("user", "accVkjcJyb4BWCxGsndESCJQbdFMogUC5PbRDqceLTC")
		h.TokenEndpoint(endpoint, hosttest.JSON(200, `{"access_token":"eyJhbGciOiJFUzI1NiIsImtpZCI6IjllciJ9",
			"issued_token_type":"urn:ietf:params:oauth:token-type:access_token","token_type":"Bearer","expires_in":60}`))
		got := h.Authenticate(config("client_auth", "client_secret_basic", "client_id", "rs08", "client_secret", "{{ get_secret('rs08') }}",
			"resource", "https://backend.example.com/api"), get())
		if got.Header("Authorization") != "Bearer eyJhbGciOiJFUzI1NiIsImtpZCI6IjllciJ9" || len(got.Request.Header) != 1 {
			t.Errorf("the API gets %v", got.Request.Header)
		}
		check(t, h.Exchanges()[0], endpoint, "Basic cnMwODpsb25nLXNlY3VyZS1yYW5kb20tc2VjcmV0", url.Values{
			"grant_type": {grantType}, "resource": {"https://backend.example.com/api"},
			"subject_token":      {"accVkjcJyb4BWCxGsndESCJQbdFMogUC5PbRDqceLTC"},
			"subject_token_type": {"urn:ietf:params:oauth:token-type:access_token"},
		})
	})
}

// Every field is the parameter of RFC 8693 section 2.1 of that name. Audiences and resources may be several.
func TestFields(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 300))
		h.Authenticate(config(
			"subject_token_type", types+"id_token", "actor_token", "{{ get_secret('actor') }}", "actor_token_type", types+"jwt",
			"requested_token_type", types+"access_token", "audience", "//iam.test/pool crm", "resource", "urn:a urn:b", "scope", "a b",
			"parameters", map[string]any{"options": `{"userProject":"p"}`}, "client_id", "me",
		), get())
		check(t, h.Exchanges()[0], endpoint, "", url.Values{
			"grant_type": {grantType}, "subject_token": {"token-of-the-user"}, "subject_token_type": {types + "id_token"},
			"actor_token": {"token-of-the-actor"}, "actor_token_type": {types + "jwt"}, "requested_token_type": {types + "access_token"},
			"audience": {"//iam.test/pool", "crm"}, "resource": {"urn:a", "urn:b"}, "scope": {"a b"}, "options": {`{"userProject":"p"}`},
			"client_id": {"me"},
		})
	})
}

// The token of the user's session goes to the endpoint if the operator lists its host, and the plugin never holds it.
func TestTokenOfTheSession(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.UserTokenHosts("login.test")
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 300))
		h.As(host.User{ID: "ann", Token: "the-token-of-anns-session", TokenExpires: h.Now().Add(time.Minute)})
		for _, exchanges := range []int{1, 1} {
			got := h.Authenticate(config("subject_token", "{{ user.token }}"), get())
			if n := len(h.Exchanges()); got.Header("Authorization") != "Bearer the-access-token" || n != exchanges {
				t.Errorf("the API gets %v after %d exchanges", got.Request.Header, n)
			}
		}
		if got := h.Exchanges()[0].Form.Get("subject_token"); got != "the-token-of-anns-session" {
			t.Errorf("the subject token is %q", got)
		}
		elsewhere := config("subject_token", "{{ user.token }}", "token_url", second)
		plugintest.Refuses(t, h, elsewhere, get(), host.StageConfig, "api-login.test")
	})
}

// With on_behalf_of, the request is that of Microsoft Entra: RFC 7523 with requested_token_use (specification.md 3.31).
func TestOnBehalfOf(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "PS256")
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 300))
		obo := config("grant_type", "on_behalf_of", "client_id", "me", "scope", "https://graph.microsoft.com/.default")
		want := url.Values{
			"grant_type": {bearer}, "requested_token_use": {"on_behalf_of"}, "assertion": {"token-of-the-user"}, "client_id": {"me"},
			"scope": {"https://graph.microsoft.com/.default"},
		}
		post := maps.Clone(obo)
		post["client_auth"], post["client_secret"] = "client_secret_post", "{{ get_secret('crm') }}"
		h.Authenticate(post, get())
		want["client_secret"] = []string{"secret:of the client"}
		check(t, h.Exchanges()[0], endpoint, "", want)

		signed := maps.Clone(obo)
		signed["client_auth"], signed["private_key"], signed["algorithm"] = "private_key_jwt", "{{ get_secret('key') }}", "PS256"
		h.Authenticate(signed, get())
		form := h.Exchanges()[1].Form
		if header, claims := h.JWT(form.Get("client_assertion")); header["alg"] != "PS256" || claims["aud"] != endpoint || form.Get("assertion") != "token-of-the-user" {
			t.Errorf("the assertion has %v %v, the form is %v", header, claims, form)
		}

		const saml = types + "saml2" // as Microsoft Entra wants it for a SAML assertion
		obo["requested_token_type"], obo["client_auth"] = saml, "none"
		h.Authenticate(obo, get())
		delete(want, "client_secret")
		want["requested_token_type"] = []string{saml}
		check(t, h.Exchanges()[2], endpoint, "", want)
	})
}

// In two steps, the first endpoint exchanges the user's ID token for an assertion, which the second takes (ID-JAG). Each
// gets the credentials of its own client, and only the second answer's token goes to the API (specification.md 3.32).
func TestTwoSteps(t *testing.T) {
	idJAG := config("subject_token_type", types+"id_token", "requested_token_type", types+"id-jag", "audience", "https://api-login.test",
		"resource", "https://api.test", "scope", "read", "client_auth", "client_secret_post", "client_id", "me", "client_secret", "{{ get_secret('crm') }}",
		"assertion_url", second)
	firstForm := url.Values{
		"grant_type": {grantType}, "subject_token": {"token-of-the-user"}, "subject_token_type": {types + "id_token"},
		"requested_token_type": {types + "id-jag"}, "audience": {"https://api-login.test"}, "resource": {"https://api.test"}, "scope": {"read"},
		"client_id": {"me"}, "client_secret": {"secret:of the client"},
	}
	for _, test := range []struct {
		name          string
		more          hosttest.Config
		form          url.Values
		authorization string
	}{
		{"no client", nil, url.Values{}, ""},
		{"public client", hosttest.Config{"assertion_client_id": "too"}, url.Values{"client_id": {"too"}}, ""},
		{
			"post",
			hosttest.Config{"assertion_client_id": "too", "assertion_client_auth": "client_secret_post", "assertion_client_secret": "{{ get_secret('other') }}"},
			url.Values{"client_id": {"too"}, "client_secret": {"secret for another"}},
			"",
		},
		{
			"basic",
			hosttest.Config{"assertion_client_id": "too", "assertion_client_auth": "client_secret_basic", "assertion_client_secret": "{{ get_secret('other') }}"},
			url.Values{},
			"Basic dG9vOnNlY3JldCtmb3IrYW5vdGhlcg==",
		},
		{"parameters", hosttest.Config{"assertion_parameters": map[string]any{"scope": "more"}}, url.Values{"scope": {"more"}}, ""},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.TokenEndpoint(endpoint, hosttest.JSON(200, `{"access_token":"the-id-jag","issued_token_type":"`+types+`id-jag","token_type":"N_A","expires_in":300}`))
			h.TokenEndpoint(second, hosttest.Token("the-access-token", 3600))
			c := maps.Clone(idJAG)
			maps.Copy(c, test.more)
			for range 2 { // the second request uses the cached token
				plugintest.Sends(t, h, c, get(), "Bearer the-access-token")
			}
			test.form["grant_type"], test.form["assertion"] = []string{bearer}, []string{"the-id-jag"}
			exchanges := h.Exchanges()
			if len(exchanges) != 2 {
				t.Fatalf("there are %d token requests", len(exchanges))
			}
			check(t, exchanges[0], endpoint, "", firstForm)
			check(t, exchanges[1], second, test.authorization, test.form)
		})
	}
}

// A client's assertion for the second endpoint is for that endpoint. client_assertion_audience counts for the first.
// Google's service account is impersonated as golang.org/x/oauth2/google does it: the first token has the scope cloud-platform.
func TestImpersonation(t *testing.T) {
	const sts, iam = "https://sts.googleapis.com/v1/token", "https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/a@b.iam.gserviceaccount.com:generateAccessToken"
	c := config("token_url", sts, "subject_token_type", types+"jwt", "requested_token_type", types+"access_token", "audience", "//iam.googleapis.com/projects/1",
		"scope", "https://www.googleapis.com/auth/devstorage.read_only https://www.googleapis.com/auth/pubsub", "impersonation_url", iam)
	run.Case(t, "an account", func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(sts, hosttest.JSON(200, `{"access_token":"federated","issued_token_type":"`+types+`access_token","token_type":"Bearer","expires_in":3600}`))
		ends := h.Now().Add(time.Hour).UTC().Format(time.RFC3339)
		h.TokenEndpoint(iam, hosttest.JSON(200, `{"accessToken":"of-the-account","expireTime":"`+ends+`"}`))
		for range 2 {
			plugintest.Sends(t, h, c, get(), "Bearer of-the-account")
		}
		exchanges := h.Exchanges()
		if len(exchanges) != 2 {
			t.Fatalf("there are %d token requests", len(exchanges))
		}
		check(t, exchanges[0], sts, "", url.Values{
			"grant_type": {grantType}, "subject_token": {"token-of-the-user"}, "subject_token_type": {types + "jwt"}, "requested_token_type": {types + "access_token"},
			"audience": {"//iam.googleapis.com/projects/1"}, "scope": {"https://www.googleapis.com/auth/cloud-platform"},
		})
		const body = `{"scope":["https://www.googleapis.com/auth/devstorage.read_only","https://www.googleapis.com/auth/pubsub"]}`
		if got := exchanges[1]; got.URL != iam || got.Header.Get("Authorization") != "Bearer federated" || got.Body != body {
			t.Errorf("the second request is %s %v %s", got.URL, got.Header, got.Body)
		}
		h.Advance(time.Hour - 59*time.Second) // a minute before its end, it is not used again
		plugintest.Sends(t, h, c, get(), "Bearer of-the-account")
		if n := len(h.Exchanges()); n != 4 {
			t.Errorf("there are %d token requests, want 4", n)
		}
	})
	run.Case(t, "no scope", func(t *testing.T, h *hosttest.Harness) {
		plugintest.Refuses(t, h, config("impersonation_url", iam), get(), host.StagePlugin, "impersonation_url needs scope")
	})
	run.Case(t, "a refusal", func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(sts, hosttest.Token("federated", 3600))
		h.TokenEndpoint(iam, hosttest.JSON(403, `{"error":{"message":"Permission 'iam.serviceAccounts.getAccessToken' denied"}}`))
		plugintest.Refuses(t, h, c, get(), host.StageToken, "impersonation_url answered 403")
	})
}

func TestPrivateKeyJWTInTwoSteps(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		h.TokenEndpoint(endpoint, hosttest.JSON(200, `{"access_token":"the-id-jag","token_type":"N_A"}`))
		h.TokenEndpoint(second, hosttest.Token("the-access-token", 3600))
		h.Authenticate(config("assertion_url", second, "assertion_client_auth", "private_key_jwt", "assertion_client_id", "too", "private_key",
			"{{ get_secret('key') }}", "algorithm", "ES256", "client_auth", "private_key_jwt", "client_id", "me", "client_assertion_audience", "https://login.test"), get())
		if _, claims := h.JWT(h.Exchanges()[0].Form.Get("client_assertion")); claims["aud"] != "https://login.test" || claims["iss"] != "me" {
			t.Errorf("the claims for the first are %v", claims)
		}
		if _, claims := h.JWT(h.Exchanges()[1].Form.Get("client_assertion")); claims["aud"] != second || claims["iss"] != "too" || claims["sub"] != "too" {
			t.Errorf("the claims are %v", claims)
		}
	})
}

// An error of either endpoint is the request's, with status and code. An access token is never sent as an assertion
// (specification.md "an access token is no assertion").
func TestAnswersWithoutToken(t *testing.T) {
	issued := hosttest.JSON(200, `{"access_token":"the-id-jag","token_type":"N_A"}`)
	for _, test := range []struct {
		name          string
		first, second hosttest.Answer
		status        int
		text          string
		requests      int
	}{
		{"first refuses", hosttest.JSON(400, `{"error":"invalid_target"}`), nil, 400, "400 (invalid_target)", 1},
		{"first has no token", hosttest.JSON(200, `{}`), nil, 200, "without assertion", 1},
		{"first answers with an access token", hosttest.Token("access-token-of-the-first", 300), nil, 0, "set requested_token_type", 1},
		{"first answers with a token of Apigee", hosttest.JSON(200, `{"access_token":"access-token-of-the-first","token_type":"BearerToken"}`), nil, 0, "set requested_token_type", 1},
		{"first answers with a DPoP token", hosttest.JSON(200, `{"access_token":"access-token-of-the-first","token_type":"dpop"}`), nil, 0, "set requested_token_type", 1},
		{"second refuses", issued, hosttest.JSON(401, `{"error":"invalid_client"}`), 401, "401 (invalid_client)", 2},
		{"second has no token", issued, hosttest.JSON(200, `{}`), 200, "without an access_token", 2},
	} {
		run.Case(t, test.name, func(t *testing.T, h *hosttest.Harness) {
			h.TokenEndpoint(endpoint, test.first)
			if test.second != nil {
				h.TokenEndpoint(second, test.second)
			}
			err := h.AuthenticateError(config("assertion_url", second), get())
			var answer *host.TokenError
			if errors.As(err, &answer) != (test.status != 0) || answer != nil && answer.Status != test.status || !strings.Contains(err.Error(), test.text) {
				t.Errorf("stage %s: %v", err.Stage, err)
			}
			plugintest.Exchanges(t, h, test.requests)
		})
	}
}

// A token that is no access token (N_A) goes to the API only if requested_token_type asks for such a token.
func TestTokenType(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for _, test := range []struct {
			tokenType string
			requested any
			ok        bool
		}{{"Bearer", nil, true}, {"N_A", types + "id_token", true}, {"N_A", nil, false}, {"mac", types + "id_token", false}} {
			h.TokenEndpoint(endpoint, hosttest.JSON(200, `{"access_token":"the-issued-token","token_type":"`+test.tokenType+`"}`))
			c := config("scope", test.tokenType)
			if test.requested != nil {
				c["requested_token_type"] = test.requested
			}
			if _, err := h.Try(c, get()); (err == nil) != test.ok {
				t.Errorf("%+v: err = %v", test, err)
			}
		}
	})
}

// A token is one user's only, and is used until a minute before it expires or until the API refuses it.
func TestTokenOwner(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(endpoint, hosttest.Token("first-token", 300), hosttest.Token("second-token", 300), hosttest.Token("third-token", 300), hosttest.Token("fourth-token", 300))
		c := config("subject_token", "{{ get_secret('user') }}-{{ user.id }}")
		ask := func(user, want string) {
			t.Helper()
			h.As(host.User{ID: user})
			plugintest.Sends(t, h, c, get(), "Bearer "+want)
		}
		ask("1", "first-token")  // a user
		ask("2", "second-token") // another user
		ask("1", "first-token")  // the first user again
		h.Advance(240 * time.Second)
		ask("1", "third-token") // a minute before the end
		h.API(hosttest.JSON(401, `{}`), hosttest.JSON(200, `{}`))
		ask("1", "fourth-token") // after a refusal of the API
		if got := h.Exchanges()[1].Form.Get("subject_token"); got != "token-of-the-user-2" {
			t.Errorf("the second user's token is %s", got)
		}
	})
}

// A configuration that cannot work is refused when it is loaded.
func TestProblems(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for want, c := range map[string]hosttest.Config{
			"subject_token: is missing: The token to exchange":                                                                                            {"token_url": endpoint, "client_auth": "none"},
			"token_url: is missing: Token endpoint (usual: https://sts.googleapis.com/v1/token)":                                                          {"subject_token": "t", "client_auth": "none"},
			"client_id: is missing, and client_auth is private_key_jwt: OAuth client identifier":                                                          config("client_auth", "private_key_jwt", "private_key", "k"),
			"subject_token_type: has no effect unless grant_type is token_exchange: remove it, or change that":                                            config("grant_type", "on_behalf_of", "subject_token_type", types+"jwt"),
			"actor_token: has no effect unless grant_type is token_exchange: remove it, or change that":                                                   config("grant_type", "on_behalf_of", "actor_token", "{{ get_secret('actor') }}"),
			"actor_token_type: has no effect unless actor_token is there: remove it, or change that":                                                      config("actor_token_type", types+"jwt"),
			"assertion_client_id: has no effect unless assertion_url is there: remove it, or change that":                                                 config("assertion_client_id", "too"),
			"assertion_client_secret: has no effect unless assertion_client_auth is client_secret_post or client_secret_basic: remove it, or change that": config("assertion_url", second, "assertion_client_secret", "s"),
			"assertion_client_auth: has no effect unless assertion_url is there: remove it, or change that":                                               config("assertion_client_auth", "none"),
			"assertion_parameters: has no effect unless assertion_url is there: remove it, or change that":                                                config("assertion_parameters", map[string]any{"scope": "a"}),
			"client_assertion_audience: has no effect unless client_auth is private_key_jwt: remove it, or change that":                                   config("client_assertion_audience", "a"),
			"assertion_client_secret: is missing, and assertion_client_auth is client_secret_post: OAuth client secret at assertion_url":                  config("assertion_url", second, "assertion_client_auth", "client_secret_post", "assertion_client_id", "too"),
			"private_key: is missing, and assertion_client_auth is private_key_jwt: Key that signs assertions, in PEM, or the HMAC secret":                config("assertion_url", second, "assertion_client_auth", "private_key_jwt", "assertion_client_id", "too"),
			"parameters.subject_token: is set by the type or by another field, remove it":                                                                 config("parameters", map[string]any{"subject_token": "a"}),
			"assertion_parameters.assertion: is set by the type or by another field, remove it":                                                           config("assertion_url", second, "assertion_parameters", map[string]any{"assertion": "a"}),
			"impersonation_url: is there beside assertion_url: remove one of them":                                                                        config("impersonation_url", second, "assertion_url", second, "scope", "a"),
			"grant_type: is none of token_exchange, on_behalf_of":                                                                                         config("grant_type", "obo"),
		} {
			plugintest.Problem(t, h, c, want)
		}
	})
}

// An explanation asks no endpoint, and shows both requests without tokens.
func TestExplain(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		e := h.Explain(config("assertion_url", second), get())
		if len(e.Steps) != 2 || e.Steps[0].Exchange.URL != endpoint || e.Steps[1].Exchange.URL != second || len(h.Exchanges()) != 0 {
			t.Fatalf("the steps are %+v", e.Steps)
		}
		for i, want := range []string{"subject_token={{ get_secret('user') }}", "assertion=<assertion>"} {
			if body := e.Steps[i].Exchange.Body; !strings.Contains(body, want) {
				t.Errorf("request %d is %s", i+1, body)
			}
		}
	})
}
