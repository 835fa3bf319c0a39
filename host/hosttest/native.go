package hosttest

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/sdk"
)

// patience is how long a native plugin may take for a call, with all that the test's endpoints take: no plugin that ends
// comes near to it.
const patience = time.Minute

// native is a guest that is plain Go.
type native struct {
	tb      testing.TB
	plugin  sdk.Plugin
	expired func() <-chan time.Time // receives when a call that begins now has taken too long
}

var _ sandbox.Guest = native{}

func newNative(tb testing.TB, p sdk.Plugin) native {
	return native{tb: tb, plugin: p, expired: func() <-chan time.Time { return time.After(patience) }}
}

// Has implements sandbox.Guest: a module made with the SDK has all exports, too.
func (native) Has(string) bool { return true }

// ran is how a call of a native plugin ended.
type ran struct {
	result sandbox.Result
	err    error
}

// Call implements sandbox.Guest. The plugin runs on a goroutine of its own, since nothing can stop it: when it does not
// end, the test fails and goes on without it.
func (n native) Call(_ context.Context, export string, env abi.Env) (sandbox.Result, error) {
	gate := &gate{env: env}
	name := make(chan []byte, 1)
	done := make(chan ran, 1)
	go func() {
		name <- goroutine()
		result, err := n.run(export, gate)
		done <- ran{result, err}
	}()
	select {
	case r := <-done:
		return r.result, r.err
	case <-n.expired():
	}
	n.tb.Errorf("hosttest: the plugin did not end: %s runs for ever, as it seems. The sandbox would stop it for want of fuel. It was at\n%s",
		export, stackOf(<-name))
	gate.close()
	return sandbox.Result{}, &sandbox.Error{Kind: sandbox.ErrLimit, Detail: "it did not end; the test's log has the stack"}
}

// run runs the plugin to its end. A host function that ends the call panics through the plugin, as it unwinds a guest in
// the sandbox; another panic is the plugin's own, which is a trap there.
func (n native) run(export string, gate *gate) (result sandbox.Result, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if _, late := p.(tooLate); late {
			return
		}
		if call, ok := gate.env.(*hostfn.Call); ok && (call.Failure() != nil || call.Restart() != nil) {
			err = &sandbox.Error{Kind: sandbox.ErrEnded}
			return
		}
		n.tb.Logf("the plugin panicked: %v\n%s", p, debug.Stack())
		err = &sandbox.Error{Kind: sandbox.ErrTrap, Detail: "it panicked; the test's log has the stack"}
	}()
	output, failure := sdk.Dispatch(n.plugin, gate, export)
	if failure != nil {
		return sandbox.Result{Code: 1, Message: failure.Error()}, nil
	}
	if !utf8.ValidString(output) {
		return sandbox.Result{}, &sandbox.Error{Kind: sandbox.ErrUse, Detail: "the output is not UTF-8"}
	}
	return sandbox.Result{Output: []byte(output), OutputSet: true}, nil
}

// goroutine returns what the stack of this goroutine begins with, up to its state: "goroutine 7 [".
func goroutine() []byte {
	b := make([]byte, 64)
	b = b[:runtime.Stack(b, false)]
	return b[:bytes.IndexByte(b, '[')+1]
}

// stackOf returns the stack of the goroutine with that beginning.
func stackOf(name []byte) string {
	const most = 16 << 20
	b := make([]byte, 1<<20)
	n := runtime.Stack(b, true)
	for n == len(b) && len(b) < most {
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
