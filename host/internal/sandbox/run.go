package sandbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/kernel"
)

// run holds the state of a call of a guest. It serves one call after the other, and keeps nothing of one for the next.
//
// It is the very context that wazero is given, since a host function gets that back as it is, and asserting it is the
// cheapest way to the call.
type run struct {
	context.Context
	module *Module
	arena  *kernel.Arena
	memory *memory
	guest  *guest // nil until there is one
	stderr lines
	stack  [1]uint64

	state
}

// state is of one call.
type state struct {
	env    abi.Env
	began  time.Time
	vars   vars
	input  input
	result Result

	initialised bool          // before that, only memory functions, the log and WASI may be used
	asked       bool          // a host function was called
	pending     int64         // fuel, for what the host has copied
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

func newRun(m *Module) *run {
	limits := m.runtime.limits
	r := &run{module: m, memory: &memory{}, arena: kernel.New(limits.BlockBytes, limits.Blocks)}
	r.stderr.write = func(line string) { r.log(abi.LevelInfo, line) }
	r.stderr.proceed = func() {
		r.asked = true
		r.proceed(wasiWrite)
	}
	return r
}

// Value hides the values of the caller's context: wazero would look for some of its own on each call.
func (r *run) Value(any) any { return nil }

func (r *run) begin(ctx context.Context, env abi.Env) {
	r.Context = ctx
	r.state = state{env: env, began: time.Now()}
}

// took is how long the call has taken so far, without its wait for slots and token endpoints.
func (r *run) took() time.Duration { return time.Since(r.began) - r.waited }

// keptFuel is the most fuel that a call may use for its guest to be kept. The stack of one that used more may be large, and
// wazero keeps the stack with the instance; beside such a call, making a new instance takes little.
const keptFuel = 500_000

// maxIdle is how many bytes of memory a guest may have that is kept: some are kept of each module.
const maxIdle = 2 << 20

// release ends a call. A guest that ended well is put back to what it was and kept for the next one. One that ended in any
// other way is in a state that nobody knows, and never used again.
func (r *run) release(well bool) {
	m := r.module
	if observe := m.runtime.observe; observe != nil {
		observe(r.memory.bytes, r.arena.Used())
	}
	r.arena.Reset()
	r.stderr.begun = r.stderr.begun[:0]
	r.Context, r.state = context.Background(), state{}
	if well && m.pristine != nil && m.pristine.restore(r.guest, r.memory.bytes) {
		m.mu.Lock()
		kept := len(m.idle) < m.runtime.idle
		if kept {
			m.idle = append(m.idle, r)
		}
		m.mu.Unlock()
		if kept {
			return
		}
	}
	if r.guest != nil {
		r.guest.close()
		r.guest = nil
	}
	r.memory.zero()
	if m.pristine != nil && cap(r.memory.bytes) > maxIdle { // the next guest that has it may be kept
		r.memory.bytes = nil
	}
	m.runs.Put(r)
}

// call runs the export, and hands over what is left of stderr unless a host function ended the call.
func (r *run) call(export string) error {
	err := r.execute(export)
	if r.failure == nil && !r.inEnv {
		r.stderr.flush()
	}
	return err
}

func (r *run) execute(export string) error {
	if r.guest != nil { // as it was after its initialisation, which each call pays for
		r.guest.fuel.Set(uint64(r.module.runtime.limits.Fuel - r.module.pristine.fuel))
		r.initialised = true
	} else if err := r.initialise(); err != nil {
		return err
	}
	r.stack[0] = 0
	if err := r.guest.exports[export].CallWithStack(r, r.stack[:]); err != nil {
		return r.explain(err)
	}
	r.chargePending()
	r.result.Code = int32(uint32(r.stack[0]))
	return nil
}

// initialise makes a guest, and runs what comes before any call.
func (r *run) initialise() error {
	g, err := r.module.newGuest(r.Context, r.memory, &r.stderr)
	if err != nil {
		return r.explain(err)
	}
	r.guest = g
	for _, name := range r.module.first {
		// Not kept: a function keeps its stack, which has grown to what it needed.
		if err := g.instance.ExportedFunction(name).CallWithStack(r, nil); err != nil {
			return r.explain(err)
		}
	}
	r.initialised = true
	return nil
}

// left returns the rest of the fuel: below zero when the guest has been stopped for want of it.
func (r *run) left() int64 { return int64(r.guest.fuel.Get()) - r.pending }

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
		r.abort(stopped(context.Cause(r.Context), "its time was over when it called "+function))
	}
}

// put makes a block of what goes to the guest, and gives its offset.
func put[Text []byte | string](r *run, text Text) uint64 {
	r.spend(len(text))
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
		r.fail(ErrLimit, "more than %d bytes of memory blocks in a call", limits.BlockBytes)
	case errors.Is(err, kernel.ErrBlocks):
		r.fail(ErrLimit, "more than %d memory blocks in a call", limits.Blocks)
	default:
		r.fail(ErrUse, "%v", err)
	}
}
