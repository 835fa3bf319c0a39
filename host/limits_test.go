package host_test

import (
	"context"
	"encoding/json"
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
		if err := h.Close(t.Context()); err != nil {
			t.Error(err)
		}
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
	w.canary("s")
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
		for _, name := range []string{"s", "k", "text"} {
			w.canary(name)
		}
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
		w.canary("s")
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
	if err == nil || !strings.Contains(err.Error(), "auth has more than 33554432 bytes") {
		t.Errorf("err = %v", err)
	}
}
