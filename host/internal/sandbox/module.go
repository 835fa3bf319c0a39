package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/tetratelabs/wazero"

	"github.com/keywright/keywright/internal/admission"
	"github.com/keywright/keywright/internal/contract"
)

// Module is a compiled guest. It is safe for concurrent use.
type Module struct {
	runtime *Runtime
	// limits are those of the runtime, or lower ones.
	limits   Limits
	compiled wazero.CompiledModule
	admitted *admission.Module
	// first names the exports that a new instance runs before any other.
	first []string
	// stderr is set if the module can write to stderr.
	stderr bool
	// pristine is the state that instances are reset to, or nil if each call has its own, for the reason in notPooled.
	pristine  *snapshot
	notPooled string
	// runs holds *run values without a guest.
	runs sync.Pool

	mu sync.Mutex
	// idle holds runs with a guest that wait for a call. The last one is used first: it may still be in the CPU's cache.
	idle []*run
}

// Load checks a module against the contract and limits, compiles it, and finds out whether its instances can be
// reused. If the module is refused, the error is a *RefusedError with all reasons. Load does not keep wasm. The limit of
// guests that run at the same time is that of the runtime.
func (r *Runtime) Load(ctx context.Context, wasm []byte, limits Limits) (*Module, error) {
	admitted, err := admission.Admit(wasm, admission.Limits{ModuleBytes: limits.ModuleBytes, MemoryBytes: limits.MemoryBytes, Fuel: limits.Fuel})
	switch refusal, ok := errors.AsType[*admission.RefusedError](err); {
	case ok:
		reasons := make([]string, len(refusal.Reasons))
		for i, reason := range refusal.Reasons {
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
	if slices.Contains(admitted.Exports, admission.Initialize) {
		first = append(first, admission.Initialize)
	}
	admitted.Wasm = nil
	m := &Module{
		runtime: r, limits: limits, compiled: compiled, admitted: admitted, first: first, notPooled: admitted.NotPooled,
		stderr: slices.Contains(admitted.Imports, admission.Import{Module: contract.ModuleWASI, Name: wasiWrite}),
	}
	m.runs.New = func() any { return newRun(m) }
	if admitted.NotPooled == "" {
		m.notPooled = m.initialise(ctx)
	}
	return m, nil
}

// initialise makes the first instance and the snapshot that instances are reset to, or returns why there can be none.
func (m *Module) initialise(ctx context.Context) (why string) {
	r := m.idleRun()
	r.begin(ctx, silent{})
	err := r.protect(r.initialise)
	switch {
	case err != nil:
		why = "its initialisation fails" // each call will report the error
	case r.hostUsed:
		why = "its initialisation calls the host"
	case len(r.memory.bytes) > maxIdle:
		why = fmt.Sprintf("its memory has more than %d bytes after its initialisation", maxIdle)
	default:
		m.pristine = snapshotOf(r.guest, r.memory.bytes, m.limits.Fuel-r.fuelLeft())
	}
	r.release(err == nil)
	return why
}

// silent is the contract.Env of the first instance, which serves no call. It discards the log.
type silent struct{ contract.Env }

func (silent) Log(contract.Level, string) {}

// Deterministic reports whether the same call, with the same results of its contract.Env, always has the same result. That is
// so if the module imports nothing of WASI except fd_write, since it can read neither random bytes nor a clock then.
func (m *Module) Deterministic() bool {
	return !slices.ContainsFunc(m.admitted.Imports, func(i admission.Import) bool {
		return i.Module == contract.ModuleWASI && i.Name != wasiWrite
	})
}

// NotPooled returns the reason why each call of the module has an instance of its own. It is "" if instances are reused.
// Such an instance is reset after a call to its state after initialisation.
func (m *Module) NotPooled() string { return m.notPooled }

// Exports returns the functions that the module exports, in the order of the module.
func (m *Module) Exports() []string { return slices.Clone(m.admitted.Exports) }

// Imports returns the functions that the module imports, as module.name, in the order of the module.
func (m *Module) Imports() []string {
	names := make([]string, len(m.admitted.Imports))
	for i, imported := range m.admitted.Imports {
		names[i] = imported.Module + "." + imported.Name
	}
	return names
}

// compile compiles a module. It turns a panic of the compiler into an error, because modules are untrusted.
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
	return slices.Contains(contract.Exports, export) && slices.Contains(m.admitted.Exports, export)
}

// Call runs an export of the contract against env. It first waits for a slot. The guest starts in the state after initialisation, and runs
// until it returns, has no fuel left, or calls the host after ctx has ended. The error is an *Error, unless the module has no such export.
func (m *Module) Call(ctx context.Context, export string, env contract.Env) (Result, error) {
	if !m.Has(export) {
		return Result{}, fmt.Errorf("the module has no export %q", export)
	}
	if err := m.runtime.slots.acquire(ctx, m.limits.CallTime); err != nil {
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
	result.Time = r.elapsed()
	if r.guest != nil {
		result.Fuel = r.module.limits.Fuel - r.fuelLeft()
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

// idleRun returns a run that serves no call. It has a guest if one is idle.
func (m *Module) idleRun() *run {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := len(m.idle) - 1; last >= 0 {
		r := m.idle[last]
		m.idle = slices.Delete(m.idle, last, last+1)
		return r
	}
	return m.runs.Get().(*run)
}
