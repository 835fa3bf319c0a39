package hosttest

import (
	"context"
	"runtime/debug"
	"testing"
	"unicode/utf8"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/internal/abi"
	"github.com/keywright/keywright/sdk"
)

// native is a guest that is plain Go.
type native struct {
	tb     testing.TB
	plugin sdk.Plugin
}

var _ sandbox.Guest = native{}

// Has implements sandbox.Guest: a module made with the SDK has all exports, too.
func (native) Has(string) bool { return true }

// Call implements sandbox.Guest. A host function that ends the call panics through the plugin, as it unwinds a guest in
// the sandbox; another panic is the plugin's own, which is a trap there.
func (n native) Call(_ context.Context, export string, env abi.Env) (result sandbox.Result, err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if call, ok := env.(*hostfn.Call); ok && (call.Failure() != nil || call.Restart() != nil) {
			err = &sandbox.Error{Kind: sandbox.ErrEnded}
			return
		}
		n.tb.Logf("the plugin panicked: %v\n%s", p, debug.Stack())
		err = &sandbox.Error{Kind: sandbox.ErrTrap, Detail: "it panicked; the test's log has the stack"}
	}()
	output, failure := sdk.Dispatch(n.plugin, env, export)
	if failure != nil {
		return sandbox.Result{Code: 1, Message: failure.Error()}, nil
	}
	if !utf8.ValidString(output) {
		return sandbox.Result{}, &sandbox.Error{Kind: sandbox.ErrUse, Detail: "the output is not UTF-8"}
	}
	return sandbox.Result{Output: []byte(output), OutputSet: true}, nil
}
