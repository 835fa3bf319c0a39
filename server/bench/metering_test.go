package bench

import (
	"context"
	_ "embed"
	"errors"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/admission"
)

// guestWasm is compiled from server/bench/guest like plugins.
//
//go:embed guest/guest.wasm
var guestWasm []byte

// meteringRows returns the rows for the cost of fuel in code that only computes: the original module and the one that package
// admission makes from it, both in plain wazero.
func meteringRows() []row {
	var all []row
	for _, export := range []string{"base64", "json"} {
		all = append(all, row{
			work: "metered guest code, " + export + " of 300 bytes, there and back", against: "the same, unmetered",
			unit: nanoseconds, goal: 1.25,
			measure: func(ctx context.Context, s session) (result, error) { return metering(ctx, s, export) },
		})
	}
	return all
}

func metering(ctx context.Context, s session, export string) (result, error) {
	limits := host.Limits{}.WithDefaults()
	admitted, err := admission.Admit(guestWasm, admission.Limits{ModuleBytes: limits.ModuleBytes, MemoryBytes: limits.MemoryBytes, Fuel: limits.Fuel})
	if err != nil {
		return result{}, err
	}
	var sides [2]op
	for i, wasm := range [][]byte{admitted.Wasm, guestWasm} {
		runtime := wazero.NewRuntime(ctx)
		defer runtime.Close(ctx)
		compiled, err := runtime.CompileModule(ctx, wasm)
		if err != nil {
			return result{}, err
		}
		sides[i] = guestWork(ctx, runtime, compiled, export, i == 0)
	}
	return s.pair(ctx, sides[0], sides[1])
}

// guestWork calls an export, fifty times on each instance, because the guest never frees memory.
func guestWork(ctx context.Context, runtime wazero.Runtime, compiled wazero.CompiledModule, export string, metered bool) op {
	const plenty = 1 << 40
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
		before: func() error {
			if instance != nil {
				if err := instance.Close(ctx); err != nil {
					return err
				}
			}
			var err error
			config := wazero.NewModuleConfig().WithName("").WithStartFunctions("_initialize")
			if instance, err = runtime.InstantiateModule(ctx, compiled, config); err != nil {
				return err
			}
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
