package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/keywright/keywright/internal/abi"
)

// exportInitialize is what reactor modules of WASI have run before any other export.
const exportInitialize = "_initialize"

// Module is a compiled guest. It is safe for concurrent use.
type Module struct {
	runtime  *Runtime
	compiled wazero.CompiledModule
	exports  map[string]bool // those of the contract that it has
	digest   string
	stderr   bool      // whether it can write to stderr
	memories sync.Pool // of *memory
}

// Load compiles a module and checks that it keeps to the contract. The error is a *RefusedError, which has every
// reason. The bytes may be changed afterwards.
func (r *Runtime) Load(ctx context.Context, wasm []byte) (*Module, error) {
	if len(wasm) > r.limits.ModuleBytes {
		return nil, &RefusedError{[]string{fmt.Sprintf(
			"it has %d bytes, and %d are allowed: build it without debug information, or raise the limit",
			len(wasm), r.limits.ModuleBytes)}}
	}
	found, err := readOutline(wasm)
	if err != nil {
		return nil, &RefusedError{[]string{err.Error()}}
	}
	compiled, err := r.compile(ctx, found.bare)
	if err != nil {
		return nil, &RefusedError{[]string{fmt.Sprintf(
			"it is no valid WebAssembly 2.0 module without vector instructions: %s", cut(err.Error()))}}
	}
	if reasons := r.known.examine(found, compiled); len(reasons) > 0 {
		_ = compiled.Close(ctx) // nothing runs in it yet, and the reasons matter more
		return nil, &RefusedError{reasons}
	}
	digest := sha256.Sum256(wasm)
	m := &Module{runtime: r, compiled: compiled, exports: map[string]bool{}, digest: hex.EncodeToString(digest[:])}
	for _, f := range compiled.ImportedFunctions() {
		module, name, _ := f.Import()
		m.stderr = m.stderr || module == abi.ModuleWASI && name == wasiWrite
	}
	for _, name := range []string{abi.ExportDescribe, abi.ExportValidate, abi.ExportAuthenticate} {
		_, m.exports[name] = compiled.ExportedFunctions()[name]
	}
	return m, nil
}

// compile survives a panic of the compiler: what it is given comes from strangers.
func (r *Runtime) compile(ctx context.Context, wasm []byte) (compiled wazero.CompiledModule, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the compiler failed: %v", p)
		}
	}()
	return r.wazero.CompileModule(ctx, wasm)
}

// Has tells whether the module has an export of the contract.
func (m *Module) Has(export string) bool { return m.exports[export] }

// Digest is the SHA-256 of the module's bytes as they were delivered, in lower-case hexadecimal.
func (m *Module) Digest() string { return m.digest }

// Close releases the module. No call of it may be running.
func (m *Module) Close(ctx context.Context) error { return m.compiled.Close(ctx) }

// Call runs an export of the contract in a new instance, against env, until it returns or ctx ends. It waits for a
// slot first. The error is an *Error when the guest ran and gave no result.
func (m *Module) Call(ctx context.Context, export string, env abi.Env) (Result, error) {
	if !m.Has(export) {
		return Result{}, fmt.Errorf("the module has no export %q", export)
	}
	if err := m.runtime.slots.acquire(ctx); err != nil {
		return Result{}, err
	}
	r := m.start(ctx, env)
	defer r.end()
	began := time.Now()
	err := r.protect(func() error { return r.call(export) })
	r.result.Time = time.Since(began) - r.waited
	if err != nil {
		return Result{Time: r.result.Time}, err
	}
	return r.result, nil
}
