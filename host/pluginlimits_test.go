package host_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// limited returns a plugin with limits of its own. It runs code before it sends its field.
func limited(t *testing.T, code string, limits host.PluginLimits) func(*host.Config) {
	t.Helper()
	p := host.Plugin{Name: "own.wasm", Wasm: assemble(t, fixed(code)), Limits: limits}
	return func(c *host.Config) { c.Plugins = append(c.Plugins, p) }
}

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
			w.canary("s")
			connector := w.connect("custom", config{"value": "{{ get_secret('s') }}"})
			_, err := w.try(connector, get(t.Context()))
			var failure *host.Error
			if !errors.As(err, &failure) || failure.Stage != host.StagePlugin || !strings.HasPrefix(failure.Err.Error(), c.want) {
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
	w.canary("s")
	connector := w.connect("custom", config{"value": "{{ get_secret('s') }}"})
	for range 3 {
		if _, err := w.try(connector, get(t.Context())); err != nil {
			t.Fatal(err)
		}
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
	p := g.plugin()
	p.Limits.TokenRequests = 1
	w := newWorld(t, withoutBuiltIns, func(c *host.Config) { c.Plugins = append(c.Plugins, p) })
	for _, name := range []string{"s", "k", "text"} {
		w.canary(name)
	}
	w.refuse(w.connect("custom", misused), get(t.Context()), host.StagePlugin, `plugin "guest": limits.token_requests: more than 1 token requests in one call`)
	if w.login.Count() != 1 {
		t.Errorf("%d requests were sent", w.login.Count())
	}
}

// The time of a plugin covers its token requests, also where the connector would wait for longer.
func TestTimeOfAPlugin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := misusing(func(env contract.Env) (string, error) { return tokenRequest(env, value(env, "url")) }).plugin()
		p.Limits.CallTime = 3 * time.Second
		w := newWorld(t, withoutBuiltIns, func(c *host.Config) { c.Plugins = append(c.Plugins, p) })
		for _, name := range []string{"s", "k", "text"} {
			w.canary(name)
		}
		w.login.Answer(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := misusing(func(env contract.Env) (string, error) { return tokenRequest(env, value(env, "url")) }).plugin()
				p.Limits.CallTime = 3 * time.Second
				w := newWorld(t, withoutBuiltIns, func(c *host.Config) { c.Plugins = append(c.Plugins, p) })
				for _, name := range []string{"s", "k", "text"} {
					w.canary(name)
				}
				w.login.Answer(func(r *http.Request) (*http.Response, error) {
					if timeout > 0 {
						<-r.Context().Done()
						return nil, r.Context().Err()
					}
					return nil, errors.New("connection reset by peer")
				})
				connector, err := w.host.NewConnector(t.Context(), host.ConnectorConfig{
					Name: "crm", Origins: []string{apiOrigin}, Auth: host.Auth{Type: "custom", Config: misused}, Timeout: timeout,
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := w.refuse(connector, get(t.Context()), host.StageToken); errors.As(err, new(*host.LimitError)) {
					t.Errorf("the error is %v", err)
				}
			})
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
		var limit *host.LimitError
		if !errors.As(err, &limit) || limit.Member != c.member || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.limits, err, c.want)
		}
	}
}
