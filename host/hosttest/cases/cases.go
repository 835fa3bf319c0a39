// Package cases runs the cases of a plugin in Go: tests without code, in YAML. docs/plugins.md has the members of a case. Plugins of
// any language are tested with the same files by `keywright plugin test`.
//
//	func TestCases(t *testing.T) { cases.Test(t, plugin{}, "acme.wasm", "cases.yaml") }
package cases

import (
	"testing"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/casefile"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/sdk"
)

// orders is the number of times that a case runs natively. Go ranges over a map in another order each time, and the sandbox does not.
const orders = 5

// Test runs the cases of a file as subtests, each in the sandbox and natively, as [hosttest.Run] does. Natively, it runs each several
// times.
func Test(t *testing.T, p sdk.Plugin, wasm, file string) {
	t.Helper()
	all, err := casefile.Read(file)
	if err != nil {
		t.Fatalf("%v", err)
	}
	for _, c := range all {
		t.Run(c.Name, func(t *testing.T) {
			hosttest.Run(t, p, wasm, func(t *testing.T, h *hosttest.Harness) { c.Run(t, h) })
			if p != nil && !t.Failed() {
				repeat(t, &c, p, wasm)
			}
		})
	}
}

func repeat(tb hosttest.TB, c *casefile.Case, p sdk.Plugin, wasm string) {
	tb.Helper()
	for range orders - 1 {
		run := testworld.Collect(func(tb *testworld.Collector) { c.Run(tb, hosttest.NewNative(tb, c.Name, p, wasm)) })
		if texts := run.Failures(); len(texts) > 0 {
			tb.Errorf("hosttest: natively, the plugin does not do the same each time. Perhaps it ranges over a map, whose order is random in Go "+
				"and fixed in the sandbox: %s", texts[0])
			return
		}
	}
}
