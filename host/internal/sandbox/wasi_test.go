package sandbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/internal/contract"
)

const wasi = `
	(import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
	(import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
	(import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
	(import "wasi_snapshot_preview1" "fd_read" (func $fd_read (param i32 i32 i32 i32) (result i32)))
	(import "wasi_snapshot_preview1" "fd_prestat_get" (func $fd_prestat_get (param i32 i32) (result i32)))
	(import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes_get (param i32 i32) (result i32)))
	(import "wasi_snapshot_preview1" "environ_sizes_get" (func $environ_sizes_get (param i32 i32) (result i32)))
	(import "wasi_snapshot_preview1" "poll_oneoff" (func $poll_oneoff (param i32 i32 i32 i32) (result i32)))
	(import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))
	(memory (export "memory") 1)
	(func $write (param $fd i32) (param $from i32) (param $n i32)
		(i32.store (i32.const 1000) (local.get $from))
		(i32.store (i32.const 1004) (local.get $n))
		(drop (call $fd_write (local.get $fd) (i32.const 1000) (i32.const 1) (i32.const 1008))))`

// withWASI returns the text of a plugin whose only imports are those of WASI.
func withWASI(authenticate string, parts ...string) string {
	return "(module " + wasi + strings.Join(parts, "\n") + `
		(func (export "describe") (result i32) i32.const 0)
		(func (export "authenticate") (result i32) ` + authenticate + `))`
}

func TestWASIHasTheHostsClockAndRandomness(t *testing.T) {
	c := limits(nil)
	c.Clock = func() time.Time { return time.Unix(1234, 5_000) }
	c.Random = strings.NewReader("abcdefgh")
	for name, body := range map[string]string{
		"wall clock":      `(drop (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 8))) (i64.eq (i64.load (i32.const 8)) (i64.const 1234000005000))`,
		"monotonic clock": `(drop (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 8))) (i64.eq (i64.load (i32.const 8)) (i64.const 1234000005000))`,
		"random":          `(drop (call $random_get (i32.const 8) (i32.const 8))) (i64.eq (i64.load (i32.const 8)) (i64.const 0x6867666564636261))`,
	} {
		if got := authenticate(t, loadIn(t, newRuntime(t, c), withWASI(body)), &env{}); got.Code != 1 {
			t.Errorf("%s: the guest sees something else", name)
		}
	}
}

// A guest has no arguments, environment, input or files, which the runtimes of languages ask for (threats.md 7).
func TestWASIHasNothingElse(t *testing.T) {
	t.Setenv("KEYWRIGHT_CANARY", "x")
	got := authenticate(t, load(t, withWASI(`
		(drop (call $args_sizes_get (i32.const 0) (i32.const 4)))
		(drop (call $environ_sizes_get (i32.const 8) (i32.const 12)))
		(i32.store (i32.const 1000) (i32.const 100)) (i32.store (i32.const 1004) (i32.const 100))
		(drop (call $fd_read (i32.const 0) (i32.const 1000) (i32.const 1) (i32.const 16)))
		(if (i32.eqz (call $fd_prestat_get (i32.const 3) (i32.const 200))) (then (return (i32.const -1))))
		(i32.add (i32.load (i32.const 16)) (i32.add (i32.load (i32.const 0)) (i32.load (i32.const 8))))`)), &env{})
	if got.Code != 0 {
		t.Errorf("arguments, environment and bytes of stdin: %d", got.Code)
	}
}

func TestASleepingGuestGoesOnAtOnce(t *testing.T) {
	authenticate(t, load(t, withWASI(`
		(i64.store (i32.const 24) (i64.const 3600000000000000))
		(call $poll_oneoff (i32.const 0) (i32.const 100) (i32.const 1) (i32.const 200))`)), &env{})
}

func TestStderrGoesToTheLogInLines(t *testing.T) {
	data := `(data (i32.const 0) "one\ntwo\n\nth") (data (i32.const 20) "ree\n\ffend")`
	for name, c := range map[string]struct {
		body string
		want []string
	}{
		"lines":            {`(call $write (i32.const 2) (i32.const 0) (i32.const 9)) i32.const 0`, []string{`Log["2" "one"]`, `Log["2" "two"]`}},
		"stdout":           {`(call $write (i32.const 1) (i32.const 0) (i32.const 8)) i32.const 0`, nil},
		"a line in parts":  {`(call $write (i32.const 2) (i32.const 9) (i32.const 2)) (call $write (i32.const 2) (i32.const 20) (i32.const 4)) i32.const 0`, []string{`Log["2" "three"]`}},
		"no end, no UTF-8": {`(call $write (i32.const 2) (i32.const 24) (i32.const 4)) i32.const 0`, []string{`Log["2" "�end"]`}},
		"then a trap":      {`(call $write (i32.const 2) (i32.const 0) (i32.const 2)) unreachable`, []string{`Log["2" "on"]`}},
		"a flood":          {times("4000", `(call $write (i32.const 2) (i32.const 0) (i32.const 3))`), []string{`Log["2" "` + strings.Repeat("one", 2730) + `on"]`}},
	} {
		t.Run(name, func(t *testing.T) {
			e := &env{}
			_, _ = load(t, withWASI(c.body, data)).Call(context.Background(), contract.ExportAuthenticate, e)
			if diff := cmp.Diff(c.want, e.asked); diff != "" {
				t.Errorf("log (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStderrLogEndsCall(t *testing.T) {
	for name, length := range map[string]string{"a whole line": "2", "the rest of one": "1"} {
		m := load(t, withWASI(`(call $write (i32.const 2) (i32.const 0) (i32.const `+length+`)) i32.const 0`, `(data (i32.const 0) "x\n")`))
		e := &env{on: map[string]func(){"Log": func() { panic("too many lines") }}}
		if _, err := m.Call(context.Background(), contract.ExportAuthenticate, e); !errors.Is(err, sandbox.ErrEnded) {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

func TestExitError(t *testing.T) {
	for name, wat := range map[string]string{
		"0":              withWASI(`(call $proc_exit (i32.const 0)) i32.const 0`),
		"1":              withWASI(`(call $proc_exit (i32.const 1)) i32.const 0`),
		"wazero's own":   withWASI(`(call $proc_exit (i32.const -1)) i32.const 0`),
		"in _initialize": withWASI(`i32.const 0`, `(func (export "_initialize") (call $proc_exit (i32.const 0)))`),
		"in the start":   withWASI(`i32.const 0`, `(func $s (call $proc_exit (i32.const 0))) (start $s)`),
	} {
		if _, err := load(t, wat).Call(context.Background(), contract.ExportAuthenticate, &env{}); !errors.Is(err, sandbox.ErrExit) {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

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
