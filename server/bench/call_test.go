package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"

	extism "github.com/extism/go-sdk"
)

// peerWasm is compiled from server/bench/peer with the same compiler as the built-in plugins.
//
//go:embed peer/peer.wasm
var peerWasm []byte

// callRows returns the rows for one call of the api_key plugin. Our side does more than the call: it checks and clones the
// request, reads the secret, and checks and applies the mutation. The peer only returns the mutation. The peer's plugin gets
// the three values of the configuration as its input, which is the cheapest way that go-sdk offers.
func callRows() []row {
	var all []row
	for _, instances := range []struct {
		name string
		goal float64
		work func(context.Context, *extism.CompiledPlugin) op
	}{
		{"a fresh instance for each call", 1.0 / 70, freshInstances},
		{"one reused instance", 1.0 / 12, oneInstance},
	} {
		all = append(all, row{
			work:    "one call of the api_key plugin, reuse of mutations off",
			against: "extism/go-sdk v1.7.1, time limit on, " + instances.name + ", a comparable plugin",
			unit:    nanoseconds, goal: instances.goal,
			measure: func(ctx context.Context, s session) (result, error) {
				return oneCall(ctx, s, func(c *extism.CompiledPlugin) op { return instances.work(ctx, c) })
			},
		})
	}
	return all
}

func oneCall(ctx context.Context, s session, peer func(*extism.CompiledPlugin) op) (result, error) {
	b := &base{}
	h, c, err := connected(ctx, b, apiKeyAuth, withoutReuse)
	if err != nil {
		return result{}, err
	}
	defer h.Close(ctx)
	r := request(ctx)
	compiled, err := extism.NewCompiledPlugin(ctx, extism.Manifest{
		Wasm:    []extism.Wasm{extism.WasmData{Data: peerWasm}},
		Timeout: 1000, // milliseconds
	}, extism.PluginConfig{EnableWasi: true}, nil) // without WASI, it does not call _initialize
	if err != nil {
		return result{}, err
	}
	defer compiled.Close(ctx)
	transport := c.Transport(keyed{})
	return s.pair(ctx, op{run: func() error { return send(transport, r) }}, peer(compiled))
}

// keyed is a base that responds at once if the key is in the request, and fails otherwise.
type keyed struct{}

func (keyed) RoundTrip(r *http.Request) (*http.Response, error) {
	if key := r.Header["X-Api-Key"]; len(key) != 1 || key[0] != apiKey {
		return nil, errors.New("the key is not in the request")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

var peerInput = []byte("X-API-Key\n" + apiKey + "\nheader")

// call calls the peer's plugin, and checks its output.
func call(plugin *extism.Plugin) error {
	const want = `{"headers":[{"name":"X-API-Key","value":"` + apiKey + `"}]}`
	code, output, err := plugin.Call("authenticate", peerInput)
	if err == nil && (code != 0 || string(output) != want) {
		err = fmt.Errorf("the peer's plugin gave %d and %q", code, output)
	}
	return err
}

func freshInstances(ctx context.Context, compiled *extism.CompiledPlugin) op {
	return op{run: func() error {
		plugin, err := compiled.Instance(ctx, extism.PluginInstanceConfig{})
		if err != nil {
			return err
		}
		return errors.Join(call(plugin), plugin.Close(ctx))
	}}
}

// oneInstance uses each instance for 250 calls, because the plugin never frees memory.
func oneInstance(ctx context.Context, compiled *extism.CompiledPlugin) op {
	var plugin *extism.Plugin
	return op{
		batch: 250,
		before: func() error {
			if plugin != nil {
				if err := plugin.Close(ctx); err != nil {
					return err
				}
			}
			var err error
			if plugin, err = compiled.Instance(ctx, extism.PluginInstanceConfig{}); err != nil {
				return err
			}
			return call(plugin) // the first call initializes the instance
		},
		run: func() error { return call(plugin) },
	}
}
