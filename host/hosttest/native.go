package hosttest

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/sdk"
)

// callTimeout limits the time of a native plugin's call, with the answers of the test's endpoints. A plugin that ends
// needs far less. failedTimeout does so if the test has failed in the sandbox.
const callTimeout, failedTimeout = time.Minute, 3 * time.Second

// native is a guest that runs a plugin as plain Go.
type native struct {
	tb     TB
	plugin sdk.Plugin
	// expired returns a channel that receives when a call that begins now has taken too long.
	expired func() <-chan time.Time
}

func newNative(tb TB, p sdk.Plugin, limit time.Duration) native {
	return native{tb: tb, plugin: p, expired: func() <-chan time.Time { return time.After(limit) }}
}

// Has implements sandbox.Guest. Like a module that is made with the SDK, a native plugin has all exports.
func (native) Has(string) bool { return true }

// Call implements sandbox.Guest. Nothing can stop the plugin, so it runs on a goroutine of its own. If it does not end,
// the test fails and continues without it.
func (n native) Call(_ context.Context, export string, env contract.Env) (sandbox.Result, error) {
	gate := &gate{env: env}
	name := make(chan string, 1)
	done := make(chan struct{})
	var result sandbox.Result
	var err error
	go func() {
		defer close(done)
		name <- goroutine()
		result, err = n.run(export, gate)
	}()
	select {
	case <-done:
		return result, err
	case <-n.expired():
	}
	n.tb.Errorf("hosttest: the plugin did not end: %s runs for ever, as it seems. The sandbox would stop it for want of fuel. It was at\n%s",
		export, stackOf(<-name))
	gate.close()
	return sandbox.Result{}, &sandbox.Error{Kind: sandbox.ErrLimit, Detail: "it did not end; the test's log has the stack"}
}

// run runs the plugin to its end. A host function that ends the call panics through the plugin, as it unwinds a guest
// in the sandbox. Any other panic is the plugin's own, and counts as a trap.
func (n native) run(export string, gate *gate) (result sandbox.Result, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if _, late := p.(tooLate); late {
			return
		}
		if call, ok := gate.env.(*hostfn.Call); ok && (call.Failure != nil || call.Restart != nil) {
			err = &sandbox.Error{Kind: sandbox.ErrEnded}
			return
		}
		n.tb.Logf("the plugin panicked: %v\n%s", p, debug.Stack())
		err = &sandbox.Error{Kind: sandbox.ErrTrap, Detail: "it panicked; the test's log has the stack"}
	}()
	output, failure := contract.Dispatch(n.plugin, gate, export)
	if failure != nil {
		return sandbox.Result{Code: 1, Message: failure.Error()}, nil
	}
	if !utf8.ValidString(output) {
		return sandbox.Result{}, &sandbox.Error{Kind: sandbox.ErrUse, Detail: "the output is not UTF-8"}
	}
	return sandbox.Result{Output: []byte(output), OutputSet: true}, nil
}

// goroutine returns the beginning of this goroutine's stack trace, up to its state: "goroutine 7 [".
func goroutine() string {
	b := make([]byte, 64)
	name, _, _ := strings.Cut(string(b[:runtime.Stack(b, false)]), "[")
	return name + "["
}

// stackOf returns the stack trace that begins with name.
func stackOf(name string) string {
	var all strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&all, 2) // into memory
	for stack := range strings.SplitSeq(all.String(), "\n\n") {
		if strings.HasPrefix(stack, name) {
			return stack
		}
	}
	return fmt.Sprintf("a place that is not known (%s…)", name)
}

// gate is a contract.Env between a native plugin and its host. When it is closed, the next call of a host function ends the plugin.
type gate struct {
	env contract.Env

	// mu is held while a host function runs.
	mu     sync.Mutex
	closed bool
}

// tooLate is the value of the panic in a host function after the gate was closed.
type tooLate struct{}

// close closes the gate. It waits for the host function that is running.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

// call calls a host function. It panics if the gate is closed.
func (g *gate) call(function func(contract.Env)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		panic(tooLate{})
	}
	function(g.env)
}

