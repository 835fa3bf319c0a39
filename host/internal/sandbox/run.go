package sandbox

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/tetratelabs/wazero/sys"

	"github.com/keywright/keywright/internal/admission"
	"github.com/keywright/keywright/internal/contract"
)

// run is the state of one call of a guest. It is reused for further calls, and keeps nothing of one for the next.
//
// It is also the context that wazero gets. wazero passes that on to host functions unchanged, and a type assertion is the
// cheapest way from there to the call.
type run struct {
	context.Context
	module *Module
	arena  *arena
	memory *memory
	// guest is nil until the module has been instantiated.
	guest  *guest
	stderr lines
	stack  [1]uint64

	state
}

// state is the part of a run that is cleared after each call.
type state struct {
	env    contract.Env
	began  time.Time
	vars   vars
	input  input
	result Result

	// initialised is set after initialisation. Before, the guest may use only memory functions, the log and WASI.
	initialised bool
	// function is the name of the host function that the guest calls.
	function string
	// hostUsed is set once the guest has called a function of the kernel, copied a block, or written to stderr.
	hostUsed bool
	// pending is the fuel for bytes that the host has copied and not charged yet.
	pending int64
	// hostCalls counts the calls of Keywright's host functions.
	hostCalls int
	// waiting is set while the guest holds no slot.
	waiting bool
	// waited is the time that the guest has spent without a slot.
	waited time.Duration
	// inEnv is set while a method of env runs. It stays set if the method panics.
	inEnv bool
	// failure is set if a host function of this package has ended the call.
	failure *Error
}

// input is the location of the guest's input, which is a block like any other.
type input struct {
	// loaded is set once env has been asked for the input.
	loaded         bool
	offset, length uint64
}

func newRun(m *Module) *run {
	limits := m.limits
	r := &run{module: m, memory: &memory{limit: uint64(limits.MemoryBytes)}, arena: newArena(limits.BlockBytes, limits.Blocks)}
	r.stderr.write = func(line string) { r.log(contract.LevelInfo, line) }
	r.stderr.proceed = func() {
		r.function, r.hostUsed = wasiWrite, true
		r.proceed()
	}
	return r
}

// Value returns nil. wazero would otherwise search the caller's context for values of its own on each call.
func (r *run) Value(any) any { return nil }

func (r *run) begin(ctx context.Context, env contract.Env) {
	r.Context = ctx
	r.state = state{env: env, began: time.Now()}
}

// elapsed returns the time that the call has taken so far, without its waits for slots and token endpoints.
func (r *run) elapsed() time.Duration { return time.Since(r.began) - r.waited }

// keptFuel is the fuel of a call, without that of the initialisation, from which on its instance is not reused. The stack
// of such a guest may be large, and wazero keeps it with the instance. Compared to such a call, a new instance is cheap.
const keptFuel = 500_000

// maxIdle is the maximum memory of an idle instance, in bytes. Every module may have several of them.
const maxIdle = 2 << 20

// release ends a call, and closes the guest, unless it can be reset and kept for the next call. keep must not be set for a guest that
// failed, because its state is unknown.
func (r *run) release(keep bool) {
	m := r.module
	if observe := m.runtime.observe; observe != nil {
		observe(r.memory.bytes, r.arena.used())
	}
	r.arena.reset()
	r.memory.exceeded = false
	r.stderr.partial = r.stderr.partial[:0]
	r.Context, r.state = context.Background(), state{}
	if keep && m.pristine != nil && m.pristine.restore(r.guest, r.memory.bytes) {
		m.mu.Lock()
		hasRoom := len(m.idle) < m.runtime.idle
		if hasRoom {
			m.idle = append(m.idle, r)
		}
		m.mu.Unlock()
		if hasRoom {
			return
		}
	}
	if r.guest != nil {
		r.guest.close()
		r.guest = nil
	}
	r.memory.zero()
	if m.pristine != nil && cap(r.memory.bytes) > maxIdle { // it would stay with the next guest, which may be kept
		r.memory.bytes = nil
	}
	m.runs.Put(r)
}

// call runs the export, and flushes stderr unless a host function ended the call.
func (r *run) call(export string) error {
	err := r.execute(export)
	if r.failure == nil && !r.inEnv {
		r.stderr.flush()
	}
	return err
}

