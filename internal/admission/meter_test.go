package admission

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/keywright/keywright/internal/testworld"
)

// A function that would never end traps soon, and the fuel is below zero then. threats.md 1, 3, 4
func TestEndlessCode(t *testing.T) {
	const forever = `(loop $again %s (br $again))`
	for name, c := range map[string]struct{ parts, body string }{
		"an empty loop":       {"", `(loop $again (br $again))`},
		"a loop in a loop":    {"", `(loop $out (loop $in (br_if $in (i32.const 1))) (br $out))`},
		"a loop that returns": {`(func $f (loop $l (br_if $l (i32.const 0))))`, `(loop $again (call $f) (br $again))`},
		"a loop by br_table":  {"", `(loop $a (block $b (br_table $a $b $a (i32.const 0))))`},
		"recursion":           {`(func $f (call $f))`, `(call $f)`},
		"recursion by two":    {`(func $f (call $g)) (func $g (call $f))`, `(call $f)`},
		"recursion through a table": {
			`(table 1 funcref) (elem (i32.const 0) $f) (func $f (call_indirect (i32.const 0)))`, `(call $f)`,
		},
		"recursion that keeps a lot": {
			`(func $f (param i64) (result i64) (i64.add (call $f (i64.add (local.get 0) (i64.const 1))) (local.get 0)))`,
			`(drop (call $f (i64.const 1)))`,
		},
		"recursion with twenty results": {
			`(func $f (result` + strings.Repeat(" i64", 20) + `) (call $f))`, `(call $f)` + strings.Repeat(" drop", 20),
		},
		"recursion with two hundred parameters": {
			`(func $f (param` + strings.Repeat(" i64", 200) + `) ` + parameters(200) + `(call $f))`,
			strings.Repeat("(i64.const 1) ", 200) + `(call $f)`,
		},
		"references": { // wazero makes each one in Go
			`(elem declare func $f) (func $f)`,
			strings.ReplaceAll(forever, "%s", strings.Repeat(`(drop (ref.func $f))`, 100)),
		},
		"memory.fill": {"", strings.ReplaceAll(forever, "%s", `(memory.fill (i32.const 0) (i32.const 1) (i32.const 0x1000000))`)},
		"memory.copy": {"", strings.ReplaceAll(forever, "%s", `(memory.copy (i32.const 0) (i32.const 1) (i32.const 0xffffff))`)},
		"memory.init": {
			`(data $d "` + strings.Repeat("x", 60000) + `")`,
			strings.ReplaceAll(forever, "%s", `(memory.init $d (i32.const 0) (i32.const 0) (i32.const 60000))`),
		},
		"memory.grow by nothing":  {"", strings.ReplaceAll(forever, "%s", `(drop (memory.grow (i32.const 0)))`)},
		"memory.grow by too much": {"", strings.ReplaceAll(forever, "%s", `(drop (memory.grow (i32.const -1)))`)},
		"table.fill": {
			`(table $t 10000 funcref)`,
			strings.ReplaceAll(forever, "%s", `(table.fill $t (i32.const 0) (ref.null func) (i32.const 10000))`),
		},
		"table.copy": {
			`(table $t 10000 funcref)`,
			strings.ReplaceAll(forever, "%s", `(table.copy $t $t (i32.const 0) (i32.const 1) (i32.const 9999))`),
		},
		"table.grow": {
			`(table $t 0 10000 funcref)`,
			strings.ReplaceAll(forever, "%s", `(drop (table.grow $t (ref.null func) (i32.const 1)))`),
		},
		"calls of the host": {"", strings.ReplaceAll(forever, "%s", `(drop (call $log_level))`)},
		"calls of the host through a table": {
			`(table 1 funcref) (elem (i32.const 0) $log_level)`,
			strings.ReplaceAll(forever, "%s", `(drop (call_indirect (result i32) (i32.const 0)))`),
		},
		"random bytes": {"", strings.ReplaceAll(forever, "%s", `(drop (call $random_get (i32.const 0) (i32.const 0x1000000)))`)},
		"random bytes through a table": {
			`(table 1 funcref) (elem (i32.const 0) $random_get)`,
			strings.ReplaceAll(forever, "%s", `(drop (call_indirect (param i32 i32) (result i32) (i32.const 0) (i32.const 0x1000000) (i32.const 0)))`),
		},
		"a lot for stderr": {
			`(data (i32.const 0) "\00\00\00\00\00\00\00\01\00\00\00\00\00\00\00\01")`,
			`(drop (call $fd_write (i32.const 2) (i32.const 0) (i32.const 2) (i32.const 100)))`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			admitted := m.admit(t, running(256, c.parts, c.body))
			instance := m.start(t, admitted.Wasm)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := instance.ExportedFunction("run").Call(m.ctx)
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), "unreachable") || left(instance) >= 0 {
				t.Errorf("error %v, %d units left", err, left(instance))
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
				t.Errorf("it took %d bytes of memory", used)
			}
			if m.stderr.Len() > 0 {
				t.Errorf("%d bytes came to stderr", m.stderr.Len())
			}
		})
	}
}

