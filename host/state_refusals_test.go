package host_test

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
)

// What a token endpoint refuses one node, no node asks again until the wait is over, which doubles for all of them together.
// After a token, the count begins anew.
func TestARefusalHoldsForAllNodes(t *testing.T) {
	c := newCluster(t, respond(http.StatusUnauthorized, `{"error": "invalid_client"}`))
	first, one := c.node()
	second, two := c.node()
	for i, pass := range []struct {
		w     *world
		c     *host.Connector
		later time.Duration
		want  int
	}{
		{first, one, 0, 1},
		{second, two, 0, 1},
		{second, two, 1100 * time.Millisecond, 2},
		{first, one, 1500 * time.Millisecond, 2}, // the second wait is 1.6 to 2 s
		{first, one, 700 * time.Millisecond, 3},
		{second, two, 3 * time.Second, 3}, // the third is 3.2 to 4 s
	} {
		c.clock.Advance(pass.later)
		_, err := pass.w.try(pass.c, get(t.Context()))
		var refused *host.TokenError
		if !errors.As(err, &refused) || refused.Status != http.StatusUnauthorized || refused.Code != "invalid_client" || refused.RetryAfter <= 0 {
			t.Errorf("request %d: the error is %v", i, err)
		}
		if pass.later == 700*time.Millisecond && refused.RetryAfter < 3200*time.Millisecond {
			t.Errorf("request %d: the third wait is %v", i, refused.RetryAfter)
		}
		if n := c.login.Count(); n != pass.want {
			t.Errorf("request %d: there were %d token requests, want %d", i, n, pass.want)
		}
	}
	c.clock.Advance(time.Hour)
	c.login.Answer(token("a-token-at-last", 3600))
	first.get(one)
	c.login.Answer(respond(http.StatusUnauthorized, `{"error": "invalid_client"}`))
	c.clock.Advance(2 * time.Hour)
	if _, err := first.try(one, get(t.Context())); first.refusedAfter(err) > time.Second {
		t.Errorf("after a token, the first wait is that of %v", err)
	}
}

// While the store is down, a node waits for as long as the endpoint says, as it does without a store.
func TestRetryAfterWithoutTheStore(t *testing.T) {
	c := newCluster(t, respond(http.StatusTooManyRequests, "", "Retry-After", "600"))
	w, connector := c.node()
	c.store.down.Store(true)
	_, err := w.try(connector, get(t.Context()))
	if wait := w.refusedAfter(err); wait != 10*time.Minute {
		t.Errorf("the endpoint is asked again after %v, want 10 minutes", wait)
	}
}

// refusedAfter returns the time that the error of a refused token says to wait.
func (w *world) refusedAfter(err error) time.Duration {
	w.t.Helper()
	var refused *host.TokenError
	if !errors.As(err, &refused) {
		w.t.Fatalf("the error is %v", err)
	}
	return refused.RetryAfter
}

// The log says once a minute that the store fails. Degraded is called each time. Without both, the host works as well.
func TestFailingStoreLog(t *testing.T) {
	c := newCluster(t, tokens(70))
	w, connector := c.node()
	c.store.down.Store(true)
	for i, later := range []time.Duration{0, 30 * time.Second, 30 * time.Second} { // a token is used for 10 seconds
		c.clock.Advance(later)
		w.get(connector)
		if n, want := w.logged("the store of state failed"), 1+i/2; n != want {
			t.Errorf("after %d requests, the log has %d lines about the store, want %d", i+1, n, want)
		}
	}
	if n := c.degraded.Load(); n != 3 {
		t.Errorf("Degraded was called %d times, want 3", n)
	}
	store := &failingStore{}
	silent := newWorld(t, withState(t, store))
	silent.canary("s")
	store.down.Store(true)
	silent.get(silent.connect("oauth_client_credentials", client()))
}

// A node whose clock was set back still says that the store fails.
func TestTheLogAboutTheStoreAfterTheClockWasSetBack(t *testing.T) {
	c := newCluster(t, tokens(1800))
	w, connector := c.node()
	c.store.down.Store(true)
	w.get(connector)
	c.clock.Advance(-24 * time.Hour)
	w.get(connector)
	if n := w.logged("the store of state failed"); n != 2 {
		t.Errorf("the log has %d lines about the store, want 2", n)
	}
}
