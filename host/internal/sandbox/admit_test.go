package sandbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/internal/admission"
	"github.com/keywright/keywright/internal/contract"
)

// A module that breaks the contract is refused, with every reason (threats.md 7).
func TestRefusedModules(t *testing.T) {
	for name, c := range map[string]struct {
		wat     string
		reasons []string // a part of each reason, in order
	}{
		"files and sockets of WASI, each listed": {
			bare(
				`(import "wasi_snapshot_preview1" "path_open" (func (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))`,
				`(import "wasi_snapshot_preview1" "sock_accept" (func (param i32 i32 i32) (result i32)))`,
				`(memory (export "memory") 1)`,
			),
			[]string{`"path_open": a plugin has no files`, `"sock_accept": a plugin has no files and no sockets`},
		},
		"HTTP of its own": {
			bare(`(import "extism:host/env" "http_request" (func (param i64 i64) (result i64)))`),
			[]string{"token_request"},
		},
		"unknown function": {
			bare(`(import "extism:host/user" "secret_set" (func))`),
			[]string{`"extism:host/user" "secret_set": there is no such function`},
		},
		"unknown module": {bare(`(import "os" "exec" (func))`), []string{`"os" "exec": only extism:host/env`}},
		"AssemblyScript's abort": {
			bare(`(import "env" "abort" (func (param i32 i32 i32 i32)))`),
			[]string{"--use abort="},
		},
		"wrong types": {
			bare(
				`(import "extism:host/env" "alloc" (func (param i32) (result i32)))`,
				`(import "wasi_snapshot_preview1" "proc_exit" (func (param i64)))`,
				`(memory (export "memory") 1)`,
			),
			[]string{"as (i32) → i32, but it is (i64) → i64", "as (i64) → (), but it is (i32) → ()"},
		},
		"imported memory": {
			bare(`(import "env" "memory" (memory 1))`),
			[]string{`imports the memory "env" "memory"`},
		},
		"imported table": {
			bare(`(import "env" "table" (table 1 2 funcref))`),
			[]string{`imports the table "env" "table"`},
		},
		"imported global": {
			bare(`(import "extism:host/env" "alloc" (func (param i64) (result i64)))`, `(import "env" "global" (global i32))`),
			[]string{`imports the global "env" "global"`},
		},
		"no exports": {`(module)`, []string{`no function "describe"`, `no function "authenticate"`}},
		"an export that is no function": {
			`(module (memory (export "describe") 1) (func (export "authenticate") (result i32) i32.const 0))`,
			[]string{`no function "describe"`},
		},
		"exports of wrong types": {
			`(module (func (export "describe")) (func (export "authenticate") (param i32) (result i32) i32.const 0)
				(func (export "validate") (result i64) i64.const 0) (func (export "_initialize") (result i32) i32.const 0))`,
			[]string{
				`"describe" is () → (), but has to be () → i32`, `"validate" is () → i64`,
				`"authenticate" is (i32) → i32`, `"_initialize" is () → i32, but has to be () → ()`,
			},
		},
		"a reserved name, whatever it is a name of": {
			bare(`(global (export "kw:fuel") (mut i64) (i64.const 0))`),
			[]string{`"kw:fuel" has a name that begins with "kw:"`},
		},
		"WASI without memory": {
			bare(`(import "wasi_snapshot_preview1" "random_get" (func (param i32 i32) (result i32)))`),
			[]string{"has to export its memory"},
		},
		"more memory than allowed": {bare(`(memory 257)`), []string{"over the limit of 256 pages"}},
		"a huge table":             {bare(`(table 10001 funcref)`), []string{"10001 elements, and 10000 are allowed"}},
		"a function with a lot of locals": {
			bare(`(func (local ` + strings.Repeat("i32 ", 5001) + `))`),
			[]string{"more than 5000 locals"},
		},
		"vector instructions": {
			bare(`(func (drop (v128.const i32x4 0 0 0 0)))`),
			[]string{"vector instructions (SIMD)"},
		},
		"shared memory": {bare(`(memory 1 1 shared)`), []string{"shared memory"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRuntime(t, limits(nil))
			_, err := r.Load(context.Background(), assemble(t, c.wat))
			var refused *admission.RefusedError
			if !errors.As(err, &refused) {
				t.Fatalf("not refused: %v", err)
			}
			if len(refused.Reasons) != len(c.reasons) {
				t.Fatalf("%d reasons, want %d: %v", len(refused.Reasons), len(c.reasons), err)
			}
			for i, want := range c.reasons {
				if !strings.Contains(refused.Reasons[i].String(), want) {
					t.Errorf("reason %q, want one with %q", refused.Reasons[i], want)
				}
			}
		})
	}
}

