package admission

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/keywright/keywright/internal/testworld"
)

// shipped returns the compiled plugins of this repository by file name.
func shipped(t testing.TB) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for _, pattern := range []string{"../../plugins/*/*.wasm", "../../examples/*/*.wasm"} {
		paths := testworld.Must(filepath.Glob(pattern))(t)
		for _, path := range paths {
			all[filepath.Base(path)] = testworld.Must(os.ReadFile(path))(t)
		}
	}
	if len(all) < 6 {
		t.Fatalf("only %d plugins", len(all))
	}
	return all
}

// open is the contract without required exports.
var open = ruleset{imports: plugins.imports, maxTargets: plugins.maxTargets}

// testLimits are large enough for most tests.
var testLimits = Limits{ModuleBytes: 8 << 20, MemoryBytes: 16 << 20, Fuel: 5_000_000}

// For any bytes, Admit returns a reason, or a module that compiles both as delivered and metered. It refuses a metered
// module. threats.md 2, 7
func FuzzAdmit(f *testing.F) {
	for _, wasm := range shipped(f) {
		f.Add(wasm)
	}
	for _, wasm := range seeds() {
		f.Add(wasm)
	}
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCoreFeatures(features))
	f.Cleanup(func() { _ = r.Close(ctx) })
	limits := testLimits
	limits.ModuleBytes = 32 << 10
	f.Fuzz(func(t *testing.T, wasm []byte) {
		before := bytes.Clone(wasm)
		m, err := admit(wasm, limits, open)
		if !bytes.Equal(before, wasm) {
			t.Fatal("the module as delivered was changed")
		}
		var refused *RefusedError
		switch {
		case err == nil:
			compiles(t, r, bare(wasm))
			compiles(t, r, m.Wasm)
			if _, err := admit(m.Wasm, limits, open); !errors.As(err, &refused) {
				t.Errorf("a module with fuel is admitted again: %v", err)
			}
		case !errors.As(err, &refused) || len(refused.Reasons) == 0:
			t.Errorf("error %v", err)
		}
	})
}

// bare returns the module without its custom sections, as Admit drops them without validation.
func bare(wasm []byte) []byte {
	out := []byte(magic)
	for r := (reader{wasm: wasm, pos: len(magic), end: len(wasm)}); r.remaining() > 0; {
		begin := r.pos
		id := r.byte()
		r.bytes(r.u32())
		if id != sectionCustom {
			out = append(out, wasm[begin:r.pos]...)
		}
	}
	return out
}

func compiles(t *testing.T, r wazero.Runtime, wasm []byte) {
	t.Helper()
	compiled, err := r.CompileModule(context.Background(), wasm)
	if err != nil {
		t.Errorf("admitted, but does not compile: %v", err)
		return
	}
	_ = compiled.Close(context.Background())
}
