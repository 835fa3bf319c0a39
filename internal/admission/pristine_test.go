package admission

import (
	"strings"
	"testing"
)

// A module with state that the host cannot reset is not pooled. threats.md 5
func TestResettableModules(t *testing.T) {
	const random = `(import "wasi_snapshot_preview1" "random_get" (func $random (param i32 i32) (result i32)))
		(memory (export "memory") 1)
		(func $draw (drop (call $random (i32.const 0) (i32.const 8))))`
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
		"memory.init":                {`(memory 1) (data $d "x") (func (memory.init $d (i32.const 0) (i32.const 0) (i32.const 1)))`, ""},
		"a reference that changes":   {`(global (mut funcref) (ref.null func))`, "global 0 is mutable and no number"},
		"a reference that stays":     {`(global funcref (ref.null func))`, ""},
		"random bytes in a call":     {random + `(func (export "run") (call $draw))`, ""},
		"random bytes at the start":  {random + `(func $s (call $draw)) (start $s)`, "its initialisation may call random_get"},
		"random bytes in initialize": {random + `(func (export "_initialize") (call $draw))`, "may call random_get"},
		"random bytes through a table": {
			random + `(table 2 funcref) (elem (i32.const 0) $draw) (func (export "_initialize") (call_indirect (i32.const 0)))`,
			"may call random_get",
		},
		"a table, but not at the start": {
			random + `(table 2 funcref) (elem (i32.const 0) $draw) (func (export "_initialize")) (func (call_indirect (i32.const 0)))`, "",
		},
		"the clock at the start": {
			`(import "wasi_snapshot_preview1" "clock_time_get" (func $clock (param i32 i64 i32) (result i32)))
			(memory (export "memory") 1) (func $s (drop (call $clock (i32.const 0) (i64.const 0) (i32.const 0)))) (start $s)`,
			"may call clock_time_get",
		},
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
	for i, g := range admitted.Globals {
		found := instance.ExportedGlobal(g.Export)
		if found == nil || found.Type() != g.Type {
			t.Errorf("%s is %v", g.Export, found)
		}
		if i == 0 && found.Get() != 2 {
			t.Errorf("%s is %d", g.Export, found.Get())
		}
	}
}
