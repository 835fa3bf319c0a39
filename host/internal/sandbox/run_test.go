package sandbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/internal/contract"
)

// After a call that failed, in whatever way, the next call starts in the initial state (threats.md 6).
func TestBadInstanceDropped(t *testing.T) {
	for name, end := range map[string]string{
		"trap":             `unreachable`,
		"host function":    `(drop (call $time_now))`,
		"misuse":           `(drop (call $load_u8 (i64.const 0)))`,
		"endless":          `(drop (call $secret_get (i64.const 0))) (loop (br 0))`,
		"stack overflow":   `(drop (call $deep (i32.const 0)))`,
		"too many of them": `(loop (drop (call $alloc (i64.const 1))) (br 0))`,
	} {
		t.Run(name, func(t *testing.T) {
			m := load(t, plugin(`(local $code i32)
				(local.set $code (call $remember))
				(if (i64.ne (call $input_length) (i64.const 0)) (then `+end+`))
				(local.get $code)`, remembering, deep))
			ctx, cancel := context.WithCancel(context.Background())
			bad := &env{input: "end", on: map[string]func(){"TimeNow": func() { panic("over") }, "SecretGet": cancel}}
			if _, err := m.Call(ctx, contract.ExportAuthenticate, bad); err == nil {
				t.Fatal("the call ended well")
			}
			cancel()
			for range 3 {
				if got := authenticate(t, m, &env{}); got.Code != 0 {
					t.Fatalf("the next call finds what the bad one left, place %d", got.Code)
				}
			}
		})
	}
}

const deep = `(func $deep (param i32) (result i32)
	(i32.add (i32.const 1) (call $deep (i32.add (local.get 0) (i32.const 1)))))`

// An endless loop or recursion ends when the fuel is used up, wherever it is, and other calls still run (threats.md 1, 4).
func TestEndlessLoops(t *testing.T) {
	loop := `(drop (call $length (i64.const 0))) (loop (br 0))`
	for name, wat := range map[string]string{
		"export":        plugin(`(drop (call $config_get (i64.const 0))) ` + loop + ` i32.const 0`),
		"initialise":    plugin(`i32.const 0`, `(func (export "_initialize") (call $log_info (i64.const 0)) `+loop+`)`),
		"start section": plugin(`i32.const 0`, `(func $start (call $log_info (i64.const 0)) `+loop+`) (start $start)`),
		"recursion":     plugin(`(call $deep (i32.const 0))`, deep),
		"bulk memory":   plugin(`(loop (memory.fill (i32.const 0) (i32.const 0) (i32.const 65536)) (br 0)) i32.const 0`),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRuntime(t, limits(nil))
			endless, other := loadIn(t, r, wat), loadIn(t, r, plugin(`i32.const 7`))
			for range 3 {
				_, err := endless.Call(context.Background(), contract.ExportAuthenticate, &env{})
				if !errors.Is(err, sandbox.ErrLimit) || !strings.Contains(err.Error(), "more than 5000000 units of fuel") {
					t.Errorf("error %v", err)
				}
				if got := authenticate(t, other, &env{}); got.Code != 7 {
					t.Errorf("another call meanwhile gave %d", got.Code)
				}
			}
		})
	}
}

func TestTheSameCallUsesTheSameFuel(t *testing.T) {
	m := load(t, plugin(times("10", `(drop (call $length (i64.const 0)))`), `(func (export "_initialize") (loop (br_if 0 (i32.const 0))))`))
	first := authenticate(t, m, &env{}).Fuel
	if first < 10*170 {
		t.Errorf("ten calls of the host used %d units", first)
	}
	for range 3 {
		if got := authenticate(t, m, &env{}).Fuel; got != first {
			t.Errorf("first %d units, then %d", first, got)
		}
	}
}