func (r *run) execute(export string) error {
	if r.guest != nil { // it is initialised, and each call pays for that
		r.guest.fuel.Set(uint64(r.module.limits.Fuel - r.module.pristine.fuel))
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

// initialise instantiates the guest, and runs the functions that have to run before any other.
func (r *run) initialise() error {
	g, err := r.module.newGuest(r.Context, r.memory, &r.stderr)
	if err != nil {
		return r.explain(err)
	}
	r.guest = g
	for _, name := range r.module.first {
		// The api.Function is not kept: it would keep its stack, at the size that it has grown to.
		if err := g.instance.ExportedFunction(name).CallWithStack(r, nil); err != nil {
			return r.explain(err)
		}
	}
	r.initialised = true
	return nil
}

// fuelLeft returns the remaining fuel. It is negative if the guest was stopped because it ran out of fuel.
func (r *run) fuelLeft() int64 { return int64(r.guest.fuel.Get()) - r.pending }

// protect calls f and turns a panic into an error. wazero recovers panics while a guest runs; this is for all others,
// such as that of an Env that ends the call at the last line of stderr.
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

// fail ends the call. It must be called within a host function.
func (r *run) fail(kind Kind, format string, args ...any) {
	r.abort(&Error{Kind: kind, Detail: fmt.Sprintf(format, args...)})
}

func (r *run) abort(why *Error) {
	r.failure = why
	panic(why)
}

func (r *run) log(level contract.Level, text string) {
	r.callEnv(busy, func() { r.env.Log(level, text) })
}

// proceed ends the call if the guest may not reach beyond its own memory: while it initialises, and after the call's time.
func (r *run) proceed() {
	if !r.initialised {
		r.fail(ErrUse, "%s while the module initialises: only memory functions and the log may be used then", r.function)
	}
	if r.Err() != nil {
		r.abort(stopped(context.Cause(r.Context), "its time was over when it called "+r.function))
	}
}

// Kind is the way in which a call of a guest ended without a result. It is an error itself, so that
// errors.Is(err, sandbox.ErrLimit) reports whether err is of that kind.
type Kind string

// The kinds of Error.
const (
	// ErrTrap is a WebAssembly trap: unreachable, out of bounds, stack overflow and others.
	ErrTrap Kind = "the guest trapped"
	// ErrLimit is a limit that the guest exceeded. Error.Detail names it.
	ErrLimit Kind = "the guest is over a limit"
	// ErrTime is a call whose context has ended, or that took or waited longer than Limits.CallTime. It wraps the cause.
	ErrTime Kind = "the guest was stopped"
	// ErrExit is a call of proc_exit, with any code.
	ErrExit Kind = "the guest exited"
	// ErrUse is a bad offset, text that is not UTF-8, or a function that may not be called at that point.
	ErrUse Kind = "the guest misused the host"
	// ErrEnded is a panic of the contract.Env. The Env knows the reason.
	ErrEnded Kind = "a host function ended the call"
	// ErrBug is a runtime error in Go code, which is a bug of the host.
	ErrBug Kind = "a host function failed"
)

func (k Kind) Error() string { return string(k) }

// Error is the error of a call without a result. It has no address, nothing of the guest's memory, and no name of its choice.
type Error struct {
	Kind Kind
	// Detail says what happened, and what can be done about it if anything can.
	Detail string
	// Limit names the limit if the guest was over one that a plugin may have of its own: [LimitFuel], [LimitMemory] or [LimitTime].
	Limit string
	// cause is set for ErrTime: context.DeadlineExceeded, or the cause of the context's end.
	cause error
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return e.Kind.Error()
	}
	return e.Kind.Error() + ": " + e.Detail
}

// Unwrap returns the kind and, for ErrTime, the cause.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.cause}
}

// Names of limits, for Error.Limit. LimitMemory also stands for the limits of memory blocks.
const (
	LimitFuel   = "fuel"
	LimitMemory = "memory"
	LimitTime   = "time"
)

func stopped(cause error, where string) *Error {
	return &Error{Kind: ErrTime, Detail: where, cause: cause}
}

// ErrCompiler is the error of Load if the compiler failed, perhaps because of its cache.
var ErrCompiler = errors.New("the module is refused: it cannot be compiled")

// explain returns an *Error for an error of wazero. Of wazero's text, it uses only that of the innermost error, because
// the rest is a stack trace with names that the guest chose.
func (r *run) explain(err error) error {
	var bug runtime.Error
	switch {
	case r.failure != nil:
		return r.failure
	case errors.As(err, &bug):
		return &Error{Kind: ErrBug, Detail: cut(bug.Error())}
	case r.inEnv:
		return &Error{Kind: ErrEnded}
	case r.guest != nil && r.fuelLeft() < 0:
		return r.outOfFuel()
	case errors.As(err, new(*sys.ExitError)):
		return &Error{Kind: ErrExit, Detail: "a plugin returns a code, and does not call proc_exit"}
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	if r.memory.exceeded {
		return &Error{Kind: ErrLimit, Limit: LimitMemory, Detail: fmt.Sprintf(
			"it wanted more than %d bytes of memory and then trapped: make it use less, or raise the limit", r.memory.limit)}
	}
	detail := cut(err.Error())
	if detail == "unreachable" { // a panic of the guest leaves no more than that in the error
		detail += ", as after a panic: its text is in the log where the compiler keeps it, as that of make tinygo does, and a native test shows it"
	}
	return &Error{Kind: ErrTrap, Detail: detail}
}

func (r *run) outOfFuel() *Error {
	return &Error{Kind: ErrLimit, Limit: LimitFuel, Detail: fmt.Sprintf(
		"more than %d units of fuel in a call: make it do less, or raise the limit", r.module.limits.Fuel)}
}

// cut returns the first line of text, shortened to 200 bytes.
func cut(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return admission.Cut(text, 200)
}
