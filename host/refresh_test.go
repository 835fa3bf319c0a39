package host_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
)

// connectAhead makes a connector that replaces its tokens ahead of their end. It must be right.
func (w *world) connectAhead(authType string, c config, ahead time.Duration) *host.Connector {
	w.t.Helper()
	return w.open(host.ConnectorConfig{Auth: []host.Auth{{Type: authType, Config: c}}, RefreshAhead: ahead})
}

// caller is a connector and the world that it is in.
type caller struct {
	w *world
	c *host.Connector
}

// bearer sends a request, and returns the token that the API received.
func (c caller) bearer() string {
	c.w.t.Helper()
	return c.w.get(c.c).Header.Get("Authorization")
}

// crowd sends a thousand requests at once, in turn from each caller, and returns when all are answered. It fails the test if one
// waits: a token endpoint that does not answer must hold up nobody.
func crowd(t *testing.T, callers ...caller) {
	t.Helper()
	done := make(chan struct{})
	var all sync.WaitGroup
	for i := range 1000 {
		c := callers[i%len(callers)]
		all.Go(func() {
			if status, err := c.w.try(c.c, get(t.Context())); err != nil || status != http.StatusOK {
				t.Errorf("a caller got %d, %v", status, err)
			}
		})
	}
	go func() { all.Wait(); close(done) }()
	time.Sleep(time.Second) // in the bubble's time: a node that has just lost a race for a lease looks again after a moment
	synctest.Wait()
	select {
	case <-done:
	default:
		t.Fatal("callers wait for the next token")
	}
}

// aheads returns the attempts that were to replace a token ahead of its end.
func (w *world) aheads() (list []host.Attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.calls {
		if a.Ahead {
			list = append(list, a)
		}
	}
	return list
}

// client is the configuration of oauth_client_credentials.
func client() config { return oauth("{{ get_secret('s') }}") }

// nodesAhead returns a cluster of two nodes that replace tokens two minutes ahead of their end.
func nodesAhead(t *testing.T) (c *cluster, one, two caller) {
	c = newCluster(t, token("t1", 3600))
	for _, n := range []*caller{&one, &two} {
		n.w, _ = c.node()
		n.c = n.w.connectAhead("oauth_client_credentials", client(), 2*time.Minute)
	}
	return c, one, two
}

// A thousand callers of two nodes with a token that has two minutes left cause one token request, for which none of them waits.
// From then on they have the next token: the node that asked at once, and the other one when half of the time has passed.
// specification.md "ahead of its end"
func TestRefreshAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := nodesAhead(t)
		crowd(t, one, two)
		g := newGate(token("t2", 3600))
		c.login.Answer(g.answer)
		c.clock.Advance(3540*time.Second - 121*time.Second)
		crowd(t, one, two)
		if n := c.login.Count(); n != 1 {
			t.Fatalf("%d token requests with 121 s left, want 1", n)
		}
		c.clock.Advance(time.Second)
		crowd(t, one, two)
		if n := c.login.Count(); n != 2 || one.bearer() != "Bearer t1" || two.bearer() != "Bearer t1" {
			t.Fatalf("%d token requests with 120 s left, want one more", n)
		}
		close(g.open)
		synctest.Wait()
		aheads := slices.Concat(one.w.aheads(), two.w.aheads())
		if len(aheads) != 1 || aheads[0].Exchanges != 1 || aheads[0].Err != nil {
			t.Errorf("the attempts ahead are %+v", aheads)
		}
		c.clock.Advance(60 * time.Second)
		crowd(t, one, two)
		if a, b := one.bearer(), two.bearer(); a != "Bearer t2" || b != "Bearer t2" {
			t.Errorf("the nodes have %q and %q", a, b)
		}
		c.clock.Advance(3000 * time.Second)
		crowd(t, one, two)
		if n := c.login.Count(); n != 2 {
			t.Errorf("%d token requests, want 2", n)
		}
	})
}

// An endpoint that fails is asked no more than once for each half of the time that is left, and disturbs no caller until the
// token's end. The log has one line for the token, or one for each refusal, which are ever farther apart. threats.md 143
func TestFailingRefreshAhead(t *testing.T) {
	for name, fails := range map[string]answer{"is down": status(http.StatusServiceUnavailable), "refuses": wrongSecret} {
		bubble(t, name, func(t *testing.T) {
			c, one, _ := nodesAhead(t)
			crowd(t, one)
			c.login.Answer(fails)
			c.clock.Advance(3540*time.Second - 120*time.Second)
			for range 120 {
				if got := one.bearer(); got != "Bearer t1" {
					t.Fatalf("a caller has %q", got)
				}
				synctest.Wait()
				c.clock.Advance(time.Second)
			}
			if n := c.login.Count() - 1; n < 5 || n > 7 {
				t.Errorf("the endpoint was asked %d times", n)
			}
			lines, refusals := one.w.logged("ahead of its end"), one.w.logged("asked again in")
			if lines+refusals != one.w.logged("WARN") || name == "is down" && lines != 1 || name == "refuses" && (lines != 0 || refusals != 5) {
				t.Errorf("%d lines and %d refusals:\n%s", lines, refusals, one.w.log.String())
			}
			if aheads := one.w.aheads(); len(aheads) != 7 || aheads[0].Err == nil {
				t.Errorf("the attempts ahead are %+v", aheads)
			}
			one.w.refuse(one.c, get(t.Context()), host.StageToken)
		})
	}
}

