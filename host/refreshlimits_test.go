package host_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// grantedAhead adds a node with the refresher, which replaces its access token two minutes ahead of its end.
func grantedAhead(c *cluster) caller {
	w, _ := granted(c, refresher(nil), seeded())
	return caller{w, w.connectAhead("refresher", seeded(), 2*time.Minute)}
}

// A grant is redeemed once ahead of the end of its access token, by one of two nodes with a thousand callers, who do not wait.
// threats.md 123
func TestSingleRedemptionAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := grants(t)
		one, two := grantedAhead(c), grantedAhead(c)
		crowd(t, one, two)
		for round := 2; round <= 4; round++ {
			g := newGate(server.answer)
			c.login.Answer(g.answer)
			c.clock.Advance(3540*time.Second - 120*time.Second)
			crowd(t, one, two)
			close(g.open)
			synctest.Wait()
			c.clock.Advance(60 * time.Second)
			crowd(t, one, two)
			synctest.Wait()
			want := fmt.Sprint("Bearer access-token-", round)
			if a, b := one.bearer(), two.bearer(); a != want || b != want || len(server.sent) != round || server.twice() != nil {
				t.Fatalf("round %d: the nodes have %q and %q; %v were sent", round, a, b, server.sent)
			}
		}
	})
}

// If the answer to a refresh ahead is lost, the refresh token is not sent again while the access token can be used: only a request that
// needs a token sends it. threats.md 300
func TestUncertainGrantAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, server := grants(t)
		one, two := grantedAhead(c), grantedAhead(c)
		one.bearer()
		two.bearer()
		server.after = func(*http.Request) (*http.Response, error) { return nil, errors.New("connection reset by peer") }
		c.clock.Advance(3540*time.Second - 120*time.Second)
		for range 120 {
			if a, b := one.bearer(), two.bearer(); a != "Bearer access-token-1" || b != a {
				t.Fatalf("the nodes have %q and %q", a, b)
			}
			synctest.Wait()
			c.clock.Advance(time.Second)
		}
		if len(server.sent) != 2 || server.twice() != nil {
			t.Errorf("%v were sent", server.sent)
		}
		if n := one.w.logged("is uncertain, because its token was sent") + two.w.logged("is uncertain, because its token was sent"); n == 0 {
			t.Error("the log does not say that the grant is uncertain")
		}
		for _, n := range []caller{one, two} {
			grantError(t, n.w, n.c, host.ConditionLost)
		}
		if server.sent["rotated-refresh-token-1"] != 2 {
			t.Errorf("%v were sent", server.sent)
		}
	})
}

// readsRequest is a guest that fetches a token for the user, and then does read with its call before it returns.
func readsRequest(read func(env contract.Env)) *guest {
	g := &guest{about: onBehalf}
	g.authenticate = func(env contract.Env) (string, error) {
		token, ok := env.CacheGet("token")
		if !ok {
			var err error
			if token, err = fetchFor(env, value(env, "plain")); err != nil {
				return "", err
			}
		}
		read(env)
		return header("Authorization", "Bearer "+token), nil
	}
	return g
}

func fetchFor(env contract.Env, who string) (string, error) {
	r := tokenReply(env, contract.TokenRequest{URL: value(env, "url"), Form: []abi.Pair{{Name: "who", Value: who}}})
	env.CacheSet("token", r.AccessToken, 3540)
	return r.AccessToken, nil
}

// A call ahead has no request: it ends where the plugin reads one. Before, it has the user of the request that began it, and no
// other. threats.md 144
func TestACallAheadHasNoRequest(t *testing.T) {
	for name, read := range map[string]func(env contract.Env){
		"the request": func(env contract.Env) { env.Input() },
		"the body":    func(env contract.Env) { env.Body() },
		"the form":    func(env contract.Env) { env.BodyForm() },
		"a text":      func(env contract.Env) { env.Compose("{method}", nil) },
	} {
		bubble(t, name, func(t *testing.T) {
			var mu sync.Mutex
			reads := 0
			g := readsRequest(func(env contract.Env) {
				read(env)
				mu.Lock()
				defer mu.Unlock()
				reads++
			})
			c := newCluster(t, tokens(3600))
			w := c.world(withoutBuiltIns, withGuest(g))
			connector := w.connectAhead("custom", config{"url": tokenURL, "plain": "{{ user.id }}"}, 2*time.Minute)
			send := func(user string) string {
				return w.send(connector, get(host.WithUser(t.Context(), host.User{ID: user}))).Header.Get("Authorization")
			}
			send("ann")
			send("bob")
			c.clock.Advance(3500 * time.Second)
			before := reads
			send("bob")
			synctest.Wait()
			if got := c.login.Last().Form().Get("who"); c.login.Count() != 3 || got != "bob" {
				t.Errorf("%d token requests, the last one for %q", c.login.Count(), got)
			}
			if reads != before+1 {
				t.Errorf("the plugin read %d requests, and there was one", reads-before)
			}
			if a, b := send("ann"), send("bob"); a != "Bearer t1" || b != "Bearer t3" {
				t.Errorf("ann has %q, and bob %q", a, b)
			}
			synctest.Wait()
			aheads := w.aheads()
			if len(aheads) != 2 || aheads[0].Err != nil || aheads[1].Err != nil {
				t.Errorf("the attempts ahead are %+v", aheads)
			}
		})
	}
}

