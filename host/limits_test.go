package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

func TestLimitsOutOfRange(t *testing.T) {
	refused := func(l host.Limits, want string) {
		t.Helper()
		h, err := host.New(context.Background(), host.Config{Limits: l})
		if err == nil {
			_ = h.Close(t.Context())
		}
		if err == nil || !strings.HasPrefix(err.Error(), "limits: "+want) {
			t.Errorf("%+v: %v, want %q", l, err, want)
		}
	}
	for i := range reflect.TypeFor[host.Limits]().NumField() {
		var l host.Limits
		reflect.ValueOf(&l).Elem().Field(i).SetInt(-1)
		name := reflect.TypeFor[host.Limits]().Field(i).Name
		refused(l, fmt.Sprintf("%s is -1: give a positive number, or 0 for the default", name))
	}
	for _, bytes := range []int{1, 65535, 1<<32 + 1, 1 << 48} {
		refused(host.Limits{MemoryBytes: bytes}, fmt.Sprintf("MemoryBytes is %d: give 64 KiB to 4 GiB, or 0 for the default", bytes))
	}
	refused(host.Limits{ModuleBytes: 2047<<20 + 1}, "ModuleBytes is 2146435073: give 1 to 2047 MiB, or 0 for the default")
	refused(host.Limits{Fuel: 1e18 + 1}, "Fuel is 1000000000000000001: give 1 to 1,000,000,000,000,000,000, or 0 for the default")
}

// The bounds of each range are valid, and every limit has a default.
func TestValidLimits(t *testing.T) {
	for _, l := range []host.Limits{{}, {ModuleBytes: 1, MemoryBytes: 64 << 10, Fuel: 1}, {ModuleBytes: 2047 << 20, MemoryBytes: 4 << 30, Fuel: 1e18}} {
		h, err := host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, Limits: l})
		if err != nil {
			t.Errorf("%+v: err = %v", l, err)
			continue
		}
		check(t, h.Close(t.Context()))
	}
	l := host.Limits{CallTime: time.Minute, Blocks: 7}.WithDefaults()
	for i := range reflect.TypeFor[host.Limits]().NumField() {
		if reflect.ValueOf(l).Field(i).Int() <= 0 {
			t.Errorf("%s has no default", reflect.TypeFor[host.Limits]().Field(i).Name)
		}
	}
	if l.CallTime != time.Minute || l.Blocks != 7 || l.ModuleBytes != 8<<20 || l.TokenBytes != 64<<10 || l.Fuel != 5_000_000 || (host.Limits{}).WithDefaults().CallTime != 15*time.Second {
		t.Errorf("with defaults: %+v", l)
	}
}

// A cache of one entry for each partition is enough for a plugin with one token.
func TestPartitionsOfOneEntry(t *testing.T) {
	w := newWorld(t, func(c *host.Config) { c.Limits.CachePerPartition = 1 })
	c := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
	for range 3 {
		w.get(c)
	}
	if w.login.Count() != 1 {
		t.Errorf("%d tokens were requested", w.login.Count())
	}
}

// By default, four guests run at once for each processor, and at least 16.
func TestDefaultConcurrentGuests(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for processors, want := range map[int]int{1: 16, 4: 16, 5: 20, 16: 64} {
		runtime.GOMAXPROCS(processors)
		if got := (host.Limits{}).WithDefaults().ConcurrentGuests; got != want {
			t.Errorf("%d processors: %d, want %d", processors, got, want)
		}
	}
}

// The time limit of a call covers all its token requests together.
func TestTimeOfSeveralTokenRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := misusing(func(env contract.Env) (string, error) {
			for range 3 {
				if out, err := tokenRequest(env, value(env, "url")); err != nil {
					return out, err
				}
			}
			return header("X-Key", value(env, "to_header")), nil
		})
		w := newWorld(t, withoutBuiltIns, withGuest(g), func(c *host.Config) { c.Limits.CallTime = 7 * time.Second })
		w.login.Answer(func(r *http.Request) (*http.Response, error) {
			select {
			case <-time.After(4 * time.Second):
				return token("t1", 3600)(r)
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})
		began := time.Now()
		w.refuse(w.connect("custom", misused), get(t.Context()), host.StageToken, "deadline exceeded")
		if took := time.Since(began); took != 7*time.Second || w.login.Count() != 2 {
			t.Errorf("it took %v and %d exchanges", took, w.login.Count())
		}
	})
}

