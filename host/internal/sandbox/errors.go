package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/tetratelabs/wazero/sys"

	"github.com/keywright/keywright/internal/admission"
)

// Kind is the way in which a call of a guest ended without a result. It is an error itself, so that
// errors.Is(err, sandbox.ErrLimit) reports whether err is of that kind.
type Kind string

// The kinds of Error.
const (
	// ErrTrap is a WebAssembly trap: unreachable, out of bounds, stack overflow and others.
	ErrTrap Kind = "the guest trapped"
	// ErrLimit is a limit that the guest exceeded. Error.Detail names it.
	ErrLimit Kind = "the guest is over a limit"
	// ErrTime is a call whose context has ended, or that took or waited longer than Limits.CallTime. errors.Is finds
	// the cause.
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

// Error is the error of a call that ended without a result. It contains nothing of the guest's memory, no addresses,
// and no names that the guest chose.
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

// RefusedError is the error of Load for a module that is not loaded.
type RefusedError struct {
	// Reasons has everything that is wrong, with what to do about it.
	Reasons []string
	// Compiler is set if the compiler failed, perhaps because of its cache.
	Compiler bool
}

func (e *RefusedError) Error() string {
	return "the module is refused: " + strings.Join(e.Reasons, "; ")
}

// explain returns an *Error for an error of wazero. Of wazero's text, it uses only that of the innermost error, because
// the rest is a stack trace with names that the guest chose.
func (r *run) explain(err error) error {
	var exit *sys.ExitError
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
	case errors.As(err, &exit):
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
