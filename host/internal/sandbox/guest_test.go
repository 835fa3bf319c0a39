package sandbox_test

import (
	"bytes"
	"context"
	"crypto/rand"
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

// answer notes a call, and returns its answer.
func answer[T any](e *env, value T, method string, args ...any) T {
	e.note(method, args...)
	return value
}

// configured is the answer that config has for a name.
func (e *env) configured(method, name string) (string, bool) {
	value, ok := e.config[name]
	return answer(e, value, method, name), ok
}

func (e *env) ConfigGet(name string) (string, bool) { return e.configured("ConfigGet", name) }
func (e *env) CacheGet(key string) (string, bool)   { return e.configured("CacheGet", key) }
func (e *env) StateGet(name string) (string, bool) {
	return answer(e, "state", "StateGet", name), name != "none"
}
func (e *env) BodyForm() ([]byte, bool) { return answer(e, []byte("form"), "BodyForm"), true }

func (e *env) Input() []byte             { return answer(e, []byte(e.input), "Input") }
func (e *env) TimeNow() int64            { return answer[int64](e, 1700000000, "TimeNow") }
func (e *env) TimeMillis() int64         { return answer[int64](e, 1700000000123, "TimeMillis") }
func (e *env) ClockOffset() int64        { return answer[int64](e, -5, "ClockOffset") }
func (e *env) Random(bytes int64) string { return answer(e, "random", "Random", fmt.Sprint(bytes)) }

func (e *env) Counter(floor int64) int64    { return answer[int64](e, 17, "Counter", fmt.Sprint(floor)) }
func (e *env) Body() string                 { return answer(e, "sealed body", "Body") }
func (e *env) Challenge() []byte            { return answer(e, []byte("challenge"), "Challenge") }
func (e *env) SecretGet(name string) string { return answer(e, "sealed "+name, "SecretGet", name) }
func (e *env) CacheDrop(key string) bool    { return answer(e, true, "CacheDrop", key) }
func (e *env) JWTSign(r []byte) string      { return answer(e, "jwt", "JWTSign", string(r)) }
func (e *env) JWSSign(r []byte) string      { return answer(e, "jws", "JWSSign", string(r)) }
func (e *env) TokenRequest(r []byte) []byte {
	return answer(e, []byte("reply"), "TokenRequest", string(r))
}

func (e *env) Exchange(r []byte) []byte   { return answer(e, []byte("answers"), "Exchange", string(r)) }
func (e *env) Reveal(value string) []byte { return answer(e, []byte("revealed"), "Reveal", value) }

func (e *env) Log(level contract.Level, text string) { e.note("Log", fmt.Sprint(level), text) }
func (e *env) Compose(template string, with []byte) string {
	return answer(e, "composed", "Compose", template, string(with))
}

func (e *env) Encode(format, text string) string { return answer(e, "encoded", "Encode", format, text) }

func (e *env) Decode(format, text string) string { return answer(e, "decoded", "Decode", format, text) }

func (e *env) Digest(algorithm, data string) string {
	return answer(e, "digest", "Digest", algorithm, data)
}

func (e *env) MAC(algorithm, key, data string) string {
	return answer(e, "mac", "MAC", algorithm, key, data)
}

func (e *env) Sign(field, data string) []byte {
	return answer(e, []byte("signature"), "Sign", field, data)
}

func (e *env) PublicKey(field, form string) string {
	return answer(e, "public", "PublicKey", field, form)
}

func (e *env) SignSealed(field, purpose, data string) string {
	return answer(e, "sealed signature", "SignSealed", field, purpose, data)
}

func (e *env) CacheSet(key, value string, ttl int64) { e.note("CacheSet", key, value, fmt.Sprint(ttl)) }

// limits returns a Config with limits that suffice for most tests, after change has changed them.
func limits(change func(l *sandbox.Limits)) sandbox.Config {
	l := sandbox.Limits{
		ModuleBytes: 8 << 20, MemoryBytes: 16 << 20, BlockBytes: 4 << 20, Blocks: 4096, OutputBytes: 64 << 10, HostCalls: 1000,
		ConcurrentGuests: 16, CallTime: 15 * time.Second, Fuel: 5_000_000,
	}
	if change != nil {
		change(&l)
	}
	return sandbox.Config{Limits: l, Clock: time.Now, Random: rand.Reader}
}

// bounded is a Runtime whose modules all have the same limits.
type bounded struct {
	*sandbox.Runtime
	limits sandbox.Limits
}

func (b bounded) Load(ctx context.Context, wasm []byte) (*sandbox.Module, error) {
	return b.Runtime.Load(ctx, wasm, b.limits)
}

func newRuntime(t testing.TB, c sandbox.Config) bounded {
	t.Helper()
	r := testworld.Must(sandbox.New(context.Background(), c))(t)
	t.Cleanup(func() { testworld.Check(t, r.Close(context.Background())) })
	return bounded{r, c.Limits}
}

// load loads a guest in a new runtime with the default limits.
func load(t testing.TB, wat string) *sandbox.Module {
	t.Helper()
	return loadIn(t, newRuntime(t, limits(nil)), wat)
}

func loadIn(t testing.TB, r bounded, wat string) *sandbox.Module {
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
