package hosttest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
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

var _ sandbox.Guest = native{}

func newNative(tb TB, p sdk.Plugin, limit time.Duration) native {
	return native{tb: tb, plugin: p, expired: func() <-chan time.Time { return time.After(limit) }}
}

// Has implements sandbox.Guest. Like a module that is made with the SDK, a native plugin has all exports.
func (native) Has(string) bool { return true }

// Call implements sandbox.Guest. Nothing can stop the plugin, so it runs on a goroutine of its own. If it does not end,
// the test fails and continues without it.
func (n native) Call(_ context.Context, export string, env contract.Env) (sandbox.Result, error) {
	gate := &gate{env: env}
	name := make(chan []byte, 1)
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
func goroutine() []byte {
	b := make([]byte, 64)
	b = b[:runtime.Stack(b, false)]
	return b[:bytes.IndexByte(b, '[')+1]
}

// stackOf returns the stack trace that begins with name.
func stackOf(name []byte) string {
	const maxStack = 16 << 20
	b := make([]byte, 1<<20)
	n := runtime.Stack(b, true)
	for n == len(b) && len(b) < maxStack {
		b = make([]byte, 2*len(b))
		n = runtime.Stack(b, true)
	}
	for _, stack := range bytes.Split(b[:n], []byte("\n\n")) {
		if bytes.HasPrefix(stack, name) {
			return string(stack)
		}
	}
	return fmt.Sprintf("a place that is not known (%s…)", name)
}
