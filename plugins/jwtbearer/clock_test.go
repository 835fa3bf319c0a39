package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

// refusedAt returns a refusal by a server whose clock is ahead by a time.
func refusedAt(h *hosttest.Harness, lead time.Duration) hosttest.Answer {
	return plugintest.Dated(h, hosttest.JSON(http.StatusBadRequest, `{"error":"invalid_grant"}`), lead)
}

// A token endpoint whose clock differs from the host's gets a second assertion, with its own time, and later ones have that from the
// beginning. If it refuses that one too, it gets no third (threats.md 351).
func TestClockOfTheEndpoint(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		wantTime := func(exchanges int, lead time.Duration) {
			t.Helper()
			_, claims := sentAssertion(h)
			if n := len(h.Exchanges()); n != exchanges || claims["iat"] != json.Number(fmt.Sprint(h.Now().Add(lead).Unix())) {
				t.Errorf("%d exchanges, the last with the time %v", n, claims["iat"])
			}
		}
		h.TokenEndpoint(endpoint, refusedAt(h, -40*time.Second), hosttest.Token("the-first-token", 3600),
			hosttest.Token("the-second-token", 3600), refusedAt(h, time.Hour), refusedAt(h, time.Hour), refusedAt(h, time.Hour))
		h.Authenticate(config(), get())
		wantTime(2, -40*time.Second)
		h.Advance(time.Hour)
		h.Authenticate(config(), get())
		wantTime(3, -40*time.Second)
		h.Advance(time.Hour)
		err := h.AuthenticateError(config(), get())
		wantTime(5, time.Hour)
		var refusal *host.TokenError
		if !errors.As(err, &refusal) || refusal.RetryAfter == 0 {
			t.Fatalf("a second refusal: %v", err)
		}
		h.Advance(refusal.RetryAfter)
		h.AuthenticateError(config(), get())
		wantTime(6, time.Hour)
	})
}

// A Date that is more than a day away is not believed (threats.md 351).
func TestDistantClockOfTheEndpoint(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		h.TokenEndpoint(endpoint, refusedAt(h, 25*time.Hour), hosttest.Token("the-access-token", 3600))
		h.AuthenticateError(config(), get())
		plugintest.Exchanges(t, h, 1)
	})
}

// assertion_ttl is the lifetime of the assertion, as Box wants 60 seconds at most.
func TestLifetimeOfTheAssertion(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.Key("key", "ES256")
		h.TokenEndpoint(endpoint, hosttest.Token("the-access-token", 3600))
		h.Authenticate(config("assertion_ttl", 45), get())
		if _, claims := sentAssertion(h); claims["exp"] != json.Number(fmt.Sprint(h.Now().Unix()+45)) {
			t.Errorf("exp is %v", claims["exp"])
		}
		for _, ttl := range []int{0, 3601} {
			if problems := h.Problems(config("assertion_ttl", ttl)); len(problems) != 1 {
				t.Errorf("assertion_ttl %d: %v", ttl, problems)
			}
		}
	})
}
