package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

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
	// config configures every instance. Until the first one was looked at, it has a probe in place of the clock and of random bytes.
	config wazero.ModuleConfig
	// pristine is the state that instances are reset to, or nil if each call has its own, for the reason in admitted.
	pristine *snapshot
	// runs holds *run values without a guest.
	runs sync.Pool

	mu sync.Mutex
	// idle holds runs with a guest that wait for a call. The last one is used first: it may still be in the CPU's cache.
	idle []*run
}

// Load checks a module against the contract and limits, compiles it, and finds out whether its instances can be
// reused. If the module is refused, the error is an *admission.RefusedError, or ErrCompiler. Load does not keep wasm. The limit of
// guests that run at the same time is that of the runtime.
func (r *Runtime) Load(ctx context.Context, wasm []byte, limits Limits) (*Module, error) {
	admitted, err := admission.Admit(wasm, admission.Limits{ModuleBytes: limits.ModuleBytes, MemoryBytes: limits.MemoryBytes, Fuel: limits.Fuel})
	if err != nil {
		return nil, err
	}
	compiled, err := r.compile(ctx, admitted.Wasm)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrCompiler, cut(err.Error()))
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
		runtime: r, limits: limits, compiled: compiled, admitted: admitted, first: first, config: r.config,
		stderr: slices.Contains(admitted.Imports, admission.Import{Module: contract.ModuleWASI, Name: wasiWrite}),
	}
	m.runs.New = func() any { return newRun(m) }
	if admitted.NotPooled == "" {
		admitted.NotPooled = m.initialise(ctx)
	}
	return m, nil
}

// initialise makes the first instance and the snapshot that instances are reset to, or returns why there can be none.
func (m *Module) initialise(ctx context.Context) (why string) {
	var read probe
	m.config = moduleConfig(read.now, &read)
	r := m.idleRun()
	r.begin(ctx, silent{})
	err := r.protect(r.initialise)
	switch {
	case bool(read):
		why = "its initialisation reads random bytes or the clock"
	case err != nil:
		why = "its initialisation fails" // each call will report the error
	case r.hostUsed:
		why = "its initialisation calls the host"
	case len(r.memory.bytes) > maxIdle:
		why = fmt.Sprintf("its memory has more than %d bytes after its initialisation", maxIdle)
	default:
		m.pristine = snapshotOf(r.guest, r.memory.bytes, m.limits.Fuel-r.fuelLeft())
	}
	r.release(err == nil && m.Deterministic()) // any other has the probe
	m.config = m.runtime.config
	return why
}

// probe is the clock and the source of random bytes of the first instance. It is set once the instance has read one of them: then what
// the initialisation leaves is not the same each time.
type probe bool

func (p *probe) now() time.Time {
	*p = true
	return time.Unix(0, 0)
}