// running returns a module that imports host functions, and whose export run has this body.
func running(pages int, parts, body string) string {
	return fmt.Sprintf(`(module
		(import "extism:host/env" "get_log_level" (func $log_level (result i32)))
		(import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
		(import "wasi_snapshot_preview1" "fd_write" (func $fd_write (param i32 i32 i32 i32) (result i32)))
		(memory (export "memory") %d) %s (func (export "run") %s))`, pages, parts, body)
}

// parameters returns code that pushes the first n parameters.
func parameters(n int) string {
	out := strings.Builder{}
	for i := range n {
		fmt.Fprintf(&out, "(local.get %d) ", i)
	}
	return out.String()
}

// The start function and _initialize take from the fuel of their instance like all other functions. threats.md 1
func TestEndlessStartFunction(t *testing.T) {
	m := newMachine(t)
	for name, c := range map[string]struct{ wat, run string }{
		"a loop":         {`(module (func $s (loop $again (br $again))) (start $s))`, startExport},
		"recursion":      {`(module (func $s (call $s)) (start $s))`, startExport},
		"in _initialize": {`(module (func (export "_initialize") (loop $again (br $again))))`, Initialize},
		"calls of the host": {
			`(module (import "extism:host/env" "get_log_level" (func $l (result i32))) (func $s (loop $a (drop (call $l)) (br $a))) (start $s))`,
			startExport,
		},
	} {
		admitted := m.admit(t, c.wat)
		if c.run == startExport && admitted.Start != startExport {
			t.Errorf("%s: start is %q", name, admitted.Start)
		}
		instance, err := m.runtime.InstantiateWithConfig(m.ctx, admitted.Wasm, wazero.NewModuleConfig().WithName("").WithStartFunctions())
		if err != nil {
			t.Fatalf("%s: it ran already: %v", name, err)
		}
		if left(instance) != testLimits.Fuel {
			t.Errorf("%s: it begins with %d units", name, left(instance))
		}
		if _, err := instance.ExportedFunction(c.run).Call(m.ctx); err == nil || left(instance) >= 0 {
			t.Errorf("%s: error %v, %d units left", name, err, left(instance))
		}
		_ = instance.Close(m.ctx)
	}
}

