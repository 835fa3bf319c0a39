package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tetratelabs/wazero"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/internal/admission"
)

// exportInitialize is the export that runs before any other in reactor modules of WASI.
const exportInitialize = "_initialize"

// Module is a compiled guest. It is safe for concurrent use.
type Module struct {
	runtime   *Runtime
	compiled  wazero.CompiledModule
	admitted  *admission.Module
	first     []string  // exports that an instance runs before any other
	stderr    bool      // whether it can write to stderr
	pristine  *snapshot // nil when each call has an instance of its own
	notPooled string    // why that is so
	runs      sync.Pool // of *run, without a guest

	mu   sync.Mutex
	idle []*run // with a guest each, that waits for the next call; the last one is used first, while it is in the cache
}

// Load checks that a module keeps to the contract and to the limits, compiles it, and finds out whether its instances can
// be used again. The error is a *RefusedError, which has every reason. The bytes may be changed afterwards.
func (r *Runtime) Load(ctx context.Context, wasm []byte) (*Module, error) {
	admitted, err := admission.Admit(wasm, admission.Limits{ModuleBytes: r.limits.ModuleBytes, MemoryBytes: r.limits.MemoryBytes, Fuel: r.limits.Fuel})
	var refused *admission.RefusedError
	switch {
	case errors.As(err, &refused):
		reasons := make([]string, len(refused.Reasons))
		for i, reason := range refused.Reasons {
			reasons[i] = reason.String()
		}
		return nil, &RefusedError{Reasons: reasons}
	case err != nil:
		return nil, err
	}
	compiled, err := r.compile(ctx, admitted.Wasm)
	if err != nil {
		return nil, &RefusedError{Reasons: []string{"it cannot be compiled: " + cut(err.Error())}, Compiler: true}
	}
	var first []string
	if admitted.Start != "" {
		first = append(first, admitted.Start)
	}
	if slices.Contains(admitted.Exports, exportInitialize) {
		first = append(first, exportInitialize)
	}
	admitted.Wasm = nil
	m := &Module{
		runtime:   r,
		compiled:  compiled,
		admitted:  admitted,
		first:     first,
		stderr:    slices.Contains(admitted.Imports, admission.Import{Module: abi.ModuleWASI, Name: wasiWrite}),
		notPooled: admitted.NotPooled,
	}
	if admitted.NotPooled == "" {
		m.notPooled = m.initialise(ctx)
	}
	return m, nil
}

// initialise makes a first instance, and the snapshot that those to come are put back to, or says why there is none.
func (m *Module) initialise(ctx context.Context) (why string) {
	r := m.idleRun()
	r.begin(ctx, silent{})
	err := r.protect(r.initialise)
	switch {
	case err != nil:
		why = "its initialisation fails" // which each call will tell
	case r.asked:
		why = "its initialisation calls the host"
	case len(r.memory.bytes) > maxIdle:
		why = fmt.Sprintf("its memory has more than %d bytes after its initialisation", maxIdle)
	default:
		m.pristine = snapshotOf(r.guest, r.memory.bytes, m.runtime.limits.Fuel-r.left())
	}
	r.release(err == nil)
	return why
}

// silent is the abi.Env of an initialisation that is only looked at.
type silent struct{ abi.Env }

func (silent) Log(abi.Level, string) {}

// Deterministic reports whether the same call, with the same answers of its abi.Env, always has the same result: the module can
// neither draw random bytes nor read a clock by itself.
func (m *Module) Deterministic() bool {
	return !slices.ContainsFunc(m.admitted.Imports, func(i admission.Import) bool {
		return i.Module == abi.ModuleWASI && i.Name != wasiWrite
	})
}

// NotPooled returns the reason why each call of the module has an instance of its own. It is "" when instances are used again,
// put back after each call to what they were after their initialisation.
func (m *Module) NotPooled() string { return m.notPooled }

// compile survives a panic of the compiler: what it is given comes from strangers.
func (r *Runtime) compile(ctx context.Context, wasm []byte) (compiled wazero.CompiledModule, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the compiler failed: %v", p)
		}
	}()
	return r.wazero.CompileModule(ctx, wasm)
}

// Has reports whether the module has an export of the contract.
func (m *Module) Has(export string) bool {
	switch export {
	case abi.ExportDescribe, abi.ExportValidate, abi.ExportAuthenticate:
		return slices.Contains(m.admitted.Exports, export)
	}
	return false
}

// Call runs an export of the contract, against env, until it returns, has no fuel left, or calls the host when ctx has
// ended. Whatever it finds is as it was when the module had just been initialised. It waits for a slot first. The error is
// an *Error when the guest ran and gave no result.
func (m *Module) Call(ctx context.Context, export string, env abi.Env) (Result, error) {
	if !m.Has(export) {
		return Result{}, fmt.Errorf("the module has no export %q", export)
	}
	if err := m.runtime.slots.acquire(ctx, m.runtime.limits.CallTime); err != nil {
		return Result{}, err
	}
	if ctx.Err() != nil {
		m.runtime.slots.release()
		return Result{}, stopped(context.Cause(ctx), "its time was over before it began")
	}
	r := m.idleRun()
	r.begin(ctx, env)
	err := r.protect(func() error { return r.call(export) })
	result := r.result
	result.Time = r.took()
	if r.guest != nil {
		result.Fuel = r.module.runtime.limits.Fuel - r.left()
	}
	slot := !r.waiting
	r.release(err == nil && m.pristine != nil && result.Fuel-m.pristine.fuel < keptFuel)
	if slot {
		m.runtime.slots.release()
	}
	if err != nil {
		return Result{Time: result.Time, Fuel: result.Fuel}, err
	}
	return result, nil
}

// idleRun returns a run that serves nobody, with a guest if there is one.
func (m *Module) idleRun() *run {
	m.mu.Lock()
	if last := len(m.idle) - 1; last >= 0 {
		r := m.idle[last]
		m.idle[last] = nil
		m.idle = m.idle[:last]
		m.mu.Unlock()
		return r
	}
	m.mu.Unlock()
	if r, _ := m.runs.Get().(*run); r != nil {
		return r
	}
	return newRun(m)
}