func TestOtherBytes(t *testing.T) {
	r := newRuntime(t, limits(func(l *sandbox.Limits) { l.ModuleBytes = 100 }))
	for name, c := range map[string]struct{ wasm, want string }{
		"nothing":   {"", "no WebAssembly module"},
		"text":      {"(module)", "no WebAssembly module"},
		"cut short": {"\x00asm\x01\x00\x00\x00\x02\x7f", "in the middle"},
		"too large": {strings.Repeat("x", 101), "101 bytes, and 100 are allowed"},
	} {
		var refused *admission.RefusedError
		if _, err := r.Load(context.Background(), []byte(c.wasm)); !errors.As(err, &refused) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

func TestAModuleKnowsItsExports(t *testing.T) {
	wat := bare(`(func (export "validate") (result i32) i32.const 3)`, `(func (export "other"))`)
	m := load(t, wat)
	for export, want := range map[string]bool{"describe": true, "authenticate": true, "validate": true, "other": false, "none": false} {
		if m.Has(export) != want {
			t.Errorf("Has(%q) = %t", export, !want)
		}
	}
	if result, err := m.Call(context.Background(), contract.ExportValidate, &env{}); err != nil || result.Code != 3 {
		t.Errorf("validate gave %d, %v", result.Code, err)
	}
	if _, err := m.Call(context.Background(), "other", &env{}); err == nil {
		t.Error("an export beyond the contract can be called")
	}
}

// bombs has modules of a few bytes that declare billions of something.
var bombs = map[string]string{
	"parameters":     header + "\x01\x08\x01\x60" + billions + "\x00",
	"types":          header + "\x01\x05" + billions,
	"imports":        header + "\x02\x05" + billions,
	"functions":      header + "\x03\x05" + billions,
	"globals":        header + "\x06\x05" + billions,
	"exports":        header + "\x07\x05" + billions,
	"elements":       header + "\x09\x05" + billions,
	"indices":        header + "\x09\x0a\x01\x00\x41\x00\x0b" + billions,
	"expressions":    header + "\x09\x0a\x01\x04\x41\x00\x0b" + billions,
	"bodies":         header + "\x0a\x05" + billions,
	"bytes of code":  header + "\x0a\x06\x01" + billions,
	"locals":         header + "\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x0a\x0a\x01\x08\x01" + billions + "\x7f\x0b",
	"data":           header + "\x0b\x05" + billions,
	"bytes of data":  header + "\x0b\x07\x01\x01" + billions,
	"a section":      header + "\x01" + billions,
	"custom section": header + "\x00" + billions,
}

const (
	header   = "\x00asm\x01\x00\x00\x00"
	billions = "\xff\xff\xff\xff\x0f"
)

// Each bomb is refused before it is compiled, because compiling some of them would end the process (threats.md 2). The
// tests of package admission have modules that would take long to compile.
func TestBombs(t *testing.T) {
	r := newRuntime(t, limits(nil))
	for name, wasm := range bombs {
		var refused *admission.RefusedError
		if _, err := r.Load(context.Background(), []byte(wasm)); !errors.As(err, &refused) {
			t.Errorf("billions of %s: error %v", name, err)
		}
	}
}

// A custom section, such as the names for debuggers, is not read. A module whose name section declares billions of
// names is loaded.
func TestCustomSections(t *testing.T) {
	wasm := assemble(t, bare())
	wasm = append(wasm[:len(wasm):len(wasm)], "\x00\x0c\x04name\x02\x05"+billions...)
	if _, err := newRuntime(t, limits(nil)).Load(context.Background(), wasm); err != nil {
		t.Error(err)
	}
}

// Modules are untrusted. Whatever the bytes, Load returns, and a RefusedError has at least one reason.
func FuzzLoad(f *testing.F) {
	for _, wat := range []string{
		bare(), plugin(`i32.const 0`),
		bare(`(import "env" "memory" (memory 1))`, `(global (export "kw:fuel") (mut i64) (i64.const 0))`),
	} {
		f.Add(assemble(f, wat))
	}
	for _, wasm := range bombs {
		f.Add([]byte(wasm))
	}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		r := newRuntime(t, limits(func(l *sandbox.Limits) { l.ModuleBytes = 8 << 10 }))
		_, err := r.Load(context.Background(), wasm)
		var refused *admission.RefusedError
		if err != nil && (!errors.As(err, &refused) || len(refused.Reasons) == 0) {
			t.Errorf("error %v", err)
		}
	})
}