// nullary calls a host function () → result.
func nullary[Out any](g *gate, f func(contract.Env) Out) (out Out) {
	g.call(func(e contract.Env) { out = f(e) })
	return out
}

func unary[In, Out any](g *gate, f func(contract.Env, In) Out, in In) (out Out) {
	g.call(func(e contract.Env) { out = f(e, in) })
	return out
}

func binary[Second, Out any](g *gate, f func(contract.Env, string, Second) Out, first string, second Second) (out Out) {
	g.call(func(e contract.Env) { out = f(e, first, second) })
	return out
}

func optional(g *gate, f func(contract.Env, string) (string, bool), name string) (value string, ok bool) {
	g.call(func(e contract.Env) { value, ok = f(e, name) })
	return value, ok
}

func (g *gate) Input() []byte                       { return nullary(g, contract.Env.Input) }
func (g *gate) TimeNow() int64                      { return nullary(g, contract.Env.TimeNow) }
func (g *gate) TimeMillis() int64                   { return nullary(g, contract.Env.TimeMillis) }
func (g *gate) ClockOffset() int64                  { return nullary(g, contract.Env.ClockOffset) }
func (g *gate) Body() string                        { return nullary(g, contract.Env.Body) }
func (g *gate) Challenge() []byte                   { return nullary(g, contract.Env.Challenge) }
func (g *gate) Counter(floor int64) int64           { return unary(g, contract.Env.Counter, floor) }
func (g *gate) Random(bytes int64) string           { return unary(g, contract.Env.Random, bytes) }
func (g *gate) SecretGet(name string) string        { return unary(g, contract.Env.SecretGet, name) }
func (g *gate) CacheDrop(key string) bool           { return unary(g, contract.Env.CacheDrop, key) }
func (g *gate) Reveal(value string) []byte          { return unary(g, contract.Env.Reveal, value) }
func (g *gate) JWTSign(j []byte) string             { return unary(g, contract.Env.JWTSign, j) }
func (g *gate) JWSSign(j []byte) string             { return unary(g, contract.Env.JWSSign, j) }
func (g *gate) TokenRequest(r []byte) []byte        { return unary(g, contract.Env.TokenRequest, r) }
func (g *gate) Exchange(r []byte) []byte            { return unary(g, contract.Env.Exchange, r) }
func (g *gate) StateGet(name string) (string, bool) { return optional(g, contract.Env.StateGet, name) }

func (g *gate) CacheGet(key string) (string, bool) { return optional(g, contract.Env.CacheGet, key) }

func (g *gate) Digest(hash, data string) string { return binary(g, contract.Env.Digest, hash, data) }

func (g *gate) Sign(field, data string) []byte { return binary(g, contract.Env.Sign, field, data) }

func (g *gate) ConfigGet(name string) (string, bool) {
	return optional(g, contract.Env.ConfigGet, name)
}

func (g *gate) Encode(format, text string) string {
	return binary(g, contract.Env.Encode, format, text)
}

func (g *gate) Decode(format, text string) string {
	return binary(g, contract.Env.Decode, format, text)
}

func (g *gate) PublicKey(field, form string) string {
	return binary(g, contract.Env.PublicKey, field, form)
}

func (g *gate) Compose(template string, with []byte) string {
	return binary(g, contract.Env.Compose, template, with)
}

func (g *gate) Log(level contract.Level, text string) {
	g.call(func(e contract.Env) { e.Log(level, text) })
}

func (g *gate) CacheSet(key, value string, ttlSeconds int64) {
	g.call(func(e contract.Env) { e.CacheSet(key, value, ttlSeconds) })
}

func (g *gate) BodyForm() (pairs []byte, ok bool) {
	g.call(func(e contract.Env) { pairs, ok = e.BodyForm() })
	return pairs, ok
}

func (g *gate) MAC(hash, key, data string) (mac string) {
	g.call(func(e contract.Env) { mac = e.MAC(hash, key, data) })
	return mac
}

func (g *gate) SignSealed(field, purpose, data string) (signature string) {
	g.call(func(e contract.Env) { signature = e.SignSealed(field, purpose, data) })
	return signature
}
