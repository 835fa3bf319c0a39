package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/internal/contract"
)

// remembering is a part of a guest. $remember changes all state that it can reach. It returns 0, or the number of the
// first place that does not have its initial value.
const remembering = `
	(data (i32.const 3000) "begin")
	(data (i32.const 65530) "end")
	(global $i32 (mut i32) (i32.const 11)) (global $i64 (mut i64) (i64.const 12))
	(global $f32 (mut f32) (f32.const 1.5)) (global $f64 (mut f64) (f64.const 2.5))
	(global $exported (export "mine") (mut i32) (i32.const 13))
	(func $remember (result i32)
		(local $o i64)
		(if (i32.ne (global.get $i32) (i32.const 11)) (then (return (i32.const 1))))
		(global.set $i32 (i32.const 0))
		(if (i64.ne (global.get $i64) (i64.const 12)) (then (return (i32.const 2))))
		(global.set $i64 (i64.const 0))
		(if (f32.ne (global.get $f32) (f32.const 1.5)) (then (return (i32.const 3))))
		(global.set $f32 (f32.const nan))
		(if (f64.ne (global.get $f64) (f64.const 2.5)) (then (return (i32.const 4))))
		(global.set $f64 (f64.const nan))
		(if (i32.ne (global.get $exported) (i32.const 13)) (then (return (i32.const 5))))
		(global.set $exported (i32.const 0))
		(if (i32.ne (i32.load (i32.const 3000)) (i32.const 0x69676562)) (then (return (i32.const 6))))
		(i32.store (i32.const 3000) (i32.const 0))
		(if (i32.ne (i32.load8_u (i32.const 65532)) (i32.const 0x64)) (then (return (i32.const 7))))
		(i32.store8 (i32.const 65532) (i32.const 0))
		(if (i64.ne (i64.load (i32.const 50000)) (i64.const 0)) (then (return (i32.const 8))))
		(i64.store (i32.const 50000) (i64.const -1))
		(if (i32.ne (memory.size) (i32.const 1)) (then (return (i32.const 9))))
		(local.set $o (call $alloc (i64.const 64)))
		(if (i64.ne (local.get $o) (i64.const 16)) (then (return (i32.const 10))))
		(if (i64.ne (call $load_u64 (local.get $o)) (i64.const 0)) (then (return (i32.const 11))))
		(call $store_u64 (local.get $o) (i64.const 0x5555555555555555))
		(call $output_set (local.get $o) (i64.const 1))
		(if (i64.ne (call $var_get (local.get $o)) (i64.const 0)) (then (return (i32.const 12))))
		(call $var_set (local.get $o) (local.get $o))
		(i32.const 0))`

// Memory, globals, blocks and variables are reset before the next call, whether or not the instance is reused
// (threats.md 5).
func TestAGuestRemembersNothing(t *testing.T) {
	const table = `(table $t 2 funcref) (elem declare func $nothing) (func $nothing)`
	for name, c := range map[string]struct{ body, more, fresh string }{
		"put back": {`(call $remember)`, "", ""},
		"grown": {`(call $remember) (drop (memory.grow (i32.const 1)))
			(if (i32.load (i32.const 70000)) (then (return (i32.const 20))))
			(i32.store (i32.const 70000) (i32.const 1))`, "", ""},
		"table": {
			`(if (i32.eqz (ref.is_null (table.get $t (i32.const 1)))) (then (return (i32.const 20))))
			(table.set $t (i32.const 1) (ref.func $nothing)) (call $remember)`, table, "table.set",
		},
		"initialised": {`(call $remember)`, `(func (export "_initialize")
			(global.set $i32 (i32.add (global.get $i32) (i32.const 11))) (global.set $i32 (i32.sub (global.get $i32) (i32.const 11))))`, ""},
		"started":                   {`(call $remember)`, `(func $start (i32.store (i32.const 40000) (i32.const 1))) (start $start)`, ""},
		"initialisation that logs":  {`(call $remember)`, `(func (export "_initialize") (call $log_info (i64.const 0)))`, "calls the host"},
		"initialisation that fails": {`(call $remember)`, `(func (export "_initialize") unreachable)`, "fails"},
		"initialisation that allocates": {
			`(i32.const 0)`, `(func (export "_initialize") (drop (call $alloc (i64.const 8))))`, "calls the host",
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := load(t, plugin(c.body, remembering, c.more))
			if got := m.NotPooled(); (c.fresh == "") != (got == "") || !strings.Contains(got, c.fresh) {
				t.Errorf("each call has an instance of its own because %q, want %q", got, c.fresh)
			}
			if name == "initialisation that fails" {
				if _, err := m.Call(context.Background(), contract.ExportAuthenticate, &env{}); err == nil {
					t.Error("a call goes on although the initialisation failed")
				}
				return
			}
			var all sync.WaitGroup
			var fuel sync.Map
			for range 4 {
				all.Go(func() {
					for range 50 {
						got := authenticate(t, m, &env{})
						if got.Code != 0 {
							t.Errorf("a call finds what another one left, place %d", got.Code)
							return
						}
						fuel.Store(got.Fuel, true)
					}
				})
			}
			all.Wait()
			different := 0
			fuel.Range(func(any, any) bool { different++; return true })
			if different != 1 {
				t.Errorf("the same call used %d different amounts of fuel", different)
			}
		})
	}
}