// The caller whose request began it may leave.
func TestACallerWhoLeavesDoesNotEndARefreshAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, _ := nodesAhead(t)
		one.bearer()
		g := newGate(token("t2", 3600))
		c.login.Answer(g.answer)
		c.clock.Advance(3500 * time.Second)
		ctx, leave := context.WithCancel(t.Context())
		one.w.send(one.c, get(ctx))
		leave()
		synctest.Wait()
		close(g.open)
		synctest.Wait()
		if got := one.bearer(); got != "Bearer t2" {
			t.Errorf("the next caller has %q", got)
		}
	})
}

// A host that is replaced, because its connectors are loaded again, waits for the call when it closes. The next host neither
// waits nor asks, and gets the token.
func TestClosingWaitsForARefreshAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, token("t1", 3600))
		var previous *host.Host
		var before, after caller
		for _, n := range []*caller{&before, &after} {
			n.w = newWorld(t, func(h *host.Config) { h.Clock, h.Previous = c.clock.Now, previous })
			previous = n.w.host
			n.w.login = c.login
			n.w.setSecret("s", "the-same-on-all-of-them")
			n.c = n.w.connectAhead("oauth_client_credentials", client(), 2*time.Minute)
		}
		before.bearer()
		g := newGate(token("t2", 3600))
		c.login.Answer(g.answer)
		c.clock.Advance(3500 * time.Second)
		before.bearer()
		closed := make(chan error, 1)
		go func() { closed <- before.w.host.Close(context.Background()) }()
		crowd(t, after)
		if len(closed) != 0 || c.login.Count() != 2 || after.bearer() != "Bearer t1" {
			t.Fatalf("closed: %d, and %d token requests", len(closed), c.login.Count())
		}
		close(g.open)
		if err := <-closed; err != nil {
			t.Error(err)
		}
		if got := after.bearer(); got != "Bearer t2" || c.login.Count() != 2 {
			t.Errorf("the next host has %q after %d token requests", got, c.login.Count())
		}
		if _, err := before.w.try(before.c, get(t.Context())); !errors.Is(err, host.ErrClosed) {
			t.Errorf("the closed host: %v", err)
		}
	})
}

// Callers whose token ends while the next one is on its way wait for that, and do not ask again.
func TestTokenEndsDuringRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := nodesAhead(t)
		one.bearer()
		two.bearer()
		g := newGate(token("t2", 3600))
		c.login.Answer(g.answer)
		c.clock.Advance(3530 * time.Second)
		one.bearer()
		synctest.Wait()
		c.clock.Advance(10 * time.Second)
		var all sync.WaitGroup
		for _, n := range []caller{one, two, one, two} {
			all.Go(func() { n.bearer() })
		}
		synctest.Wait()
		close(g.open)
		all.Wait()
		if a, b := one.bearer(), two.bearer(); a != "Bearer t2" || b != "Bearer t2" || c.login.Count() != 2 {
			t.Errorf("the nodes have %q and %q after %d token requests", a, b, c.login.Count())
		}
	})
}

// While the store fails, no node asks ahead: each would ask for itself.
func TestNoRefreshAheadWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, two := nodesAhead(t)
		one.bearer()
		two.bearer()
		c.clock.Advance(3500 * time.Second)
		c.store.down.Store(true)
		crowd(t, one, two)
		if c.login.Count() != 1 || one.w.logged("ahead of its end") != 1 {
			t.Errorf("%d token requests, log:\n%s", c.login.Count(), one.w.log.String())
		}
		c.store.down.Store(false)
		c.clock.Advance(25 * time.Second)
		crowd(t, one, two)
		if c.login.Count() != 2 || one.bearer() == "" {
			t.Errorf("%d token requests after the store is back", c.login.Count())
		}
	})
}

// A token that the API refuses while the next one is on its way is dropped, and the request goes on with the next one.
func TestTokenRefusedDuringRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, one, _ := nodesAhead(t)
		one.bearer()
		g := newGate(token("t2", 3600))
		c.login.Answer(g.answer)
		c.clock.Advance(3500 * time.Second)
		one.bearer()
		synctest.Wait()
		one.w.api.Answer(refusing("t1"))
		answered := make(chan string, 1)
		go func() { answered <- one.bearer() }()
		synctest.Wait()
		close(g.open)
		if got := <-answered; got != "Bearer t2" || c.login.Count() != 2 {
			t.Errorf("the request has %q after %d token requests", got, c.login.Count())
		}
	})
}

// A token whose whole life is less than RefreshAhead is replaced when half of it has passed, and not with each request. Nor is
// one whose endpoint returns the same token until its end. threats.md 143
func TestShortLivedTokenRefresh(t *testing.T) {
	for name, life := range map[string]func(since time.Duration) int64{
		"10 s of use": func(time.Duration) int64 { return 70 },
		"the same token for 160 s": func(since time.Duration) int64 {
			return 220 - int64(since/time.Second)%160
		},
	} {
		bubble(t, name, func(t *testing.T) {
			c, one, _ := nodesAhead(t)
			c.login.Answer(func(r *http.Request) (*http.Response, error) {
				return token("t1", life(c.clock.Now().Sub(start)))(r)
			})
			for range 1600 {
				one.bearer()
				synctest.Wait()
				c.clock.Advance(100 * time.Millisecond)
			}
			want := 160 / 5
			if name != "10 s of use" {
				want = 9 // 160 s, 80 s, 40 s, …
			}
			if n := c.login.Count(); n < want-3 || n > want {
				t.Errorf("%d token requests in 160 s, want %d", n, want)
			}
		})
	}
}