// A guest that only calls host functions is stopped when its time is over (threats.md 1).
func TestHostFunctionTimeBound(t *testing.T) {
	m := loadIn(t, newRuntime(t, limits(func(l *sandbox.Limits) { l.CallTime = 1 })), plugin(`(loop (drop (call $time_now)) (br 0)) i32.const 0`))
	e := &env{}
	_, err := m.Call(context.Background(), contract.ExportAuthenticate, e)
	if !errors.Is(err, sandbox.ErrTime) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
	if len(e.asked) > 15 {
		t.Errorf("the host was asked %d times", len(e.asked))
	}
	for _, name := range []string{"jwt_sign", "jws_sign", "sign"} { // these take longest, so each checks the time first
		call := map[string]string{"jwt_sign": `(call $jwt_sign (i64.const 0))`, "jws_sign": `(call $jws_sign (i64.const 0))`, "sign": `(call $sign (i64.const 0) (i64.const 0))`}[name]
		m := loadIn(t, newRuntime(t, limits(func(l *sandbox.Limits) { l.CallTime = 1 })), plugin(`(drop `+call+`) i32.const 0`))
		e := &env{}
		if _, err := m.Call(context.Background(), contract.ExportAuthenticate, e); !errors.Is(err, sandbox.ErrTime) || len(e.asked) > 0 {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

// A call whose time is over does not begin, and uses no fuel, whatever the instance did before.
func TestUnstartedCallFuel(t *testing.T) {
	m := load(t, plugin(times("1000", `(drop (call $length (i64.const 0)))`)))
	authenticate(t, m, &env{})
	ctx, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	got, err := m.Call(ctx, contract.ExportAuthenticate, &env{})
	if !errors.Is(err, sandbox.ErrTime) || !errors.Is(err, context.DeadlineExceeded) || got.Fuel != 0 {
		t.Errorf("it used %d units: %v", got.Fuel, err)
	}
}

// The guest's memory does not grow beyond MemoryBytes (threats.md 3).
func TestMemoryGrowsNoFurtherThanItsLimit(t *testing.T) {
	r := newRuntime(t, limits(func(l *sandbox.Limits) { l.MemoryBytes = 5 << 16 }))
	m := loadIn(t, r, plugin(`
		(loop $again (br_if $again (i32.ne (memory.grow (i32.const 1)) (i32.const -1))))
		(i32.store (i32.const 327676) (i32.const 1))
		(memory.size)`))
	for range 3 {
		if got := authenticate(t, m, &env{}); got.Code != 5 {
			t.Errorf("a guest has %d pages, want 5", got.Code)
		}
	}
}

// During initialisation, a module reaches nothing but its own memory and the log (threats.md 13).
func TestFunctionsBeforeInitialisation(t *testing.T) {
	for name, c := range map[string]struct {
		body    string
		allowed bool
	}{
		"time_now":       {`(drop (call $time_now))`, false},
		"secret_get":     {`(drop (call $secret_get (i64.const 0)))`, false},
		"token_request":  {`(drop (call $token_request (i64.const 0)))`, false},
		"cache_get":      {`(drop (call $cache_get (i64.const 0)))`, false},
		"cache_set":      {`(call $cache_set (i64.const 0) (i64.const 0) (i64.const 0))`, false},
		"jwt_sign":       {`(drop (call $jwt_sign (i64.const 0)))`, false},
		"encode":         {`(drop (call $encode (i64.const 0) (i64.const 0)))`, false},
		"mac":            {`(drop (call $mac (i64.const 0) (i64.const 0) (i64.const 0)))`, false},
		"sign":           {`(drop (call $sign (i64.const 0) (i64.const 0)))`, false},
		"reveal":         {`(drop (call $reveal (i64.const 0)))`, false},
		"config_get":     {`(drop (call $config_get (i64.const 0)))`, false},
		"var_get":        {`(drop (call $var_get (i64.const 0)))`, false},
		"var_set":        {`(call $var_set (i64.const 0) (i64.const 0))`, false},
		"input_length":   {`(drop (call $input_length))`, false},
		"input_offset":   {`(drop (call $input_offset))`, false},
		"input_load_u8":  {`(drop (call $input_load_u8 (i64.const 0)))`, false},
		"input_load_u64": {`(drop (call $input_load_u64 (i64.const 0)))`, false},
		"output_set":     {`(call $output_set (i64.const 0) (i64.const 0))`, false},
		"error_set":      {`(call $error_set (i64.const 0))`, false},
		"memory":         {`(drop (call $load_u8 (call $alloc (i64.const 8))))`, true},
		"block_new":      {`(drop (call $block_new (i32.const 0) (i32.const 8)))`, true},
		"log":            {`(call $log_info (i64.const 0))`, true},
	} {
		for phase, wat := range map[string]string{
			"start section": plugin(`i32.const 0`, `(func $init `+c.body+`) (start $init)`),
			"_initialize":   plugin(`i32.const 0`, `(func (export "_initialize") `+c.body+`)`),
		} {
			t.Run(name+" in "+phase, func(t *testing.T) {
				e := &env{}
				_, err := load(t, wat).Call(context.Background(), contract.ExportAuthenticate, e)
				switch {
				case c.allowed && err != nil:
					t.Error(err)
				case !c.allowed && (!errors.Is(err, sandbox.ErrUse) || !strings.Contains(err.Error(), name)):
					t.Errorf("error %v", err)
				case !c.allowed && len(e.asked) > 0:
					t.Errorf("the host was asked %q", e.asked)
				}
			})
		}
	}
}

func TestInitialisationComesFirst(t *testing.T) {
	m := load(t, plugin(`(global.get $ready)`, `(global $ready (mut i32) (i32.const 0))
		(func $start (global.set $ready (i32.const 4))) (start $start)
		(func (export "_initialize") (global.set $ready (i32.mul (i32.const 10) (global.get $ready))))
		(func (export "_start") (global.set $ready (i32.const 9)))`))
	if got := authenticate(t, m, &env{}); got.Code != 40 {
		t.Errorf("code %d, want 40", got.Code)
	}
}

// A host call after the context has ended ends the call (threats.md 13).
func TestHostFunctionsAfterTheDeadline(t *testing.T) {
	m := load(t, plugin(`(drop (call $time_now)) (drop (call $secret_get (i64.const 0))) i32.const 0`))
	ctx, cancel := context.WithCancel(context.Background())
	e := &env{on: map[string]func(){"TimeNow": cancel}}
	if _, err := m.Call(ctx, contract.ExportAuthenticate, e); !errors.Is(err, sandbox.ErrTime) {
		t.Errorf("error %v", err)
	}
	if len(e.asked) != 1 {
		t.Errorf("asked %q", e.asked)
	}
}

func TestAHostFunctionEndsTheCall(t *testing.T) {
	const canary = "s3cr3t"
	var none []int
	for name, c := range map[string]struct {
		end  func()
		kind sandbox.Kind
	}{
		"error":         {func() { panic(errors.New(canary)) }, sandbox.ErrEnded},
		"text":          {func() { panic(canary) }, sandbox.ErrEnded},
		"runtime error": {func() { none[len(canary)]++ }, sandbox.ErrBug},
	} {
		t.Run(name, func(t *testing.T) {
			m := load(t, plugin(`(drop (call $secret_get (i64.const 0))) (call $log_info (i64.const 0)) i32.const 0`))
			e := &env{on: map[string]func(){"SecretGet": c.end}}
			_, err := m.Call(context.Background(), contract.ExportAuthenticate, e)
			if !errors.Is(err, c.kind) || strings.Contains(err.Error(), canary) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one of kind %q", err, c.kind)
			}
			if len(e.asked) != 1 {
				t.Errorf("the guest went on: %q", e.asked)
			}
		})
	}
}

func TestErrorsTellNothingOfTheGuest(t *testing.T) {
	for _, wat := range []string{
		plugin(`(call $s3cr3t)`, `(func $s3cr3t (result i32) unreachable)`),
		plugin(`i32.const 0`, `(func $s3cr3t unreachable) (start $s3cr3t)`),
		plugin(`i32.const 0`, `(func (export "_initialize") (drop (i32.load (i32.const 65536)))) (data (i32.const 65524) "s3cr3ts3cr3t")`),
	} {
		_, err := load(t, wat).Call(context.Background(), contract.ExportAuthenticate, &env{})
		if !errors.Is(err, sandbox.ErrTrap) || strings.Contains(err.Error(), "s3cr3t") || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %q", err)
		}
	}
}
