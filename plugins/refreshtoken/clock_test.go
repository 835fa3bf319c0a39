package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

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
