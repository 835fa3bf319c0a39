package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/keywright/keywright/host/hosttest"
)

// A refresh token is sent again, once, if the endpoint has refused the time of the client's assertion and not the grant. The token
// lasts by the clock of the endpoint. Apigee's type of tokens is that of bearer tokens.
func TestClockOfTheClientsAssertion(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		const behind = 5 * time.Minute
		h.Key("key", "RS256")
		h.TokenEndpoint(endpoint, func(r *http.Request) (*http.Response, error) {
			response, err := hosttest.JSON(http.StatusUnauthorized, `{"error":"invalid_client"}`)(r)
			response.Header.Set("Date", h.Now().Add(-behind).UTC().Format(http.TimeFormat))
			return response, err
		}, hosttest.JSON(http.StatusOK, fmt.Sprintf(`{"access_token":"the-access-token","token_type":"BearerToken","expires_at":%d}`,
			h.Now().Add(10*time.Minute-behind).Unix())), hosttest.Token("another-token", 3600))
		c := config("client_auth", "private_key_jwt", "private_key", "{{ get_secret('key') }}", "expires_at_from", "json:/expires_at")
		if got := h.Authenticate(c, get()).Header("Authorization"); got != "Bearer the-access-token" {
			t.Errorf("Authorization: %s", got)
		}
		if got := refreshTokens(h); got != seed+", "+seed {
			t.Errorf("the refresh tokens are %s", got)
		}
		h.Advance(9*time.Minute - time.Second)
		if h.Authenticate(c, get()); len(h.Exchanges()) != 2 {
			t.Errorf("exchanges a minute before the token's end = %d, want 2", len(h.Exchanges()))
		}
		h.Advance(time.Second)
		if h.Authenticate(c, get()); len(h.Exchanges()) != 3 {
			t.Errorf("exchanges after that = %d, want 3", len(h.Exchanges()))
		}
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
		if len(h.Exchanges()) != 3 {
			t.Errorf("exchanges = %d, want 3: the token of the last one is cached", len(h.Exchanges()))
		}
	})
}