// A module whose initialisation reads random bytes or the clock is initialised for each call. One whose calls alone read them is not.
// (threats.md 5)
func TestRandomInitialisation(t *testing.T) {
	const draw = `(func $draw (drop (call $random_get (i32.const 100) (i32.const 1))))`
	for name, c := range map[string]struct {
		call, initialise string
		pooled           bool
	}{
		"random bytes in initialize": {``, draw + `(func (export "_initialize") (call $draw))`, false},
		"random bytes at the start":  {``, draw + `(start $draw)`, false},
		"random bytes through a table": {
			``, draw + `(table 2 funcref) (elem (i32.const 0) $draw) (func (export "_initialize") (call_indirect (i32.const 0)))`, false,
		},
		"the clock at the start": {
			`(call $draw)`, draw + `(func $s (drop (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 200)))) (start $s)`, false,
		},
		"the monotonic clock, and then a trap if it stands still": {
			`(call $draw)`, draw + `(func $s (drop (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 200)))
				(if (i64.eqz (i64.load (i32.const 200))) (then (unreachable)))) (start $s)`, false,
		},
		"random bytes in a call": {`(call $draw)`, draw + `(func (export "_initialize"))`, true},
		"random bytes in what is not reached at the start": {
			`(call $draw)`, draw + `(func (export "_initialize") (if (i32.const 0) (then (call $draw))))`, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := load(t, withWASI(c.call+`(i32.load8_u (i32.const 100))`, c.initialise))
			if got := m.NotPooled(); (got == "") != c.pooled || !c.pooled && !strings.Contains(got, "reads random bytes or the clock") {
				t.Errorf("the module's instances are not used again because %q", got)
			}
			seen := map[int32]bool{}
			for range 100 {
				seen[authenticate(t, m, &env{}).Code] = true
			}
			if len(seen) < 10 {
				t.Errorf("100 calls drew %d different bytes", len(seen))
			}
		})
	}
}

// keep fails the test if n modules keep more than this many bytes for each after their calls. wat returns the text of each module, which
// no other has.
func keep(t *testing.T, r bounded, n, bytes int, wat func(i int) string, call func(*sandbox.Module)) {
	t.Helper()
	before := heap()
	modules := make([]*sandbox.Module, n)
	for i := range modules {
		modules[i] = loadIn(t, r, wat(i))
		call(modules[i])
	}
	if grown := int64(heap()) - int64(before); grown > int64(n*bytes) {
		t.Errorf("%d modules keep %d bytes", n, grown)
	}
	runtime.KeepAlive(modules)
}

// The memory of a large stack or of large blocks does not stay in use after the call or the initialisation.
func TestLargeInstancesDropped(t *testing.T) {
	const down = `(func $down (param i32) (result i32)
		(if (i32.eqz (local.get 0)) (then (return (i32.const 0))))
		(i32.add (i32.const 1) (call $down (i32.sub (local.get 0) (i32.const 1)))))`
	for name, wat := range map[string]string{
		"stack of a call":            plugin(`(drop (call $down (i32.const 100000))) i32.const 0`, down),
		"stack of an initialisation": plugin(`i32.const 0`, down, `(func (export "_initialize") (drop (call $down (i32.const 100000))))`),
		"blocks":                     plugin(`(drop (call $alloc (i64.const 4100000))) i32.const 0 (; 100000 ;)`),
	} {
		t.Run(name, func(t *testing.T) {
			keep(t, newRuntime(t, limits(nil)), 8, 1<<20, func(i int) string {
				return strings.Replace(wat, "100000", fmt.Sprint(100_000+i), 1)
			}, func(m *sandbox.Module) { authenticate(t, m, &env{}) })
		})
	}
}

