package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/internal/contract"
)

// A guest may use exactly as much as a limit says, and not a byte, a call or a unit more.
func TestExactLimits(t *testing.T) {
	variable := func(bytes int) string {
		return fmt.Sprintf(`(call $var_set (call $a) (call $alloc (i64.const %d)))`, bytes)
	}
	const most = 1<<20 - 64 - len("aa") // the maximum length of a variable $a
	for name, c := range map[string]struct {
		body  string
		error string // part of the error; "" if there is none
	}{
		"host calls":                    {times("1000", `(drop (call $time_now))`), ""},
		"an output":                     {`(call $give (call $alloc (i64.const 65536))) i32.const 0`, ""},
		"a message":                     {`(call $error_set (call $alloc (i64.const 65536))) i32.const 0`, ""},
		"variables":                     {variable(most) + ` i32.const 0`, ""},
		"more variables":                {variable(most+1) + ` i32.const 0`, "more than 1048576 bytes of variables"},
		"a variable that is replaced":   {variable(most) + variable(most) + ` i32.const 0`, ""},
		"one that is replaced by more":  {variable(most) + variable(most+1) + ` i32.const 0`, "more than 1048576 bytes of variables"},
		"one that is removed and again": {variable(most) + `(call $var_set (call $a) (i64.const 0))` + variable(most) + ` i32.const 0`, ""},
		"the last byte of the input":    {`(drop (call $input_load_u8 (i64.const 9))) i32.const 0`, ""},
		"the byte behind it":            {`(drop (call $input_load_u8 (i64.const 10))) i32.const 0`, "position 10 is outside an input of 10 bytes"},
		"its last eight bytes":          {`(drop (call $input_load_u64 (i64.const 2))) i32.const 0`, ""},
		"one more":                      {`(drop (call $input_load_u64 (i64.const 3))) i32.const 0`, "position 3 is outside an input of 10 bytes"},
		"before a position without end": {`(drop (call $input_load_u8 (i64.const -1))) i32.const 0`, "position 18446744073709551615 is outside"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, plugin(c.body, abcd)).Call(context.Background(), contract.ExportAuthenticate, &env{input: "0123456789"})
			if c.error == "" && err != nil || c.error != "" && (err == nil || !strings.Contains(err.Error(), c.error)) {
				t.Errorf("error %v, want one with %q", err, c.error)
			}
		})
	}
}

// A call may use exactly its fuel, including that of its initialisation, whether or not the instance served another
// call before.
func TestExactFuel(t *testing.T) {
	wat := plugin(times("1000", `(drop (call $length (i64.const 0)))`),
		`(func (export "_initialize") (local $i i32) (loop $again (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 10000)))))`)
	needed := authenticate(t, load(t, wat), &env{}).Fuel
	for less := range int64(2) {
		m := loadIn(t, newRuntime(t, limits(func(l *sandbox.Limits) { l.Fuel = needed - less })), wat)
		for range 3 {
			if _, err := m.Call(context.Background(), contract.ExportAuthenticate, &env{}); errors.Is(err, sandbox.ErrLimit) != (less > 0) {
				t.Errorf("with %d of %d units of fuel: %v", needed-less, needed, err)
			}
		}
	}
}

// A call may take exactly CallTime. Its waits for tokens do not count.
func TestExactTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := load(t, plugin(times("31", `(if (i32.eqz (local.get $i)) (then (drop (call $token_request (i64.const 0))))) (drop (call $time_now))`)))
		for _, more := range []time.Duration{0, 1} {
			first := true
			got, err := m.Call(t.Context(), contract.ExportAuthenticate, &env{on: map[string]func(){
				"TokenRequest": func() { <-time.After(time.Hour) },
				"TimeNow": func() {
					if first {
						<-time.After(15*time.Second + more)
					}
					first = false
				},
			}})
			if errors.Is(err, sandbox.ErrTime) != (more > 0) {
				t.Errorf("after 15 s and %v: %v", more, err)
			}
			if got.Time != 15*time.Second+more {
				t.Errorf("the call took %v", got.Time)
			}
		}
	})
}

