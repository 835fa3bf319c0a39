package main

import (
	"maps"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

// A server may want JSON and headers of its own, and answer in its own way. An API may want the token in another header
// (specification.md 3.46).
func TestServerDialect(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Secret("crm", "the-client-secret")
		h.TokenEndpoint(endpoint, hosttest.JSON(200, `{"data":{"token":"the-access-token"},"token_type":"custom"}`))
		c := config("token_request", "json", "token_headers", map[string]any{"X-Tenant": "t"}, "token_from", "json:/data/token", "token_type", "any",
			"token_ttl", 300, "key", "X-Token", "prefix", "", "resource", "urn:a urn:b")
		got := h.Authenticate(c, get())
		if got.Header("X-Token") != "the-access-token" || len(got.Request.Header) != 1 {
			t.Errorf("headers = %v, want X-Token alone", got.Request.Header)
		}
		exchange := h.Exchanges()[0]
		want := `{"client_id":"me","client_secret":"the-client-secret","grant_type":"client_credentials","resource":["urn:a","urn:b"]}`
		if exchange.Body != want || exchange.Header.Get("X-Tenant") != "t" {
			t.Errorf("body = %s, headers = %v, want %s and X-Tenant", exchange.Body, exchange.Header, want)
		}
		h.Advance(239 * time.Second)
		h.Authenticate(c, get())
		plugintest.Exchanges(t, h, 1)
	})
}

// With a usual answer, headers and a lifetime of the configuration count as well.
func TestHeadersOfTheTokenRequest(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		h.TokenEndpoint(endpoint, hosttest.JSON(200, `{"access_token":"the-access-token"}`))
		for range 2 {
			h.Authenticate(config("token_headers", map[string]any{"X-Tenant": "t"}, "token_ttl", 300), get())
		}
		plugintest.Exchanges(t, h, 1)
		if got := h.Exchanges()[0].Header.Get("X-Tenant"); got != "t" {
			t.Errorf("X-Tenant = %q, want t", got)
		}
	})
}

// A token may be bound to a key: the endpoint and the API get proofs (RFC 9449), and the API's refusal of the token is answered with
// another token.
func TestBoundTokens(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Canary("crm")
		token := func(text string) hosttest.Answer {
			return hosttest.JSON(200, `{"access_token":"`+text+`","token_type":"DPoP","expires_in":300}`)
		}
		h.TokenEndpoint(endpoint, plugintest.Headed(hosttest.JSON(400, `{"error":"use_dpop_nonce"}`), "DPoP-Nonce", "the-nonce"), token("first-bound-token"), token("second-bound-token"))
		h.API(hosttest.JSON(200, `{}`), plugintest.Headed(hosttest.JSON(401, `{}`), "WWW-Authenticate", `DPoP error="invalid_token"`), hosttest.JSON(200, `{}`))
		first := h.Authenticate(config("sender", "dpop"), get())
		if _, claims := h.JWT(h.Exchanges()[1].Header.Get("DPoP")); claims["nonce"] != "the-nonce" || claims["htu"] != endpoint {
			t.Errorf("claims of the endpoint's proof = %v, want the nonce and the URL", claims)
		}
		if _, claims := h.JWT(first.Header("DPoP")); first.Header("Authorization") != "DPoP first-bound-token" || claims["htm"] != "GET" || claims["ath"] == nil {
			t.Errorf("headers = %v, want a token with its proof", first.Request.Header)
		}
		second := h.Authenticate(config("sender", "dpop"), get())
		if second.Attempts != 2 || second.Header("Authorization") != "DPoP second-bound-token" {
			t.Errorf("attempts = %d, headers = %v, want another token", second.Attempts, second.Request.Header)
		}
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 300))
		plugintest.Refuses(t, h, config("sender", "dpop", "scope", "a"), get(), host.StagePlugin, "token_type is not DPoP")
		plugintest.Problem(t, h, config("sender", "{{ get_variable('sender') }}"), "sender: may not hold a template")
		plugintest.Problems(t, h, config("sender", "dpop", "key", "X-Token", "prefix", "a", "token_type", "any"), "token_type key prefix")
		plugintest.Problem(t, h, config("proof_key", "{{ get_secret('crm') }}"), "proof_key: has no effect unless sender is dpop")
	})
}

// The client's assertion may be one that another party has signed (RFC 7521 section 4.2), or have what a server wants beside what RFC 7523
// says: another issuer, more claims, another parameter.
func TestClientAssertions(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		h.Secret("given", "header.claims.signature")
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 300))
		form := func(c hosttest.Config) map[string][]string {
			h.Authenticate(c, get())
			exchanges := h.Exchanges()
			return exchanges[len(exchanges)-1].Form
		}
		assertion := hosttest.Config{"client_id": "me", "token_url": endpoint, "client_auth": "assertion", "client_assertion": "{{ get_secret('given') }}"}
		want := map[string][]string{
			"grant_type": {"client_credentials"}, "client_id": {"me"}, "client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"}, "client_assertion": {"header.claims.signature"},
		}
		if got := form(assertion); !maps.EqualFunc(got, want, func(a, b []string) bool { return a[0] == b[0] }) {
			t.Errorf("form = %v, want %v", got, want)
		}
		got := form(plugintest.With(assertion, "client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-spiffe"))
		if got["client_assertion_type"][0] != "urn:ietf:params:oauth:client-assertion-type:jwt-spiffe" {
			t.Errorf("form = %v, want the type of SPIFFE", got)
		}
		apple := form(assertionConfig("client_assertion_issuer", "TEAM", "client_assertion_claims", map[string]any{"scope": []any{"a"}},
			"client_assertion_parameter", "client_secret"))
		_, claims := h.JWT(apple["client_secret"][0])
		if apple["client_assertion"] != nil || apple["client_assertion_type"] != nil || claims["iss"] != "TEAM" || claims["sub"] != "me" || claims["scope"] == nil {
			t.Errorf("form = %v with the claims %v, want a client_secret by TEAM", apple, claims)
		}
		for want, c := range map[string]hosttest.Config{
			"client_assertion_claims.aud: is set by the type or by another field, remove it": assertionConfig("client_assertion_claims", map[string]any{"aud": "a"}),
			"client_assertion: is missing, and client_auth is assertion":                     plugintest.With(maps.Clone(assertion), "client_assertion", nil),
			"client_secret: has no effect unless client_auth":                                plugintest.With(maps.Clone(assertion), "client_secret", "{{ get_secret('given') }}"),
			"token_headers.Authorization: is set by client_auth":                             config("client_auth", "client_secret_basic", "token_headers", map[string]any{"Authorization": "a"}),
		} {
			plugintest.Problem(t, h, c, want)
		}
	})
}
