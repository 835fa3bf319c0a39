package bench

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/plugins"
)

// startRows returns the rows for the time until the first connectors of a process are ready. The peer is wazero alone, which
// compiles the same modules one after the other: a bound in milliseconds would depend on the machine.
func startRows() []row {
	work := "host.New and connecting the five types, "
	const against = "wazero compiles the five modules, one after the other"
	return []row{
		{
			work: work + "nothing cached", against: against, unit: nanoseconds, goal: 0.67,
			measure: func(ctx context.Context, s session) (result, error) { return starts(ctx, s) },
		},
		{
			work: work + "code cache warm", against: against, unit: nanoseconds, goal: 0.12,
			measure: func(ctx context.Context, s session) (result, error) {
				dir, err := os.MkdirTemp("", "keywright-bench-")
				if err != nil {
					return result{}, err
				}
				defer os.RemoveAll(dir)
				if _, err := child(ctx, nil, "start", dir); err != nil {
					return result{}, err
				}
				return starts(ctx, s, dir)
			},
		},
	}
}

// starts measures processes with and without Keywright by turns.
func starts(ctx context.Context, s session, dir ...string) (result, error) {
	sides := [2][]string{append([]string{"start"}, dir...), {"compile"}}
	return s.rounds(ctx, func(round int) (took [2]float64, err error) {
		for turn := range 4 {
			which := (turn + turn/2 + round) % 2
			one, err := child(ctx, nil, sides[which]...)
			if err != nil {
				return took, err
			}
			took[which] += one / 2
		}
		return took, nil
	}, func(v [2]float64) float64 { return v[0] / v[1] })
}

// childCompile returns the time in nanoseconds that wazero takes to compile the five modules.
func childCompile(ctx context.Context, _ []string) (float64, error) {
	begin := time.Now()
	runtime := wazero.NewRuntime(ctx)
	defer runtime.Close(ctx)
	for _, wasm := range plugins.Default() {
		if _, err := runtime.CompileModule(ctx, wasm); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(begin)), nil
}

// childStart returns the time in nanoseconds. Its optional argument is the directory of the code cache.
func childStart(ctx context.Context, args []string) (float64, error) {
	keys() // not part of the measured time
	dir := ""
	if len(args) > 0 {
		dir = args[0]
	}
	begin := time.Now()
	h, err := newHost(ctx, &base{}, func(c *host.Config) { c.CodeCache = dir })
	if err != nil {
		return 0, err
	}
	for _, a := range auths {
		if _, err := connect(ctx, h, a.Type, a); err != nil {
			return 0, errors.Join(err, h.Close(ctx))
		}
	}
	took := time.Since(begin)
	return float64(took), h.Close(ctx)
}
