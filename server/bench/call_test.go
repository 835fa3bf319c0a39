package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"

	extism "github.com/extism/go-sdk"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/admission"
	"github.com/keywright/keywright/internal/testworld"
)

var (
	// peerWasm is compiled from server/bench/peer with the same compiler as the built-in plugins.
	//
	//go:embed peer/peer.wasm
	peerWasm []byte
	// guestWasm is compiled from server/bench/guest like plugins.
	//
	//go:embed guest/guest.wasm
	guestWasm []byte
)

// callRows returns the rows for one call of the api_key plugin. Our side does more than the call: it checks and clones the
// request, reads the secret, and checks and applies the mutation. The peer only returns the mutation. The peer's plugin gets
// the three values of the configuration as its input, which is the cheapest way that go-sdk offers.
func callRows() (all []row) {
	for _, instances := range []struct {
		name string
		goal float64
		work func(session, *extism.CompiledPlugin) op
	}{
		{"a fresh instance each", 1.0 / 70, freshInstances},
		{"one instance", 1.0 / 12, oneInstance},
	} {
		all = append(all, row{
			work: "one call of the api_key plugin, reuse of mutations off", against: "extism/go-sdk v1.7.1, " + instances.name,
			unit: nanoseconds, goal: instances.goal,
			measure: func(s session) result {
				compiled, err := extism.NewCompiledPlugin(s.Context(), extism.Manifest{
					Wasm:    []extism.Wasm{extism.WasmData{Data: peerWasm}},
					Timeout: 1000, // milliseconds
				}, extism.PluginConfig{EnableWasi: true}, nil) // without WASI, it does not call _initialize
				testworld.Check(s, err)
				defer compiled.Close(s.Context())
				c := connected(s, &base{}, apiKeyAuth, withoutReuse)
				return s.pair(roundTrip(c.Transport(keyed{}), request(s.Context())), instances.work(s, compiled))
			},
		})
	}
	return all
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

func freshInstances(s session, compiled *extism.CompiledPlugin) op {
	return op{run: func() error {
		plugin, err := compiled.Instance(s.Context(), extism.PluginInstanceConfig{})
		if err != nil {
			return err
		}
		return errors.Join(call(plugin), plugin.Close(s.Context()))
	}}
}

// oneInstance uses each instance for 250 calls, because the plugin never frees memory.
func oneInstance(s session, compiled *extism.CompiledPlugin) op {
	var plugin *extism.Plugin
	return op{
		batch: 250,
		before: func() (err error) {
			if plugin != nil {
				testworld.Check(s, plugin.Close(s.Context()))
			}
			plugin = testworld.Must(compiled.Instance(s.Context(), extism.PluginInstanceConfig{}))(s)
			return call(plugin) // the first call initializes the instance
		},
		run: func() error { return call(plugin) },
	}
}

// meteringRows returns the rows for the cost of fuel in code that only computes: the original module and the one that package
// admission makes from it, both in plain wazero.
func meteringRows() (all []row) {
	for _, export := range []string{"base64", "json"} {
		all = append(all, row{
			work: "metered guest code, " + export + " of 300 bytes, there and back", against: "the same, unmetered",
			unit: nanoseconds, goal: 1.25,
			measure: func(s session) result {
				limits := host.Limits{}.WithDefaults()
				admitted := testworld.Must(admission.Admit(guestWasm, admission.Limits{ModuleBytes: limits.ModuleBytes, MemoryBytes: limits.MemoryBytes, Fuel: limits.Fuel}))(s)
				return s.pair(guestWork(s, admitted.Wasm, export, true), guestWork(s, guestWasm, export, false))
			},
		})
	}
	return all
}

// guestWork calls an export of a module, fifty times on each instance, because the guest never frees memory.
func guestWork(s session, wasm []byte, export string, metered bool) op {
	const plenty = 1 << 40
	ctx := context.WithoutCancel(s.Context())
	runtime := wazero.NewRuntime(ctx)
	s.Cleanup(func() { _ = runtime.Close(ctx) })
	compiled := testworld.Must(runtime.CompileModule(ctx, wasm))(s)
	var (
		instance api.Module
		function api.Function
		fuel     api.MutableGlobal // nil if the module is not metered
		stack    [1]uint64
	)
	call := func() error {
		if fuel != nil {
			fuel.Set(plenty)
		}
		if err := function.CallWithStack(ctx, stack[:]); err != nil {
			return err
		}
		if stack[0] != 0 {
			return errors.New("the guest says that it failed")
		}
		return nil
	}
	return op{
		batch: 50,
		before: func() (err error) {
			if instance != nil {
				testworld.Check(s, instance.Close(ctx))
			}
			instance = testworld.Must(runtime.InstantiateModule(ctx, compiled, wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize")))(s)
			function = instance.ExportedFunction(export)
			fuel, _ = instance.ExportedGlobal(admission.FuelExport).(api.MutableGlobal)
			if metered != (fuel != nil) {
				return errors.New("the wrong one of the two has fuel")
			}
			return call() // initialization must not be measured
		},
		run: call,
	}
}
