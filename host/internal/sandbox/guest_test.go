package sandbox_test

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// The guests of these tests are written in the WebAssembly text format. Each consists of a prelude, the code that a
// test is about, and the exports that the contract requires of every plugin.

// assemble returns the module for a text. It runs wat2wasm, which is in the Debian package wabt.
func assemble(t testing.TB, text string) []byte {
	t.Helper()
	if wasm, ok := assembled.Load(text); ok {
		return wasm.([]byte)
	}
	source := filepath.Join(t.TempDir(), "guest.wat")
	testworld.Check(t, os.WriteFile(source, []byte(text), 0o600))
	var stdout, stderr bytes.Buffer
	command := exec.Command("wat2wasm", "--debug-names", "--enable-threads", "--output=-", source)
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		t.Fatalf("wat2wasm (install wabt): %v\n%s", err, &stderr)
	}
	assembled.Store(text, stdout.Bytes())
	return stdout.Bytes()
}

var assembled sync.Map // from text to module, because benchmarks and fuzz tests assemble the same text many times

// plugin returns the text of a whole plugin. authenticate is the body of that export, and parts are further definitions.
func plugin(authenticate string, parts ...string) string {
	return "(module " + prelude + strings.Join(parts, "\n") +
		`(func (export "describe") (result i32) i32.const 0)
		(func (export "authenticate") (result i32) ` + authenticate + `))`
}

// bare returns the text of a plugin without the prelude. It has no imports except those in parts.
func bare(parts ...string) string {
	return "(module " + strings.Join(parts, "\n") + exports + ")"
}

const exports = `(func (export "describe") (result i32) i32.const 0)
	(func (export "authenticate") (result i32) i32.const 0)`

// prelude imports all host functions except those of WASI. It defines $str, which copies a text from memory into a
// block, and $give, which sets a block as the output.
//
//go:embed testdata/prelude.wat
var prelude string

// env is a contract.Env that returns canned answers and records its calls.
type env struct {
	input  string
	config map[string]string
	on     map[string]func() // called at the start of the method with that name
	mu     sync.Mutex
	asked  []string
}

func (e *env) note(method string, args ...any) {
	e.mu.Lock()
	e.asked = append(e.asked, fmt.Sprintf("%s%q", method, args))
	e.mu.Unlock()
	if do := e.on[method]; do != nil {
		do()
	}
}

func (e *env) Input() []byte { e.note("Input"); return []byte(e.input) }
func (e *env) ConfigGet(name string) (string, bool) {
	e.note("ConfigGet", name)
	v, ok := e.config[name]
	return v, ok
}

func (e *env) Log(level contract.Level, text string) {
	e.note("Log", fmt.Sprint(level), text)
}
func (e *env) TimeNow() int64               { e.note("TimeNow"); return 1700000000 }
func (e *env) SecretGet(name string) string { e.note("SecretGet", name); return "sealed " + name }
func (e *env) TokenRequest(r []byte) []byte {
	e.note("TokenRequest", string(r))
	return []byte("reply")
}

func (e *env) CacheGet(key string) (string, bool) {
	e.note("CacheGet", key)
	v, ok := e.config[key]
	return v, ok
}

func (e *env) CacheSet(key, value string, ttlSeconds int64) {
	e.note("CacheSet", key, value, fmt.Sprint(ttlSeconds))
}

func (e *env) JWTSign(request []byte) string { e.note("JWTSign", string(request)); return "jwt" }

func (e *env) Encode(format, text string) string { e.note("Encode", format, text); return "encoded" }

func (e *env) MAC(algorithm, key, data string) string {
	e.note("MAC", algorithm, key, data)
	return "mac"
}

func (e *env) Sign(field, data string) []byte {
	e.note("Sign", field, data)
	return []byte("signature")
}
func (e *env) Reveal(value string) []byte { e.note("Reveal", value); return []byte("revealed") }

// limits returns a Config with limits that suffice for most tests, after change has changed them.
func limits(change func(l *sandbox.Limits)) sandbox.Config {
	l := sandbox.Limits{
		ModuleBytes: 8 << 20, MemoryBytes: 16 << 20, BlockBytes: 4 << 20, Blocks: 4096, OutputBytes: 64 << 10, HostCalls: 1000,
		ConcurrentGuests: 16, CallTime: 15 * time.Second, Fuel: 5_000_000,
	}
	if change != nil {
		change(&l)
	}
	return sandbox.Config{Limits: l}
}

func newRuntime(t testing.TB, c sandbox.Config) *sandbox.Runtime {
	t.Helper()
	r := testworld.Must(sandbox.New(context.Background(), c))(t)
	t.Cleanup(func() { testworld.Check(t, r.Close(context.Background())) })
	return r
}

// load loads a guest in a new runtime with the default limits.
func load(t testing.TB, wat string) *sandbox.Module {
	t.Helper()
	return loadIn(t, newRuntime(t, limits(nil)), wat)
}

func loadIn(t testing.TB, r *sandbox.Runtime, wat string) *sandbox.Module {
	t.Helper()
	return testworld.Must(r.Load(context.Background(), assemble(t, wat)))(t)
}

// authenticate calls a guest, and fails the test if the call returns an error.
func authenticate(t testing.TB, m *sandbox.Module, e *env) sandbox.Result {
	t.Helper()
	result := testworld.Must(m.Call(context.Background(), contract.ExportAuthenticate, e))(t)
	if result.Time <= 0 {
		t.Error("the call took no time")
	}
	result.Time = 0 // so that results can be compared
	return result
}

func (e *env) TimeMillis() int64         { e.note("TimeMillis"); return 1700000000123 }
func (e *env) ClockOffset() int64        { e.note("ClockOffset"); return -5 }
func (e *env) Random(bytes int64) string { e.note("Random", fmt.Sprint(bytes)); return "random" }
func (e *env) Body() string              { e.note("Body"); return "sealed body" }
func (e *env) BodyForm() ([]byte, bool)  { e.note("BodyForm"); return []byte("form"), true }
func (e *env) Compose(template string, with []byte) string {
	e.note("Compose", template, string(with))
	return "composed"
}
func (e *env) Challenge() []byte         { e.note("Challenge"); return []byte("challenge") }
func (e *env) CacheDrop(key string) bool { e.note("CacheDrop", key); return true }

func (e *env) StateGet(name string) (string, bool) {
	e.note("StateGet", name)
	return "state", name != "none"
}

func (e *env) Exchange(request []byte) []byte {
	e.note("Exchange", string(request))
	return []byte("answers")
}

func (e *env) Decode(format, text string) string { e.note("Decode", format, text); return "decoded" }

func (e *env) Digest(algorithm, data string) string {
	e.note("Digest", algorithm, data)
	return "digest"
}

func (e *env) SignSealed(field, purpose, data string) string {
	e.note("SignSealed", field, purpose, data)
	return "sealed signature"
}

func (e *env) PublicKey(field, form string) string { e.note("PublicKey", field, form); return "public" }
