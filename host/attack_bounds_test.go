package host_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// Attacks on the host's memory, threats.md 3, and on the calls of others. The tests go just beyond each bound, so that
// they stay cheap even if the bound is missing.

func TestConfigGetOfManyUnknownNames_threats_3(t *testing.T) {
	refuseAll(t, []misuse{{"a long name", func(env contract.Env) (string, error) {
		for i := range 64 {
			env.ConfigGet(fmt.Sprint(i) + strings.Repeat("n", 1<<20))
		}
		return header("X-Key", value(env, "to_header")), nil
	}, host.StagePlugin, "is no field in the plugin's description"}})
}

// A document can name a large sealed value many times in a few bytes. A plugin makes a sealed value of 128 KiB from a
// short one by encoding it repeatedly, and a reference to it takes 29 bytes.
func TestDocumentsOfManySealedValues_threats_3(t *testing.T) {
	large := func(env contract.Env, field string) string {
		v := value(env, field)
		for range 7 { // a short value counts as 1 KiB
			v = env.Encode(contract.FormatHex, v)
		}
		return v
	}
	const many = 32 // 4 MiB
	refuseAll(t, []misuse{
		{"a form", func(env contract.Env) (string, error) {
			var form []abi.Pair
			v := large(env, "to_token")
			for range many {
				form = append(form, abi.Pair{Name: "a", Value: v})
			}
			return tokenRequest(env, tokenURL, form...)
		}, host.StagePlugin, "more than 2097152 bytes in all"},
		{"claims", func(env contract.Env) (string, error) {
			var list []any
			v := large(env, "to_claim")
			for range many {
				list = append(list, v)
			}
			return header("X-Key", sign(env, contract.JWTRequest[map[string]any]{Key: "key", For: contract.ForHeader, Claims: map[string]any{"a": list}})), nil
		}, host.StagePlugin, "more than 2097152 bytes in all"},
		{"claims of many documents", func(env contract.Env) (string, error) {
			v := large(env, "to_claim")
			for i := range 18 { // 2.25 MiB
				sign(env, contract.JWTRequest[map[string]any]{Key: "key", For: contract.ForHeader, Claims: map[string]any{fmt.Sprint(i): v}})
			}
			return header("X-Key", value(env, "to_header")), nil
		}, host.StagePlugin, "more than 2097152 bytes in all"},
	})
}

// A reference to a sealed value of one byte counts as more than one byte in the cache.
func TestCachedValueCountsItsSealedValues_threats_3(t *testing.T) {
	caching := func(references int) func(contract.Env) (string, error) {
		return func(env contract.Env) (string, error) {
			v := value(env, "to_header")
			env.CacheSet("k", strings.Repeat(v, references), 60)
			return header("X-Key", v), nil
		}
	}
	short := func(w *world) *host.Connector {
		w.setSecret("s", "x")
		return w.connect("custom", misused)
	}
	w := misusedWorld(t, caching(50))
	w.get(short(w))
	w = misusedWorld(t, caching(700))
	w.refuse(short(w), get(t.Context()), host.StagePlugin, "more than 65536 bytes")
}

// A plugin may set an entry twice in a call. The second value counts, also if the first one was waited for.
func TestSecondValueOfAnEntryWins(t *testing.T) {
	w := misusedWorld(t, func(env contract.Env) (string, error) {
		found, ok := env.CacheGet("k")
		if !ok {
			env.CacheSet("k", "old", 60)
			env.CacheSet("k", "new", 60)
			found, _ = env.CacheGet("k")
		}
		return header("X-Key", value(env, "to_header")+found), nil
	})
	c := w.connect("custom", misused)
	for _, request := range []string{"first", "second"} {
		if got := w.get(c).Header.Get("X-Key"); got != w.secrets["s"]+"new" {
			t.Errorf("the %s request has the entry %q", request, strings.TrimPrefix(got, w.secrets["s"]))
		}
	}
}

// cachingToken is a guest that caches a token of its endpoint.
func cachingToken(env contract.Env) (string, error) {
	token, found := env.CacheGet("token")
	if !found {
		reply := string(env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, "url")}))))
		_, reply, _ = strings.Cut(reply, `"access_token":"`)
		token, _, _ = strings.Cut(reply, `"`)
		env.CacheSet("token", token, 60)
	}
	return header("X-Key", token), nil
}

// threats.md 30, 3: a call that waits for a token endpoint keeps its guest's memory, and does not count for
// ConcurrentGuests. So ConcurrentExchanges limits the number of such calls, and an endpoint has half of them. Calls that need no endpoint do not wait for
// them.
func TestWaitingCallsBound_threats_30(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := customWorld(t, misusing(cachingToken), func(c *host.Config) { c.Limits.ConcurrentExchanges = 4 })
		cached := w.connectAs("cached", "custom", misused)
		w.get(cached)
		g := newGate(token("a-later-token", 3600))
		w.login.Answer(g.answer)
		var all sync.WaitGroup
		for i := range 10 {
			c := w.connectAs(fmt.Sprint("slow ", i), "custom", misused)
			all.Go(func() {
				if _, err := w.try(c, get(t.Context())); err != nil {
					t.Errorf("%s: err = %v", c.Config().Name, err)
				}
			})
		}
		if synctest.Wait(); w.login.Count() != 1+2 || w.api.Count() != 1 {
			t.Errorf("%d exchanges and %d requests, want 2 and none", w.login.Count()-1, w.api.Count()-1)
		}
		for range 5 {
			w.get(cached)
		}
		if w.login.Count() != 1+2 || w.api.Count() != 1+5 {
			t.Error("what is cached waits for endpoints")
		}
		close(g.open)
		if all.Wait(); w.login.Count() != 1+10 || w.api.Count() != 1+5+10 {
			t.Errorf("%d exchanges and %d requests, want all 10", w.login.Count()-1, w.api.Count()-6)
		}
	})
}

// A call waits for its turn to request a token no longer than a call may take.
func TestTokenRequestTurnTimeout_threats_30(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := customWorld(t, misusing(cachingToken), func(c *host.Config) { c.Limits.ConcurrentExchanges = 1 })
		stuck := make(chan struct{})
		w.login.Answer(func(r *http.Request) (*http.Response, error) { // ignores its context
			<-stuck
			return token("a-later-token", 3600)(r)
		})
		var all sync.WaitGroup
		slow, late := w.connectAs("slow", "custom", misused), w.connectAs("late", "custom", misused)
		all.Go(func() { _, _ = w.try(slow, get(t.Context())) })
		synctest.Wait()
		w.refuse(late, get(t.Context()), host.StageToken, "too many other calls")
		close(stuck)
		all.Wait()
		w.get(late) // the next request succeeds
	})
}