// What a plugin keeps without having asked a token endpoint is not replaced ahead.
func TestNoRefreshAheadOfOwnEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		g := &guest{about: onBehalf}
		g.authenticate = func(env contract.Env) (string, error) {
			runs++
			key, ok := env.CacheGet("key")
			if !ok {
				key = value(env, "subject")
				env.CacheSet("key", key, 3540)
			}
			return header("Authorization", "Bearer "+key), nil
		}
		c := newCluster(t, tokens(3600))
		w := c.world(withoutBuiltIns, withGuest(g))
		w.canary("s")
		connector := w.connectAhead("custom", config{"url": tokenURL, "subject": "{{ get_secret('s') }}"}, 2*time.Minute)
		w.get(connector)
		w.get(connector)
		c.clock.Advance(3500 * time.Second)
		before := runs
		w.get(connector)
		synctest.Wait()
		if runs != before {
			t.Errorf("the plugin ran %d times", runs-before)
		}
	})
}

// A token that ends with the user's own token is not replaced ahead: the next one would end at the same time.
func TestNoRefreshBeyondUserToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := onBehalfWorld(t, cachedExchange)
		w.login.Answer(tokens(3600))
		connector := w.connectAhead("custom", config{"url": tokenURL, "subject": "{{ user.token }}"}, 2*time.Minute)
		user, ends := w.Secret("the user's token"), w.Now().Add(time.Hour)
		for range 3599 {
			w.send(connector, w.until(user, ends))
			w.Advance(time.Second)
		}
		if n := w.login.Count(); n != 1 {
			t.Errorf("%d token requests, want 1", n)
		}
	})
}

// The calls ahead of a host have a bounded number of places. Those that find none are begun by later requests, and calls whose
// users wait for a token have places of their own. A connector has a quarter of them at most. threats.md 143, 330
func TestCallsAheadHaveABoundedNumberOfPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := readsRequest(func(contract.Env) {})
		c := newCluster(t, tokens(3600))
		w := c.world(withoutBuiltIns, withGuest(g), func(h *host.Config) { h.Limits.ConcurrentExchanges = 16 })
		connector := w.connectAhead("custom", config{"url": tokenURL, "plain": "{{ user.id }}"}, 2*time.Minute)
		send := func(i int) {
			w.send(connector, get(host.WithUser(t.Context(), host.User{ID: fmt.Sprint(i)})))
		}
		sendAll := func() {
			for i := range 10 {
				send(i)
			}
			synctest.Wait()
		}
		sendAll()
		gate := newGate(tokens(3600))
		c.login.Answer(gate.answer)
		c.clock.Advance(3500 * time.Second)
		sendAll()
		sendAll()
		if n := c.login.Count(); n != 11 {
			t.Fatalf("%d calls ahead at once, want a quarter of a quarter of 16", n-10)
		}
		c.login.Answer(tokens(3600))
		send(10)
		close(gate.open)
		for range 10 {
			sendAll()
		}
		if n := c.login.Count(); n != 21 || len(w.aheads()) != 10 {
			t.Errorf("%d token requests, %d ahead", n, len(w.aheads()))
		}
	})
}

// A connector that cannot replace tokens ahead is refused.
func TestInvalidRefreshAhead(t *testing.T) {
	some := func(typeName, group string) *guest {
		g := &guest{}
		g.about.Type, g.about.Uses = typeName, []string{group}
		return g
	}
	w := newWorld(t, func(c *host.Config) {
		c.Plugins = append(c.Plugins, some("caches", contract.GroupCache).plugin(), some("asks", contract.GroupToken).plugin())
	})
	for authType, c := range map[string]struct {
		ahead time.Duration
		want  string
	}{
		"none":   {time.Minute, "refresh_ahead: auth type none keeps no tokens of an endpoint: remove it"},
		"caches": {time.Minute, "refresh_ahead: auth type caches keeps no tokens of an endpoint: remove it"},
		"asks":   {time.Minute, "refresh_ahead: auth type asks keeps no tokens of an endpoint: remove it"},
		"basic":  {-1, "refresh_ahead: is negative"},
	} {
		_, err := w.tryOpen(host.ConnectorConfig{Auth: []host.Auth{{Type: authType}}, RefreshAhead: c.ahead})
		testworld.WantError(t, authType, err, c.want)
	}
}
