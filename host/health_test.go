package host_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/host/internal/testhook"
	"github.com/keywright/keywright/internal/contract"
)

// An attempt says in which way the plugin failed, and how often it ran.
func TestHowAPluginFails(t *testing.T) {
	module := func(code string) host.Plugin {
		return host.Plugin{Name: "custom.wasm", Wasm: assemble(t, fixed(code)), Limits: host.PluginLimits{MemoryBytes: 3 << 16}}
	}
	native := func(do func(contract.Env) (string, error)) host.Plugin {
		g := &guest{authenticate: do}
		g.about.Fields = []abi.Field{sealedField("value", abi.SinkHeader)}
		return g.plugin()
	}
	for name, c := range map[string]struct {
		plugin host.Plugin
		want   host.PluginFailure
	}{
		"well":               {module(""), ""},
		"fuel":               {module(endless), host.FailureFuel},
		"memory":             {module(grows), host.FailureMemory},
		"blocks":             {module(`(loop $again (drop (call $block_new (i32.const 0) (i32.const 60000))) (br $again))`), host.FailureMemory},
		"trap":               {module(`unreachable`), host.FailureTrap},
		"no such offset":     {module(`(call $output_set (i64.const 1) (i64.const 5))`), host.FailureAnswer},
		"no mutation":        {native(fixedOutput(`{"headers":1}`)), host.FailureAnswer},
		"no credential":      {native(fixedOutput(`{}`)), host.FailureAnswer},
		"not its function":   {native(func(env contract.Env) (string, error) { return env.Body(), nil }), host.FailureAnswer},
		"a forbidden header": {native(func(env contract.Env) (string, error) { return header("Host", value(env, "value")), nil }), host.FailureAnswer},
		"its own error":      {native(func(contract.Env) (string, error) { return "", errors.New("the id is missing") }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withoutBuiltIns, func(config *host.Config) { config.Plugins = append(config.Plugins, c.plugin) })
			w.canary("s")
			_, err := w.try(w.connect("custom", config{"value": "{{ get_secret('s') }}"}), get(t.Context()))
			if len(w.calls) != 1 || w.calls[0].Failure != c.want || w.calls[0].Runs != 1 || (err == nil) != (name == "well") {
				t.Errorf("%v, Observe was told of %+v", err, w.calls)
			}
		})
	}
}

// stoppedGuest is a guest whose authenticate is ended by the sandbox.
type stoppedGuest struct {
	guest
	err error
}

func (g *stoppedGuest) Call(ctx context.Context, export string, env contract.Env) (sandbox.Result, error) {
	if export == contract.ExportAuthenticate {
		return sandbox.Result{}, g.err
	}
	return g.guest.Call(ctx, export, env)
}

// A plugin whose time is over has failed, and one whose caller has gone away has not.
func TestHowAPluginFailsByTime(t *testing.T) {
	for want, err := range map[host.PluginFailure]error{
		host.FailureTime: &sandbox.Error{Kind: sandbox.ErrTime, Limit: sandbox.LimitTime},
		"":               &sandbox.Error{Kind: sandbox.ErrTime},
	} {
		g := &stoppedGuest{err: err}
		g.plugin()
		p := testhook.NativePlugin("guest", g, nil).(host.Plugin)
		p.Limits.CallTime = time.Second
		w := newWorld(t, withoutBuiltIns, func(c *host.Config) { c.Plugins = append(c.Plugins, p) })
		_, failed := w.try(w.connect("custom", nil), get(t.Context()))
		if len(w.calls) != 1 || w.calls[0].Failure != want || errors.As(failed, new(*host.LimitError)) != (want != "") {
			t.Errorf("%v, Observe was told of %+v", failed, w.calls)
		}
	}
}

// A token endpoint that does not answer, or refuses, is no failure of the plugin, which ran twice: the second time with the
// right to ask.
func TestTokenEndpointFailureKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, withoutBuiltIns, withGuest(misusing(func(env contract.Env) (string, error) { return tokenRequest(env, value(env, "url")) })))
		for _, name := range []string{"s", "k", "text"} {
			w.canary(name)
		}
		w.login.Answer(func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		})
		w.refuse(w.connect("custom", misused), get(t.Context()), host.StageToken, "deadline exceeded")
		if len(w.calls) != 1 || w.calls[0].Failure != "" || w.calls[0].Runs != 2 {
			t.Errorf("Observe was told of %+v", w.calls)
		}
	})
}