// A run uses the sum of the documented weights of what it executes.
func TestExecutionCost(t *testing.T) {
	for name, c := range map[string]struct {
		parts, body string
		units       int64
	}{
		"nothing, but an end":               {"", ``, 1},
		"three instructions":                {"", `(drop (i32.add (i32.const 1) (i32.const 2)))`, 5},
		"both branches, whichever is taken": {"", `(if (i32.const 1) (then (nop)) (else (nop)))`, 7},
		// The entry pays for const, local.set, loop and end; a turn for its head (1), local.get, const, sub, tee, br_if, end.
		"ten turns": {`(global $n (mut i32) (i32.const 10))`, `(local $i i32) (local.set $i (i32.const 10))
			(loop $l (br_if $l (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))`, 4 + 10*7},
		// A loop whose counter is a parameter pays, too (threats.md 1). The entry pays for const, loop and end, and if the
		// loop has a result for drop. A turn pays for its head (1), const, sub, tee, local.get, br_if and end, and if the
		// loop has no result for drop.
		"ten turns with a parameter": {
			"", `(local $i i32) (i32.const 10) (loop $l (param i32) (i32.const 1) (i32.sub) (local.tee $i) (br_if $l (local.get $i)) (drop))`, 3 + 10*8,
		},
		"ten turns with a parameter and a result": {
			"", `(local $i i32) (i32.const 10) (loop $l (param i32) (result i32) (i32.const 1) (i32.sub) (local.tee $i) (br_if $l (local.get $i))) (drop)`, 4 + 10*7,
		},
		// A frame has room for 32 values without a further cost. The function has 20 locals, and then 20 values on its stack.
		"a large frame": {"", `(local` + strings.Repeat(" i64", 20) + `)` + strings.Repeat(" i32.const 0", 20) + strings.Repeat(" drop", 20), 41 + (40-32)*weightFrame},
		"a division":    {"", `(drop (i32.div_u (i32.const 1) (i32.const 2)))`, 1 + 1 + weightDivide + 1 + 1},
		"a call":        {`(func $f)`, `(call $f)`, weightCall + 1 + 1},
		"a call with parameters and results": {
			`(func $f (param i32 i32) (result i32) (i32.const 1))`, `(drop (call $f (i32.const 1) (i32.const 2)))`,
			2 + weightCall + 3*weightPassed + 1 + 1 + 2,
		},
		"a call through a table": {
			`(table 1 funcref) (elem (i32.const 0) $f) (func $f (result i32) (i32.const 1))`, `(drop (call_indirect (result i32) (i32.const 0)))`,
			1 + weightIndirect + weightPassed + 1 + 1 + 2,
		},
		"a reference":     {`(elem declare func $f) (func $f)`, `(drop (ref.func $f))`, weightHost + 1 + 1},
		"a host call":     {"", `(drop (call $log_level))`, weightHost + 1 + 1},
		"by length":       {"", `(memory.fill (i32.const 0) (i32.const 0) (i32.const 4096))`, 4 + weightBulk + 1024},
		"of no length":    {"", `(memory.fill (i32.const 0) (i32.const 0) (i32.const 3))`, 4 + weightBulk},
		"growing":         {"", `(drop (memory.grow (i32.const 2)))`, 3 + weightHost + 2*8192},
		"growing too far": {"", `(drop (memory.grow (i32.const 0x7fffffff)))`, 3 + weightHost + 256*8192},
		"random bytes":    {"", `(drop (call $random_get (i32.const 0) (i32.const 10)))`, 2 + weightCall + 3*weightPassed + 2 + weightHost + 80},
		"to stderr": {
			`(data (i32.const 0) "\20\00\00\00\03\00\00\00\20\00\00\00\02\00\00\00")`,
			`(drop (call $fd_write (i32.const 2) (i32.const 0) (i32.const 2) (i32.const 100)))`,
			4 + weightCall + 5*weightPassed + 2 + weightHost + 2*20 + 5*32,
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			admitted := m.admit(t, running(1, c.parts, c.body))
			instance := m.start(t, admitted.Wasm)
			for _, fuel := range []int64{1_000_000_000, c.units} { // the exact cost suffices
				refuel(instance, fuel)
				testworld.Must(instance.ExportedFunction("run").Call(m.ctx))(t)
				if used := fuel - left(instance); used != c.units {
					t.Errorf("it used %d units, want %d", used, c.units)
				}
				if strings.HasPrefix(name, "growing") {
					return // the memory has grown, so the next run would differ
				}
			}
			refuel(instance, c.units-1)
			if _, err := instance.ExportedFunction("run").Call(m.ctx); err == nil || left(instance) >= 0 {
				t.Errorf("with one unit less: error %v, %d left", err, left(instance))
			}
		})
	}
}

// memory.grow returns -1 beyond the module's own maximum. Without one, the maximum is all that WebAssembly can
// address: the sandbox enforces the limit.
func TestMemoryHasAMaximum(t *testing.T) {
	m := newMachine(t)
	for memory, want := range map[string]uint32{"1": 65536, "1 2": 2, "1 60000": 60000} {
		admitted := m.admit(t, `(module (memory `+memory+`) (func (export "run") (param i32) (result i32) (memory.grow (local.get 0))))`)
		if section := appendNumber([]byte{1, 1, 1}, want); !bytes.Contains(admitted.Wasm, section) { // one memory, from one page
			t.Errorf("memory %s: the module has no section with % x", memory, section)
		}
		instance := m.start(t, admitted.Wasm)
		refuel(instance, 1<<40)
		for grow, want := range map[uint64]uint32{uint64(want): 0xffff_ffff, 0xffff_ffff: 0xffff_ffff, 0: 1} {
			got, err := instance.ExportedFunction("run").Call(m.ctx, grow)
			if err != nil || uint32(got[0]) != want {
				t.Errorf("memory %s grown by %d: %d, %v", memory, grow, got, err)
			}
		}
	}
}