// SECURITY.md: Limits.ConcurrentGuests limits the guests that run at once.
func TestLimitsRunning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, calls = 2, 6
		var began, running atomic.Int32
		leave := make(chan struct{})
		clock := func() time.Time {
			if began.Load() > 0 {
				running.Add(1)
				<-leave
				running.Add(-1)
			}
			return start
		}
		plugin := host.Plugin{Name: "custom.wasm", Wasm: assemble(t, fixed(`(drop (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 8)))`))}
		w := newWorld(t, withoutBuiltIns, func(c *host.Config) {
			c.Plugins, c.Clock, c.Limits.ConcurrentGuests = append(c.Plugins, plugin), clock, limit
		})
		connector := w.connect("custom", config{"value": "{{ get_secret('s') }}"})
		began.Store(1)
		var all sync.WaitGroup
		for range calls {
			all.Go(func() {
				if _, err := w.try(connector, get(t.Context())); err != nil {
					t.Error(err)
				}
			})
		}
		for waiting := calls; waiting > 0; waiting-- {
			synctest.Wait()
			if n := running.Load(); n != int32(min(limit, waiting)) {
				t.Errorf("%d guests run while %d requests wait, of at most %d", n, waiting, limit)
			}
			leave <- struct{}{}
		}
		all.Wait()
	})
}

// An auth object that no configuration can be is refused before it is decoded.
func TestOversizedAuth(t *testing.T) {
	var auth host.Auth
	err := json.Unmarshal([]byte(`{"type":"none"`+strings.Repeat(" ", 32<<20)+`}`), &auth)
	testworld.WantError(t, "", err, "auth has more than 33554432 bytes")
}

// limited returns a plugin with limits of its own. It runs code before it sends its field.
func limited(t *testing.T, code string, limits host.PluginLimits) func(*host.Config) {
	t.Helper()
	p := host.Plugin{Name: "own.wasm", Wasm: assemble(t, fixed(code)), Limits: limits}
	return func(c *host.Config) { c.Plugins = append(c.Plugins, p) }
}

// limitedGuest returns a world with a guest that has limits of its own.
func limitedGuest(t *testing.T, g *guest, limits host.PluginLimits) *world {
	t.Helper()
	p := g.plugin()
	p.Limits = limits
	return newWorld(t, withoutBuiltIns, func(c *host.Config) { c.Plugins = append(c.Plugins, p) })
}

// asksOnce is a guest that sends a token request.
func asksOnce(env contract.Env) (string, error) { return tokenRequest(env, value(env, "url")) }

const (
	endless = `(loop $again (br $again))`
	grows   = `(if (i32.eq (memory.grow (i32.const 3)) (i32.const -1)) (then (unreachable)))`
)

// A plugin that is over a limit of its own is stopped there, and the error names the plugin and the limit. Without one, the
// host's limit applies, and the error names no plugin (threats.md 182).
func TestPluginOverItsOwnLimit_threats_182(t *testing.T) {
	for name, c := range map[string]struct {
		code   string
		limits host.PluginLimits
		want   string
	}{
		"fuel":         {endless, host.PluginLimits{Fuel: 30_000}, `plugin "own.wasm": limits.fuel: the guest is over a limit: more than 30000 units of fuel in a call`},
		"host's fuel":  {endless, host.PluginLimits{MemoryBytes: 1 << 20}, `the guest is over a limit: more than 4000000 units of fuel in a call`},
		"memory":       {grows, host.PluginLimits{MemoryBytes: 3 << 16}, `plugin "own.wasm": limits.memory_bytes: the guest is over a limit: it wanted more than 196608 bytes of memory and then trapped`},
		"other memory": {`(drop (memory.grow (i32.const 300)))` + endless, host.PluginLimits{MemoryBytes: 1 << 20}, `the guest is over a limit: more than 4000000 units of fuel`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withoutBuiltIns, limited(t, c.code, c.limits), func(c *host.Config) { c.Limits.Fuel = 4_000_000 })
			connector := w.connect("custom", config{"value": "{{ get_secret('s') }}"})
			_, err := w.try(connector, get(t.Context()))
			if failure, ok := errors.AsType[*host.Error](err); !ok || failure.Stage != host.StagePlugin || !strings.HasPrefix(failure.Err.Error(), c.want) {
				t.Fatalf("%v, want %q", err, c.want)
			}
			var limit *host.LimitError
			if own := strings.HasPrefix(c.want, "plugin"); errors.As(err, &limit) != own || own && limit.Plugin != "own.wasm" {
				t.Errorf("limit = %+v", limit)
			}
		})
	}
}

