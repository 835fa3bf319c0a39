package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/keywright/keywright/host/internal/admission"
	"github.com/keywright/keywright/host/internal/kernel"
	"github.com/keywright/keywright/internal/abi"
)

// run is one call of one guest. It is the very context that wazero is given, since a host function gets that back as
// it is, and asserting it is the cheapest way to the call.
type run struct {
	context.Context
	module *Module
	env    abi.Env

	arena  *kernel.Arena
	memory *memory
	fuel   api.Global // of the instance, once there is one
	vars   vars
	input  input
	stderr lines
	result Result

	initialised bool          // before that, only memory functions, the log and WASI may be used
	hostCalls   int           // into abi.ModuleUser, so far
	waiting     bool          // holds no slot at the moment
	waited      time.Duration // without a slot, so far
	inEnv       bool          // a method of env is running, or has panicked
	failure     *Error        // why a host function ended the call
}

// input is asked of env once, when the guest first wants it, and is a block like any other.
type input struct {
	asked          bool
	offset, length uint64
}

func (m *Module) start(ctx context.Context, env abi.Env) *run {
	r := &run{module: m, env: env}
	r.memory, _ = m.memories.Get().(*memory)
	if r.memory == nil {
		r.memory = &memory{}
	}
	r.arena, _ = m.runtime.arenas.Get().(*kernel.Arena)
	if r.arena == nil {
		r.arena = kernel.New(m.runtime.limits.ArenaBytes, m.runtime.limits.Blocks)
	}
	r.stderr.write = func(line string) { r.log(abi.LevelInfo, line) }
	r.stderr.proceed = func() { r.proceed(wasiWrite) }
	r.Context = experimental.WithMemoryAllocator(ctx, r.memory)
	return r
}

// end gives back what the run had. Nothing of the instance may run any more.
func (r *run) end() {
	if observe := r.module.runtime.observe; observe != nil {
		observe(r.memory.bytes, r.arena.Used())
	}
	r.memory.zero()
	r.module.memories.Put(r.memory)
	r.arena.Reset()
	r.module.runtime.arenas.Put(r.arena)
	if !r.waiting {
		r.module.runtime.slots.release()
	}
}

// call runs the export, and hands over what is left of stderr unless a host function ended the call.
func (r *run) call(export string) error {
	err := r.execute(export)
	if r.failure == nil && !r.inEnv {
		r.stderr.flush()
	}
	return err
}

// execute makes an instance, initialises it, runs the export, and closes the instance whatever happens: one that ended
// in any way but well is in a state that nobody knows.
func (r *run) execute(export string) error {
	m := r.module
	if r.Err() != nil {
		return stopped(r, "its time was over before it began")
	}
	config := m.runtime.config
	if m.stderr {
		config = config.WithStderr(&r.stderr)
	}
	instance, err := m.runtime.wazero.InstantiateModule(r, m.compiled, config)
	if err != nil {
		return r.explain(err)
	}
	defer func() { _ = instance.Close(r) }() // its error is about files, of which there are none
	r.fuel = instance.ExportedGlobal(admission.FuelExport)
	err = r.enter(instance, export)
	r.result.Fuel = m.runtime.limits.Fuel - r.left()
	return err
}

// left is what is left of the fuel: below zero when the guest has been stopped for want of it.
func (r *run) left() int64 { return int64(r.fuel.Get()) }

func (r *run) enter(instance api.Module, export string) error {
	for _, name := range r.module.first {
		if err := instance.ExportedFunction(name).CallWithStack(r, nil); err != nil {
			return r.explain(err)
		}
	}
	r.initialised = true
	var stack [1]uint64
	if err := instance.ExportedFunction(export).CallWithStack(r, stack[:]); err != nil {
		return r.explain(err)
	}
	r.result.Code = int32(uint32(stack[0]))
	return nil
}

// protect catches what comes from outside of wazero's own net, such as an Env that ends the call over the last line
// of stderr.
func (r *run) protect(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			cause, ok := p.(error)
			if !ok {
				cause = fmt.Errorf("%T", p) // the value may hold anything
			}
			err = r.explain(cause)
		}
	}()
	return f()
}

// fail ends the call from within a host function.
func (r *run) fail(kind Kind, format string, args ...any) {
	r.abort(&Error{Kind: kind, Detail: fmt.Sprintf(format, args...)})
}

func (r *run) abort(why *Error) {
	r.failure = why
	panic(why)
}

// ask has a method of env run. When that panics, inEnv stays set, and tells that it was env that ended the call.
func (r *run) ask(method func()) {
	r.inEnv = true
	method()
	r.inEnv = false
}

func (r *run) log(level abi.Level, text string) {
	r.ask(func() { r.env.Log(level, text) })
}

// proceed ends the call when it may not use a function that reaches beyond its own memory.
func (r *run) proceed(function string) {
	if !r.initialised {
		r.fail(ErrUse, "%s while the module initialises: only memory functions and the log may be used then", function)
	}
	if r.Err() != nil {
		r.abort(stopped(r, "its time was over when it called "+function))
	}
}

// put makes a block of what goes to the guest, and gives its offset.
func put[Text []byte | string](r *run, text Text) uint64 {
	offset, err := kernel.Put(r.arena, text)
	r.check(err)
	return offset
}

// check ends the call when an allocation failed.
func (r *run) check(err error) {
	limits := r.module.runtime.limits
	switch {
	case err == nil:
	case errors.Is(err, kernel.ErrFull):
		r.fail(ErrLimit, "more than %d bytes of memory blocks in a call", limits.ArenaBytes)
	case errors.Is(err, kernel.ErrBlocks):
		r.fail(ErrLimit, "more than %d memory blocks in a call", limits.Blocks)
	default:
		r.fail(ErrUse, "%v", err)
	}
}
