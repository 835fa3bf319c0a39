// Package statedb has what the stores of state in SQL databases share: their interface and their errors. Packages postgres
// and sqlite open them.
package statedb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keywright/keywright/host/state"
)

// Database is a store of state in a database. Any number of processes may open the same one.
type Database interface {
	state.Store
	Records
	// Sweep deletes up to limit rows that have had no value, and nobody who leased them, for an hour, and as many records that have
	// expired. It returns the larger number. The store calls it now and then by itself.
	Sweep(ctx context.Context, limit int) (int, error)
	// Close ends all waiting and closes the database after the running calls have ended.
	Close() error
}

// Observe is called after each operation on a row of a [Database]: read, acquire, write, release, delete or seal, with its error, and after a
// wait, with the time that it took.
type Observe func(ctx context.Context, operation string, took time.Duration, err error)

// The kinds of errors of a [Database]. An error wraps one of them, unless the caller's context was cancelled.
var (
	// ErrUnreachable means that the database cannot be reached, or does not answer in time. A change may have been made or not.
	ErrUnreachable = errors.New("the database cannot be reached")
	// ErrRefused says that the database answers, and refuses: a login, a missing right, a database that is read-only.
	ErrRefused = errors.New("the database refuses")
	// ErrSchema says that the tables of the database are not those of this version.
	ErrSchema = errors.New("the database has another schema")
)

// Error is the error of a call. Its text has neither the address of the database nor anything that was stored, so it does
// not repeat what the database or its driver said.
type Error struct {
	// Op is the operation that failed, such as "read a row".
	Op string
	// Kind is one of the errors above, or the error of the context.
	Kind error
	// Detail says more, in fixed words. It may be "".
	Detail string
	// Timeout reports whether the time of the context was over.
	Timeout bool
}

// Error returns the text of the error.
func (e *Error) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("state: %s: %v", e.Op, e.Kind)
	}
	return fmt.Sprintf("state: %s: %v: %s", e.Op, e.Kind, e.Detail)
}

// Unwrap returns the kind of the error, and context.DeadlineExceeded after a timeout.
func (e *Error) Unwrap() []error {
	if e.Timeout {
		return []error{e.Kind, context.DeadlineExceeded}
	}
	return []error{e.Kind}
}