// A host call costs fuel for every byte that the host copies, so that a flood of host calls ends soon (threats.md 1, 3).
func TestAFloodOfHostCallsEnds(t *testing.T) {
	for name, call := range map[string]string{
		"block_read": `(drop (call $block_read (local.get $long) (i32.const 0) (i32.const 65536)))`,
		"config_get": `(drop (call $config_get (local.get $long)))`,
		"var_get":    `(drop (call $var_get (local.get $long)))`,
		"var_set":    `(call $var_set (local.get $short) (local.get $long))`,
		"log_info":   `(call $log_info (local.get $long))`,
		"output_set": `(call $output_set (local.get $long) (i64.const 60000))`,
		"error_set":  `(call $error_set (local.get $middle))`,
	} {
		t.Run(name, func(t *testing.T) {
			m := load(t, plugin(`(local $long i64) (local $middle i64) (local $short i64)
				(local.set $long (call $alloc (i64.const 900000)))
				(local.set $middle (call $alloc (i64.const 60000)))
				(local.set $short (call $alloc (i64.const 8)))
				(loop $again `+call+` (br $again)) i32.const 0`))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := m.Call(context.Background(), contract.ExportAuthenticate, &env{})
			runtime.ReadMemStats(&after)
			if !errors.Is(err, sandbox.ErrLimit) || !strings.Contains(err.Error(), "fuel") {
				t.Errorf("the call ended with %v", err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 256<<20 { // tens of gigabytes if copying were free
				t.Errorf("the host allocated %d bytes for it", used)
			}
		})
	}
}

// An instance with a long initialisation is kept, because it saves the most. An instance with much memory is not kept.
func TestKeptInstances(t *testing.T) {
	initialise := func(code string) string {
		return plugin(`i32.const 0`, `(func (export "_initialize") (local $i i32) `+code+`)`)
	}
	for name, c := range map[string]struct {
		wat  string
		kept bool
	}{
		"long initialisation": {initialise(`(loop $again (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 100000))))`), true},
		"2 MiB of memory":     {initialise(`(drop (memory.grow (i32.const 31)))`), true},
		"more":                {initialise(`(drop (memory.grow (i32.const 32)))`), false},
	} {
		t.Run(name, func(t *testing.T) {
			m := load(t, c.wat)
			if got := m.NotPooled() == ""; got != c.kept {
				t.Errorf("kept: %t, want %t: %q", got, c.kept, m.NotPooled())
			}
			authenticate(t, m, &env{})
			few := testing.AllocsPerRun(20, func() { authenticate(t, m, &env{}) }) < 20
			if few != c.kept {
				t.Errorf("its instances are used again: %t, want %t", few, c.kept)
			}
		})
	}
}

// frames returns the text of a guest with large stack frames that does little work. The code that needs the large frame
// is in a loop that is not entered.
func frames(values, depth, n int, leaf string) string {
	var b strings.Builder
	b.WriteString(`(func $down (param i32) (result i64)
		(if (i32.eq (local.get 0) (i32.const 123456789)) (then (loop (i32.const 0) `)
	for i := range values {
		fmt.Fprintf(&b, "(i64.load offset=%d (i32.const 0))", 8*i)
	}
	b.WriteString(`(drop (call $down (i32.const 0)))` + strings.Repeat(" i64.xor", values-1) + ` i64.store)))
		(if (i32.eqz (local.get 0)) (then ` + leaf + ` (return (i64.const 0))))
		(call $down (i32.sub (local.get 0) (i32.const 1))))`)
	return plugin(fmt.Sprintf(`(drop (call $down (i32.const %d))) i32.const 0 (; %d ;)`, depth, n), b.String())
}

// A guest pays fuel for the size of its stack, whether or not the code that needs it is reached (threats.md 3, 4).
func TestLargeFrameCost(t *testing.T) {
	r := newRuntime(t, limits(nil))
	m := loadIn(t, r, frames(4000, 1500, 0, `(drop (call $secret_get (i64.const 0)))`))
	e := &env{}
	if _, err := m.Call(context.Background(), contract.ExportAuthenticate, e); !errors.Is(err, sandbox.ErrLimit) || len(e.asked) > 0 {
		t.Errorf("a stack of 1,500 frames with 4,000 values each: %v", err)
	}
	// The stack is as deep as it may be for the instance to be kept.
	keep(t, r, 4, 8<<20, func(i int) string { return frames(4000, 55, i, "") }, func(m *sandbox.Module) {
		if got := authenticate(t, m, &env{}); got.Fuel < 400_000 {
			t.Errorf("it used %d units", got.Fuel)
		}
	})
}

// Memory that grew during a call does not stay with an instance that is kept.
func TestGrownMemoryDropped(t *testing.T) {
	keep(t, newRuntime(t, limits(nil)), 8, 4<<20, func(i int) string {
		return plugin(fmt.Sprintf(
			`(if (i64.ne (call $input_length) (i64.const 0)) (then (drop (memory.grow (i32.const 255))))) i32.const 0 (; %d ;)`, i))
	}, func(m *sandbox.Module) {
		for _, input := range []string{"", "grow", ""} {
			authenticate(t, m, &env{input: input})
		}
	})
}