// A plugin within its own limits works as any other, call after call.
func TestPluginWithinItsOwnLimits(t *testing.T) {
	own := host.PluginLimits{Fuel: 100_000, CallTime: time.Second, MemoryBytes: 4 << 16, TokenRequests: 1}
	w := newWorld(t, withoutBuiltIns, limited(t, grows, own), func(c *host.Config) { c.NoReuse = true })
	connector := w.connect("custom", config{"value": "{{ get_secret('s') }}"})
	for range 3 {
		must(w.try(connector, get(t.Context())))(t)
	}
	if infos := w.host.Plugins(); infos[0].Limits != own {
		t.Errorf("Plugins returns %+v", infos[0].Limits)
	}
}

func TestTokenRequestsOfAPlugin(t *testing.T) {
	g := misusing(func(env contract.Env) (string, error) {
		if out, err := tokenRequest(env, value(env, "url")); err != nil {
			return out, err
		}
		return tokenRequest(env, value(env, "url"))
	})
	w := limitedGuest(t, g, host.PluginLimits{TokenRequests: 1})
	w.refuse(w.connect("custom", misused), get(t.Context()), host.StagePlugin, `plugin "guest": limits.token_requests: more than 1 token requests in one call`)
	if w.login.Count() != 1 {
		t.Errorf("%d requests were sent", w.login.Count())
	}
}

// The time of a plugin covers its token requests, also where the connector would wait for longer.
func TestTimeOfAPlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := limitedGuest(t, misusing(asksOnce), host.PluginLimits{CallTime: 3 * time.Second})
		w.login.Answer(silent)
		began := time.Now()
		w.refuse(w.connect("custom", misused), get(t.Context()), host.StageToken, `plugin "guest": limits.call_time: `)
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// An error of a plugin with its own time is about that time only if that was over.
func TestErrorsWithinTheTimeOfAPlugin(t *testing.T) {
	for name, timeout := range map[string]time.Duration{"the endpoint cannot be reached": 0, "the connector's time was over": 2 * time.Second} {
		bubble(t, name, func(t *testing.T) {
			w := limitedGuest(t, misusing(asksOnce), host.PluginLimits{CallTime: 3 * time.Second})
			w.login.Answer(func(r *http.Request) (*http.Response, error) {
				if timeout > 0 {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return nil, errors.New("connection reset by peer")
			})
			connector := w.open(host.ConnectorConfig{Auth: []host.Auth{{Type: "custom", Config: misused}}, Timeout: timeout})
			if err := w.refuse(connector, get(t.Context()), host.StageToken); errors.As(err, new(*host.LimitError)) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// A plugin cannot have more than its host (threats.md 182).
func TestPluginLimitsOutOfRange_threats_182(t *testing.T) {
	for _, c := range []struct {
		limits       host.PluginLimits
		member, want string
	}{
		{host.PluginLimits{Fuel: 5_000_001}, "fuel", `plugin "own.wasm": limits.fuel: is 5000001, and the host's own limit is 5000000: give at most that, or leave it out`},
		{host.PluginLimits{CallTime: 16 * time.Second}, "call_time", `plugin "own.wasm": limits.call_time: is 16s, and the host's own limit is 15s: `},
		{host.PluginLimits{MemoryBytes: 32 << 20}, "memory_bytes", `plugin "own.wasm": limits.memory_bytes: is 33554432, and the host's own limit is 16777216: `},
		{host.PluginLimits{MemoryBytes: 1000}, "memory_bytes", `plugin "own.wasm": limits.memory_bytes: `},
		{host.PluginLimits{TokenRequests: -1}, "token_requests", `plugin "own.wasm": limits.token_requests: is -1: give a positive one`},
		{host.PluginLimits{Fuel: 10}, "fuel", `describe: plugin "own.wasm": limits.fuel: the guest is over a limit: more than 10 units of fuel`},
	} {
		p := host.Plugin{Name: "own.wasm", Wasm: assemble(t, fixed("")), Limits: c.limits}
		h, err := host.New(t.Context(), host.Config{BuiltIns: []host.Plugin{}, Plugins: []host.Plugin{p}})
		if err == nil {
			_ = h.Close(t.Context())
		}
		if limit, ok := errors.AsType[*host.LimitError](err); !ok || limit.Member != c.member || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.limits, err, c.want)
		}
	}
}
