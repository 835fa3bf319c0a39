package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/keywright/keywright/host/internal/admission"
	"github.com/keywright/keywright/internal/abi"
)

// exportInitialize is what reactor modules of WASI have run before any other export.
const exportInitialize = "_initialize"

// Module is a compiled guest. It is safe for concurrent use.
type Module struct {
	runtime  *Runtime
	compiled wazero.CompiledModule
	first    []string // exports that an instance runs before any other
	exports  []string // all functions that it has
	digest   string
	stderr   bool      // whether it can write to stderr
	memories sync.Pool // of *memory
}

// Load checks that a module keeps to the contract and to the limits, and compiles it. The error is a *RefusedError, which has every
// reason. The bytes may be changed afterwards.
func (r *Runtime) Load(ctx context.Context, wasm []byte) (*Module, error) {
	admitted, err := admission.Admit(wasm, r.limits.admission())
	var refused *admission.RefusedError
	switch {
	case errors.As(err, &refused):
		reasons := make([]string, len(refused.Reasons))
		for i, reason := range refused.Reasons {
			reasons[i] = reason.String()
		}
		return nil, &RefusedError{reasons}
	case err != nil:
		return nil, err
	}
	compiled, err := r.compile(ctx, admitted.Wasm)
	if err != nil {
		return nil, &RefusedError{[]string{"it cannot be compiled: " + cut(err.Error())}}
	}
	var first []string
	if admitted.Start != "" {
		first = append(first, admitted.Start)
	}
	if slices.Contains(admitted.Exports, exportInitialize) {
		first = append(first, exportInitialize)
	}
	digest := sha256.Sum256(wasm)
	return &Module{
		runtime:  r,
		compiled: compiled,
		first:    first,
		exports:  admitted.Exports,
		digest:   hex.EncodeToString(digest[:]),
		stderr:   slices.Contains(admitted.Imports, admission.Import{Module: abi.ModuleWASI, Name: wasiWrite}),
	}, nil
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
func (m *Module) Has(export string) bool {
	switch export {
	case abi.ExportDescribe, abi.ExportValidate, abi.ExportAuthenticate:
		return slices.Contains(m.exports, export)
	}
	return false
}

// Digest is the SHA-256 of the module's bytes as they were delivered, in lower-case hexadecimal.
func (m *Module) Digest() string { return m.digest }

// Close releases the module. No call of it may be running.
func (m *Module) Close(ctx context.Context) error { return m.compiled.Close(ctx) }

// Call runs an export of the contract in a new instance, against env, until it returns, has no fuel left, or calls the
// host when ctx has ended. It waits for a
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
		return Result{Time: r.result.Time, Fuel: r.result.Fuel}, err
	}
	return r.result, nil
}