func (p *probe) Read(b []byte) (int, error) {
	*p = true
	return len(b), nil
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
func (m *Module) NotPooled() string { return m.admitted.NotPooled }

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

// guest is an instance of a module, for one call at a time. It keeps functions and globals: a look-up costs more than a call.
type guest struct {
	instance api.Module
	fuel     api.MutableGlobal
	// globals holds all other mutable globals.
	globals []api.MutableGlobal
	exports map[string]api.Function
}

// newGuest instantiates the module. None of its code runs: package admission has turned its start function into an export.
func (m *Module) newGuest(ctx context.Context, memory *memory, stderr *lines) (*guest, error) {
	config := m.config
	if m.stderr {
		config = config.WithStderr(stderr)
	}
	instance, err := m.runtime.wazero.InstantiateModule(experimental.WithMemoryAllocator(ctx, memory), m.compiled, config)
	if err != nil {
		return nil, err
	}
	g := &guest{instance: instance, fuel: mutable(instance, admission.FuelExport), exports: map[string]api.Function{}}
	for _, name := range m.admitted.Globals {
		g.globals = append(g.globals, mutable(instance, name))
	}
	for _, name := range contract.Exports {
		if m.Has(name) {
			g.exports[name] = instance.ExportedFunction(name)
		}
	}
	return g, nil
}

func mutable(instance api.Module, name string) api.MutableGlobal {
	return instance.ExportedGlobal(name).(api.MutableGlobal) // package admission exports every mutable global
}

// close closes the instance. The error is ignored: it can only come from open files, and there are none.
func (g *guest) close() { _ = g.instance.Close(context.Background()) }

// snapshot is the state of a module's guest after its initialisation.
type snapshot struct {
	size int
	// segments holds the parts of the memory that are not zero.
	segments []segment
	globals  []uint64
	// fuel is the number of units that initialisation uses.
	fuel int64
}

type segment struct {
	offset int
	bytes  []byte
}

// snapshotOf returns a snapshot of a guest whose initialisation has just used an amount of fuel.
func snapshotOf(g *guest, memory []byte, fuel int64) *snapshot {
	const minZeroRun = 64 // the number of consecutive zero bytes that end a segment. Copying fewer costs less than another segment
	s := &snapshot{size: len(memory), fuel: fuel}
	for _, global := range g.globals {
		s.globals = append(s.globals, global.Get())
	}
	zeros := make([]byte, minZeroRun)
	for offset := 0; offset < len(memory); {
		if memory[offset] == 0 {
			offset++
			continue
		}
		end := len(memory)
		if next := bytes.Index(memory[offset:], zeros); next >= 0 {
			end = offset + next
		}
		s.segments = append(s.segments, segment{offset, bytes.Clone(memory[offset:end])})
		offset = end
	}
	return s
}

// restore resets a guest to the snapshot, and reports whether it could: memory that has grown cannot shrink.
func (s *snapshot) restore(g *guest, memory []byte) bool {
	if len(memory) != s.size {
		return false
	}
	clear(memory)
	for _, part := range s.segments {
		copy(memory[part.offset:], part.bytes)
	}
	for i, global := range g.globals {
		global.Set(s.globals[i])
	}
	return true
}

// memory is the linear memory of a guest. Its run keeps it, zeroed: to allocate it is most of the cost of an instance.
type memory struct {
	// bytes is zero from its length to its capacity.
	bytes []byte
	// max is the maximum size for the instance, in bytes: limit, or less if the module has a maximum of its own.
	max uint64
	// limit is the maximum size for all instances, in bytes.
	limit uint64
	// exceeded is set if the guest has wanted more than limit in this call.
	exceeded bool
}

// Allocate returns m. wazero calls it once for an instance, since a module has at most one memory.
func (m *memory) Allocate(_, limit uint64) experimental.LinearMemory {
	m.max = min(limit, m.limit)
	return m
}

// Reallocate grows the memory to size bytes. It doubles the capacity, so that memory that grows by one page at a time
// is not copied each time. It returns nil, so that memory.grow fails, if that is more than the limit.
func (m *memory) Reallocate(size uint64) []byte {
	if size > m.limit {
		m.exceeded = true
		return nil
	}
	if have := uint64(cap(m.bytes)); size > have {
		grown := make([]byte, size, max(size, min(2*have, m.max)))
		if size <= maxIdle { // its instance may be reused, and is read as a whole before it is written: each page would fault twice
			clear(grown)
		}
		copy(grown, m.bytes)
		m.bytes = grown
	}
	m.bytes = m.bytes[:size]
	return m.bytes
}

// Free does nothing, because wazero also calls it during a call, when the guest exits.
func (m *memory) Free() {}

func (m *memory) zero() {
	clear(m.bytes)
	m.bytes = m.bytes[:0]
}

// A guest's WASI has the host's clock and random bytes, and a stderr that goes to the log. There are no arguments, environment, input or
// files, and the functions for these report that. A module that imports a function that opens a file or a socket is not admitted.

// wasiWrite is the function of WASI that writes to stderr.
const wasiWrite = "fd_write"

// lines is a writer for stderr, which calls write for each line. It drops the bytes of a line beyond maxLineBytes.
type lines struct {
	write func(line string)
	// proceed ends the call if its time is over. Each Write calls it, since one fd_write may have millions of parts.
	proceed func()
	partial []byte
}

// Write returns no error. It may end the call by a panic of proceed or write.
func (l *lines) Write(text []byte) (int, error) {
	n := len(text)
	l.proceed()
	for {
		line, rest, complete := bytes.Cut(text, []byte{'\n'})
		l.partial = append(l.partial, line[:min(len(line), maxLineBytes-len(l.partial))]...)
		if !complete {
			return n, nil
		}
		l.flush()
		text = rest
	}
}

func (l *lines) flush() {
	if len(l.partial) == 0 {
		return
	}
	line := strings.ToValidUTF8(string(l.partial), "\uFFFD")
	l.partial = l.partial[:0]
	l.write(line)
}
