//go:build !race

// Under the race detector these tests take long, and they do one thing after another. make test runs them without it.

package host_test

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// userOf returns a context with a user whose ID is a name, repeated up to a length.
func userOf(ctx context.Context, id, length int) context.Context {
	name := fmt.Sprint("user-", id, "-")
	return host.WithUser(ctx, host.User{ID: strings.Repeat(name, 1+length/len(name))[:max(length, len(name))]})
}

// Ten connectors keep their tokens while 10,000 users of another one get theirs. threats.md 333
func TestUsersOfOneConnectorPushOutNothingOfOthers_threats_333(t *testing.T) {
	var n int
	w := newWorld(t, withoutBuiltIns, withGuest(readsRequest(func(contract.Env) {})), func(c *host.Config) {
		c.Limits.TokensBytes, c.Limits.MutationsBytes, c.Limits.ScannersBytes = 1<<19, 1<<19, 1<<19
		c.Observe = nil
		c.Base = answer(func(r *http.Request) (*http.Response, error) {
			if r.URL.Host != "login.test" {
				return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
			}
			n++
			return token("a-token-of-a-user", 3600)(r)
		})
	})
	many := w.connectAs("many", "custom", config{"url": tokenURL, "plain": "{{ user.id }}"})
	var peers []*host.Connector
	for i := range 10 {
		peers = append(peers, w.connectAs(fmt.Sprint("other ", i), "custom", config{"url": tokenURL, "plain": "{{ user.id }}"}))
	}
	send := func(c *host.Connector, user int) (exchanges int) {
		earlier := n
		_ = must(c.GuardedTransport(nil).RoundTrip(get(userOf(t.Context(), user, 0))))(t).Body.Close()
		return n - earlier
	}
	for _, c := range peers {
		send(c, 1)
	}
	missed := 0
	for user := range 10_000 {
		send(many, user)
		if user%20 == 0 {
			missed += send(peers[user/20%10], 1)
		}
	}
	if missed > 0 {
		t.Errorf("of 500 requests of ten other connectors, %d asked for a token again", missed)
	}
}

// What is kept of calls is bounded by its size, however many users there are. threats.md 334
func TestMemoryOfUsers_threats_334(t *testing.T) {
	const bound = 4 << 20
	for name, length := range map[string]int{"short credentials": 80, "long credentials": 2000} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *host.Config) {
				c.Limits.MutationsBytes, c.Limits.ScannersBytes, c.Observe = bound, bound, nil
				c.Base = answer(func(r *http.Request) (*http.Response, error) {
					return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
				})
			})
			c := w.connect("api_key", key("{{ user.id }}"))
			ask := func(user int) {
				for range 2 {
					_ = must(c.GuardedTransport(nil).RoundTrip(get(userOf(t.Context(), user, length))))(t).Body.Close()
				}
			}
			ask(0)
			start := heap()
			for user := range 5000 {
				ask(user)
			}
			if grown := heap() - start; grown > 2*bound*6/5 {
				t.Errorf("%d bytes are kept, and there may be %d, and a fifth more", grown, 2*bound)
			} else {
				t.Logf("%d bytes are kept of %d", grown, 2*bound)
			}
			runtime.KeepAlive(w)
		})
	}
}
