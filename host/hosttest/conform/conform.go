// Package conform checks what hosts and operators expect of any plugin, such as that it is deterministic and that no answer of an
// endpoint makes it panic. It needs no configuration and no answers of the author.
package conform

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/conform"
)

// Test checks whether the module at the path wasm, which may be written in any language, does what hosts and operators expect of any
// plugin, beyond what a host enforces by itself. Each check is a subtest, which fails with the findings. Configurations are made from
// the description of the plugin, unless configs are given; the secrets and variables that their templates name are made up.
//
// The checks are:
//
//   - contract: the module is loaded, describes itself in the same way each time, and has a type of its own.
//   - configurations: a configuration as the description wants it is accepted, and authenticates a request.
//   - determinism: in two hosts with the same time and the same random bytes, the same request gets the same, with the same fuel.
//   - pristine: requests of other configurations, and the same request before, change nothing.
//   - sealed: the bytes of secrets with any characters arrive as they are, or the request fails.
//   - values: missing, blank, huge and odd values are refused, or work.
//   - endpoints: when a token endpoint fails or answers nonsense, no request is sent, and the endpoint is not asked for ever.
//   - challenges: any answer of the API is survived, and a refused request is not sent again as it was.
//   - unicode: paths, queries, headers and bodies of any characters arrive as they are.
//   - fuel: the request that needs most leaves a tenth of the fuel.
//   - leaks: in all of this, no secret is in logs, errors, or the memory of the plugin.
//
// In any of them, a trap, or a call that uses up its fuel, memory or time, is a failure. An error in words is none.
func Test(t *testing.T, wasm string, configs ...hosttest.Config) {
	t.Helper()
	module, err := os.ReadFile(wasm)
	if err != nil {
		t.Fatalf("%v: compile the plugin", err)
	}
	report, err := conform.Run(t.Context(), hosttest.Module{Name: filepath.Base(wasm), Wasm: module}, configs...)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range report.Checks {
		t.Run(k.Name, func(t *testing.T) {
			for _, finding := range k.Findings {
				t.Error(finding)
			}
		})
	}
}
