package host_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
)

// assemble compiles a module from its text with wat2wasm, of the Debian package wabt.
func assemble(t *testing.T, text string) []byte {
	t.Helper()
	source := filepath.Join(t.TempDir(), "guest.wat")
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	command := exec.Command("wat2wasm", "--output=-", source)
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("wat2wasm (install wabt): %v\n%s", err, &stderr)
	}
	return stdout.Bytes()
}

// fixed returns the text of a module that runs before, and then puts its field "value" into a header.
func fixed(before string) string {
	const (
		about  = `{"abi":1,"type":"custom","version":"1.0.0","summary":"A guest.","fields":[{"name":"value","kind":"string","sealed":true,"sinks":["header"]}]}`
		output = `{"headers":[{"name":"X-Key","value":"kw_abcdefghijklmnopqrstuvwxyz"}]}`
	)
	quoted := func(text string) string { return strings.ReplaceAll(text, `"`, `\22`) }
	return fmt.Sprintf(`(module
		(import "extism:host/env" "config_get" (func $config_get (param i64) (result i64)))
		(import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
		(import "extism:host/user" "block_new" (func $block_new (param i32 i32) (result i64)))
		(import "extism:host/user" "block_read" (func $block_read (param i64 i32 i32) (result i64)))
		(import "wasi_snapshot_preview1" "clock_time_get" (func $clock_time_get (param i32 i64 i32) (result i32)))
		(import "wasi_snapshot_preview1" "random_get" (func $random_get (param i32 i32) (result i32)))
		(memory (export "memory") 1)
		(data (i32.const 0) "%s") (data (i32.const 1000) "value") (data (i32.const 2000) "%s")
		(func (export "describe") (result i32)
			(call $output_set (call $block_new (i32.const 0) (i32.const %[4]d)) (i64.const %[4]d)) (i32.const 0))
		(func (export "authenticate") (result i32)
			%[3]s
			(drop (call $block_read (call $config_get (call $block_new (i32.const 1000) (i32.const 5))) (i32.const %[6]d) (i32.const 29)))
			(call $output_set (call $block_new (i32.const 2000) (i32.const %[5]d)) (i64.const %[5]d)) (i32.const 0)))`,
		quoted(about), quoted(output), before, len(about), len(output), 2000+strings.Index(output, "kw_"))
}

// specification.md 3.10: a mutation of a third-party plugin that reads the time or random bytes with WASI is for one
// request only.
func TestNoReuseAfterWASI(t *testing.T) {
	for name, c := range map[string]struct {
		before string
		reused bool
	}{
		"nothing":         {``, true},
		"clock_time_get":  {`(drop (call $clock_time_get (i32.const 0) (i64.const 0) (i32.const 8)))`, false},
		"monotonic clock": {`(drop (call $clock_time_get (i32.const 1) (i64.const 0) (i32.const 8)))`, false},
		"random_get":      {`(drop (call $random_get (i32.const 8) (i32.const 8)))`, false},
	} {
		t.Run(name, func(t *testing.T) {
			text := fixed(c.before)
			if c.reused { // a module that imports these functions is never reused
				for _, line := range []string{"clock_time_get", "random_get"} {
					at := strings.Index(text, `(import "wasi_snapshot_preview1" "`+line)
					text = text[:at] + text[at+strings.Index(text[at:], "\n"):]
				}
			}
			plugin := host.Plugin{Name: "custom.wasm", Wasm: assemble(t, text)}
			w := newWorld(t, withoutBuiltIns, func(c *host.Config) { c.Plugins = append(c.Plugins, plugin) })
			secret := w.canary("s")
			connector := w.connect("custom", config{"value": "{{ get_secret('s') }}"})
			for range 3 {
				if got := w.get(connector).Header.Get("X-Key"); got != secret {
					t.Fatal("the header is another")
				}
			}
			for i, call := range w.calls[1:] {
				if call.Reused != c.reused {
					t.Errorf("request %d: the mutation was used again: %t", i+2, call.Reused)
				}
			}
		})
	}
}
