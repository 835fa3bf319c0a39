package main

import (
	"testing"
	"time"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

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