// A log line is cut to 8 KiB, at the end of a character.
func TestLogLineCuts(t *testing.T) {
	for _, c := range []struct {
		text string // follows 8,190 bytes
		want string
	}{
		{"ab", "ab"}, {"abc", "ab"}, {"é", "é"}, {"aé", "a"}, {"a😀", "a"},
	} {
		n := 8190 + len(c.text)
		m := load(t, plugin(fmt.Sprintf(`(memory.fill (i32.const 0) (i32.const 0x78) (i32.const 8190))
			(call $log_info (call $block_new (i32.const 0) (i32.const %d))) i32.const 0`, n), fmt.Sprintf(`(data (i32.const 8190) %q)`, c.text)))
		e := &env{}
		authenticate(t, m, e)
		if want := fmt.Sprintf("Log%q", []any{"2", strings.Repeat("x", 8190) + c.want}); len(e.asked) != 1 || e.asked[0] != want {
			t.Errorf("with %q at the end, the log has %d bytes, want %d", c.text, len(e.asked[0]), len(want))
		}
	}
}

// The error of a trap names the trap. For unreachable, it says where to find a panic's text. It does not quote the
// details of the guest that are in wazero's error.
func TestTrapText(t *testing.T) {
	for body, want := range map[string]string{
		`(i32.div_u (i32.const 1) (i32.const 0))`: "the guest trapped: integer divide by zero",
		`unreachable`: "the guest trapped: unreachable, as after a panic: its text is in the log where the compiler keeps it, " +
			"as that of make tinygo does, and a native test shows it",
	} {
		if _, err := load(t, plugin(body)).Call(context.Background(), contract.ExportAuthenticate, &env{}); err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

// An unfinished line of stderr is not logged if the host ends the call.
func TestLineEndedByHost(t *testing.T) {
	m := load(t, `(module (import "extism:host/env" "load_u8" (func $load_u8 (param i64) (result i32)))`+wasi+`
		(data (i32.const 0) "half")
		(func (export "describe") (result i32) i32.const 0)
		(func (export "authenticate") (result i32) (call $write (i32.const 2) (i32.const 0) (i32.const 4)) (call $load_u8 (i64.const 4096))))`)
	e := &env{}
	if _, err := m.Call(context.Background(), contract.ExportAuthenticate, e); !errors.Is(err, sandbox.ErrUse) || len(e.asked) > 0 {
		t.Errorf("after %v the host was asked %q", err, e.asked)
	}
}

// The last byte of a memory is reset like any other, if its initial value is not zero.
func TestLastByteReset(t *testing.T) {
	m := load(t, plugin(`(local $was i32) (local.set $was (i32.load8_u (i32.const 65535))) (i32.store8 (i32.const 65535) (i32.const 7)) (local.get $was)`,
		`(data (i32.const 65535) "\05")`))
	for range 3 {
		if got := authenticate(t, m, &env{}); got.Code != 5 {
			t.Errorf("the guest finds %d", got.Code)
		}
	}
}

// With one processor, one instance is kept and reused.
func TestKeptInstance(t *testing.T) {
	old := runtime.GOMAXPROCS(1)
	r := newRuntime(t, limits(nil))
	runtime.GOMAXPROCS(old)
	m := loadIn(t, r, plugin(`i32.const 0`))
	authenticate(t, m, &env{})
	if n := testing.AllocsPerRun(20, func() { authenticate(t, m, &env{}) }); n > 20 {
		t.Errorf("a call makes %v allocations", n)
	}
}

// The limit of a guest's memory may be the 4 GiB that WebAssembly can address.
func TestMostMemory(t *testing.T) {
	newRuntime(t, limits(func(l *sandbox.Limits) { l.MemoryBytes = 4 << 30 }))
}
