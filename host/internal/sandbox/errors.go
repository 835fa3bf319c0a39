package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/tetratelabs/wazero/sys"
)

// Kind says in which way a call of a guest ended without a result. A Kind is an error itself, so that
// errors.Is(err, sandbox.ErrLimit) tells the kinds apart.
type Kind string

// The kinds of Error.
const (
	ErrTrap  Kind = "the guest trapped"              // unreachable, out of bounds, stack overflow, …
	ErrLimit Kind = "the guest is over a limit"      // Detail says which one
	ErrTime  Kind = "the guest was stopped"          // its context ended; errors.Is finds why
	ErrExit  Kind = "the guest exited"               // proc_exit, whatever the code
	ErrUse   Kind = "the guest misused the host"     // a bad offset, text that is not UTF-8, a function out of place
	ErrEnded Kind = "a host function ended the call" // abi.Env panicked: whoever implements it knows why
	ErrBug   Kind = "a host function failed"         // a runtime error in Go code, which is a bug of the host
)

func (k Kind) Error() string { return string(k) }

// Error is the error of Call when a guest ran and had no result. It holds nothing of the guest's memory, no addresses
// and no names that the guest chose.
type Error struct {
	Kind   Kind
	Detail string // what exactly happened and, if someone can do something about it, what
	cause  error  // of ErrTime: context.DeadlineExceeded, or why the context ended
}

func (e *Error) Error() string {
	if e.Detail == "" {
		return e.Kind.Error()
	}
	return e.Kind.Error() + ": " + e.Detail
}

// Unwrap returns the kind, and for ErrTime why the context ended.
func (e *Error) Unwrap() []error {
	if e.cause == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.cause}
}

func stopped(cause error, where string) *Error {
	return &Error{Kind: ErrTime, Detail: where, cause: cause}
}

// RefusedError is why a module is not loaded: every reason there is, each with what to do about it.
type RefusedError struct {
	Reasons  []string
	Compiler bool // the compiler has failed, perhaps for its cache
}

func (e *RefusedError) Error() string {
	return "the module is refused: " + strings.Join(e.Reasons, "; ")
}

// explain turns what wazero gave for a run into an Error. wazero's own text has a stack trace with names that the
// guest chose, and is not passed on.
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
	case r.guest != nil && r.left() < 0:
		return r.outOfFuel()
	case errors.As(err, &exit):
		return &Error{Kind: ErrExit, Detail: "a plugin returns a code, and does not call proc_exit"}
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	detail := cut(err.Error())
	if detail == "unreachable" { // all that is left of a panic, in the error
		detail += ", as after a panic: its text is in the log where the compiler keeps it, as that of make tinygo does, and a native test shows it"
	}
	return &Error{Kind: ErrTrap, Detail: detail}
}

func (r *run) outOfFuel() *Error {
	return &Error{Kind: ErrLimit, Detail: fmt.Sprintf(
		"more than %d units of fuel in a call: make it do less, or raise the limit", r.module.runtime.limits.Fuel)}
}

// cut keeps the first line of a text, and of that what fits a log line.
func cut(text string) string {
	text, _, _ = strings.Cut(text, "\n")
	return cutTo(text, 200)
}

// cutTo shortens text to at most n bytes, at the border of a character.
func cutTo(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
