package hosttest

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
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

// lateTime limits the wait for a host function that a plugin has called before its time was over. After it, the plugin is in code of its own.
const lateTime = 200 * time.Millisecond

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
// the test fails and continues without it. The plugin ends when it next calls a host function.
func (n native) Call(_ context.Context, export string, env contract.Env) (sandbox.Result, error) {
	call := env.(*hostfn.Call) //nolint:forcetypeassert // a host has no other
	name := make(chan string, 1)
	done := make(chan struct{})
	var result sandbox.Result
	var err error
	go func() {
		defer close(done)
		name <- goroutine()
		result, err = n.run(export, call)
	}()
	select {
	case <-done:
		return result, err
	case <-n.expired():
	}
	n.tb.Errorf("hosttest: the plugin did not end: %s runs for ever, as it seems. The sandbox would stop it for want of fuel. It was at\n%s",
		export, stackOf(<-name))
	call.Late.Store(true)
	select {
	case <-done:
	case <-time.After(lateTime):
	}
	return sandbox.Result{}, &sandbox.Error{Kind: sandbox.ErrLimit, Detail: "it did not end; the test's log has the stack"}
}

// run runs the plugin to its end. A host function that ends the call panics through the plugin, as it unwinds a guest
// in the sandbox. Any other panic is the plugin's own, and counts as a trap.
func (n native) run(export string, call *hostfn.Call) (result sandbox.Result, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if call.Failure != nil || call.Restart != nil || call.Late.Load() {
			err = &sandbox.Error{Kind: sandbox.ErrEnded}
			return
		}
		n.tb.Logf("the plugin panicked: %v\n%s", p, debug.Stack())
		err = &sandbox.Error{Kind: sandbox.ErrTrap, Detail: "it panicked; the test's log has the stack"}
	}()
	output, failure := contract.Dispatch(n.plugin, call, export)
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
