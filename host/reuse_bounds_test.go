package host_test

import (
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// A plugin that makes many sealed values does not make the host keep more for each user (threats.md 3).
func TestLargeCallsNotReused(t *testing.T) {
	g := misusing(func(env contract.Env) (string, error) {
		k := value(env, "to_header")
		for range 20 {
			env.Encode(contract.FormatHex, k+strings.Repeat("x", 90_000))
		}
		return header("X-Key", k), nil
	})
	w := newWorld(t, withoutBuiltIns, withGuest(g))
	w.canary("s")
	c := w.connect("custom", config{"to_header": "{{ get_secret('s') }} {{ user.id }}"})
	before := heap()
	const users = 20
	for i := range users {
		w.send(c, get(host.WithUser(t.Context(), host.User{ID: fmt.Sprint(i)})))
	}
	if grown := heap() - before; grown > users*64<<10 {
		t.Errorf("%d users keep %d bytes", users, grown)
	}
	runtime.KeepAlive(w)
}

func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // the second run frees what a sync.Pool keeps for one more run
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// A kept mutation does not keep the values of cache entries that were evicted (threats.md 3).
func TestReuseAfterDrop(t *testing.T) {
	g := misusing(func(env contract.Env) (string, error) {
		k := value(env, "to_header")
		for i := range 16 {
			name := fmt.Sprint("k", i)
			if _, ok := env.CacheGet(name); !ok {
				env.CacheSet(name, strings.Repeat("x", 60_000), 3600)
			}
		}
		return header("X-Key", k), nil
	})
	const users, entries = 64, 64
	w := newWorld(t, withoutBuiltIns, withGuest(g), func(c *host.Config) { c.Limits.TokensBytes = entries * 60_000 })
	w.canary("s")
	c := w.connect("custom", config{"to_header": "{{ get_secret('s') }} {{ user.id }}"})
	before := heap()
	for i := range users {
		for range 2 {
			w.send(c, get(host.WithUser(t.Context(), host.User{ID: fmt.Sprint(i)})))
		}
	}
	if grown := heap() - before; grown > entries*60_000+users*32<<10+4<<20 {
		t.Errorf("%d entries of 60 kB may be cached, and %d bytes are kept", entries, grown)
	}
	runtime.KeepAlive(w)
}

// A mutation is used again unless its call is large. The texts that secrets are part of count, and the names of the
// cache entries that the call read (threats.md 3).
func TestHowLargeACallMayBeToBeKept(t *testing.T) {
	for name, c := range map[string]struct {
		puts, entries int
		kept          bool
	}{
		"a secret":                      {1, 0, true},
		"a secret, 6 times":             {6, 0, true},
		"a secret, 10 times":            {10, 0, false},
		"50 entries with long names":    {1, 50, true},
		"both, too large together only": {6, 50, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := misusing(func(env contract.Env) (string, error) {
				for i := range c.entries {
					name := fmt.Sprintf("%0256d", i)
					if _, ok := env.CacheGet(name); !ok {
						env.CacheSet(name, "x", 3600)
					}
				}
				return header("X-Key", strings.Repeat(value(env, "to_header"), c.puts)), nil
			})
			w := newWorld(t, withoutBuiltIns, withGuest(g), func(c *host.Config) { c.Limits.CachePerPartition = 100 })
			w.setSecret("s", strings.Repeat("s", 16_000))
			connector := w.connect("custom", config{"to_header": "{{ get_secret('s') }}"})
			for range 3 { // the first call fills the cache, the second may be kept
				w.get(connector)
			}
			if got := w.calls[len(w.calls)-1].Reused; got != c.kept {
				t.Errorf("used again: %t, want %t", got, c.kept)
			}
		})
	}
}

// A request whose mutation is used again takes three allocations, which the base may keep or change: the request with its URL, and
// the map of its headers, which is two. With a cached token it takes no more.
func TestAllocationsOfARequest(t *testing.T) {
	respond := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}
	base := answer(func(r *http.Request) (*http.Response, error) {
		if r.URL.Host == "login.test" {
			return token("a-token", 3600)(r)
		}
		return respond, nil
	})
	for name, c := range map[string]struct {
		authType string
		config   config
	}{
		"api_key":                  {"api_key", key("{{ get_secret('s') }}")},
		"oauth_client_credentials": {"oauth_client_credentials", oauth("{{ get_secret('s') }}")},
	} {
		t.Run(name, func(t *testing.T) {
			h, err := host.New(t.Context(), host.Config{Base: base, Secrets: host.MapSecrets{"s": "a secret of the test"}})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close(t.Context())
			connector, err := h.NewConnector(t.Context(), host.ConnectorConfig{Name: "crm", Origins: []string{apiOrigin}, Auth: host.Auth{Type: c.authType, Config: c.config}})
			if err != nil {
				t.Fatal(err)
			}
			transport, r := connector.Transport(nil), get(t.Context())
			r.Header.Set("User-Agent", "test")
			allocations := testing.AllocsPerRun(100, func() {
				response, err := transport.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				_ = response.Body.Close()
			})
			if allocations > 3 {
				t.Errorf("%v allocations", allocations)
			}
		})
	}
}
