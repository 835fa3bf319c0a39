package sandbox_test

import (
	"context"
	"errors"
	"testing"

	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/internal/contract"
)

// One fd_write can have as many parts as fit into a guest's memory, and all of them may be the same megabytes. So the
// call's time is checked before each part (threats.md 1). In this test it is over after the first part has been logged.
func TestFdWriteWithManyPartsStopsAtTheDeadline(t *testing.T) {
	const parts = "2000"
	m := load(t, withWASI(`
		(local $i i32)
		(loop $next
			(i32.store (i32.add (i32.const 2000) (i32.mul (local.get $i) (i32.const 8))) (i32.const 0))
			(i32.store (i32.add (i32.const 2004) (i32.mul (local.get $i) (i32.const 8))) (i32.const 2))
			(local.set $i (i32.add (local.get $i) (i32.const 1)))
			(br_if $next (i32.lt_u (local.get $i) (i32.const `+parts+`))))
		(drop (call $fd_write (i32.const 2) (i32.const 2000) (i32.const `+parts+`) (i32.const 1000)))
		i32.const 0`, `(data (i32.const 0) "x\n")`))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	e := &env{on: map[string]func(){"Log": cancel}}
	_, err := m.Call(ctx, contract.ExportAuthenticate, e)
	if !errors.Is(err, sandbox.ErrTime) || !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v, want that the guest was stopped", err)
	}
	if len(e.asked) != 1 {
		t.Errorf("%d of %s lines were logged, want none after the first", len(e.asked), parts)
	}
}