// A module with state that the host cannot reset is not pooled. threats.md 5
func TestResettableModules(t *testing.T) {
	for name, c := range map[string]struct{ wat, reason string }{
		"memory and numbers": {`(memory 1) (global (mut i32) (i32.const 0)) (global (mut f64) (f64.const 1)) (func (memory.fill (i32.const 0) (i32.const 0) (i32.const 1)))`, ""},
		"a table that stays": {`(table 2 funcref) (elem (i32.const 0) $f) (func $f (drop (table.get 0 (i32.const 0))) (drop (table.size 0)))`, ""},
		"table.set":          {`(table 2 funcref) (func (table.set 0 (i32.const 0) (ref.null func)))`, "function 0 uses table.set"},
		"table.grow":         {`(table 2 4 funcref) (func (drop (table.grow 0 (ref.null func) (i32.const 1))))`, "table.grow"},
		"table.fill":         {`(table 2 4 funcref) (func (table.fill 0 (i32.const 0) (ref.null func) (i32.const 1)))`, "table.fill"},
		"table.copy":         {`(table 2 4 funcref) (func (table.copy (i32.const 0) (i32.const 1) (i32.const 1)))`, "table.copy"},
		"table.init":         {`(table 2 4 funcref) (elem $e func 0) (func (table.init $e (i32.const 0) (i32.const 0) (i32.const 1)))`, "table.init"},
		"elem.drop":          {`(table 2 4 funcref) (elem $e func 0) (func (elem.drop $e))`, "elem.drop"},
		"data.drop":          {`(memory 1) (data $d "x") (func (data.drop $d))`, "data.drop"},
		"fd_close": {
			`(import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32))) (memory (export "memory") 1)
			(func (drop (call $close (i32.const 2))))`, "it imports fd_close, which cannot be undone",
		},
		"fd_write": {
			`(import "wasi_snapshot_preview1" "fd_write" (func (param i32 i32 i32 i32) (result i32))) (memory (export "memory") 1)`, "",
		},
		"memory.init":              {`(memory 1) (data $d "x") (func (memory.init $d (i32.const 0) (i32.const 0) (i32.const 1)))`, ""},
		"a reference that changes": {`(global (mut funcref) (ref.null func))`, "global 0 is mutable and no number"},
		"a reference that stays":   {`(global funcref (ref.null func))`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			admitted := newMachine(t).admit(t, `(module `+c.wat+`)`)
			if got := admitted.NotPooled; (got == "") != (c.reason == "") || !strings.Contains(got, c.reason) {
				t.Errorf("not pooled: %q, want %q", got, c.reason)
			}
		})
	}
}

// Every mutable global of a number type is exported, so that the host can reset it. threats.md 5
func TestExportedMutableNumbers(t *testing.T) {
	m := newMachine(t)
	admitted := m.admit(t, `(module (global i32 (i32.const 1)) (global (mut i32) (i32.const 2)) (global (mut i64) (i64.const 3))
		(global (mut f32) (f32.const 0)) (global (export "mine") (mut f64) (f64.const 0)))`)
	instance := m.start(t, admitted.Wasm)
	if len(admitted.Globals) != 4 {
		t.Fatalf("globals %v", admitted.Globals)
	}
	for i, kind := range []api.ValueType{api.ValueTypeI32, api.ValueTypeI64, api.ValueTypeF32, api.ValueTypeF64} {
		name := admitted.Globals[i]
		found := instance.ExportedGlobal(name)
		if found == nil || found.Type() != kind {
			t.Errorf("%s is %v", name, found)
		}
		if i == 0 && found.Get() != 2 {
			t.Errorf("%s is %d", name, found.Get())
		}
	}
}
