package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/keywright/keywright/host/hosttest"
)

// A refresh token is sent again, once, if the endpoint has refused the time of the client's assertion and not the grant. Apigee's type
// of tokens is that of bearer tokens.
func TestClockOfTheClientsAssertion(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "RS256")
		h.TokenEndpoint(endpoint, func(r *http.Request) (*http.Response, error) {
			response, err := hosttest.JSON(http.StatusUnauthorized, `{"error":"invalid_client"}`)(r)
			response.Header.Set("Date", h.Now().Add(-5*time.Minute).UTC().Format(http.TimeFormat))
			return response, err
		}, hosttest.JSON(http.StatusOK, `{"access_token":"the-access-token","token_type":"BearerToken","expires_in":"3599"}`))
		c := config("client_auth", "private_key_jwt", "private_key", "{{ get_secret('key') }}")
		if got := h.Authenticate(c, get()).Header("Authorization"); got != "Bearer the-access-token" {
			t.Errorf("Authorization: %s", got)
		}
		if got := sent(h); got != seed+", "+seed {
			t.Errorf("the refresh tokens are %s", got)
		}
	})
}
