// Package languages tests the SDKs for C and AssemblyScript. It compiles plugins with them and runs these.
package languages

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// examples has the modules that are committed, by their sources.
var examples = map[string]string{
	"../../examples/acme_hmac_c/acme_hmac.c":   "../../examples/acme_hmac_c/acme_hmac_c.wasm",
	"../../examples/acme_hmac_as/acme_hmac.ts": "../../examples/acme_hmac_as/acme_hmac_as.wasm",
}

// Compiling an example anew makes the module that is committed, byte by byte.
func TestExampleSources(t *testing.T) {
	for source, module := range examples {
		if !bytes.Equal(read(t, module), read(t, compile(t, source))) {
			t.Errorf("%s is not what %s compiles to: run make languages", module, source)
		}
	}
}

// compile compiles a plugin in C or AssemblyScript, and returns the path of the module.
func compile(t *testing.T, source string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), strings.TrimSuffix(filepath.Base(source), filepath.Ext(source))+".wasm")
	read(t, source) // so that go test runs the test again when a source changes
	if filepath.Ext(source) == ".c" {
		read(t, "../../sdk/c/keywright.h")
		read(t, "../../sdk/c/keywright.cfg")
		run(t, "clang-19", "--config=../../sdk/c/keywright.cfg", "-o", out, source)
		return out
	}
	read(t, "../../sdk/assemblyscript/keywright.ts")
	read(t, asDir+"/asconfig.json")
	run(t, asDir+"/node_modules/.bin/asc", source, "--config", asDir+"/asconfig.json", "--outFile", out)
	return out
}

// asDir has AssemblyScript, at the version that its lock file names.
const asDir = "../../examples/acme_hmac_as"

func run(t *testing.T, compiler string, arguments ...string) {
	t.Helper()
	if text, err := exec.CommandContext(t.Context(), compiler, arguments...).CombinedOutput(); err != nil {
		t.Fatalf("%s fails (make deps installs it): %v\n%s", compiler, err, text)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	return testworld.Must(os.ReadFile(name))(t)
}

// checkImports checks that a module imports nothing but functions of the contract.
func checkImports(t *testing.T, wasm []byte) {
	t.Helper()
	runtime := wazero.NewRuntime(t.Context())
	defer runtime.Close(t.Context())
	module := testworld.Must(runtime.CompileModule(t.Context(), wasm))(t)
	for _, f := range module.ImportedFunctions() {
		if from, name, _ := f.Import(); from != contract.ModuleEnv && from != contract.ModuleUser {
			t.Errorf("the module imports %q %q, want nothing but %s and %s", from, name, contract.ModuleEnv, contract.ModuleUser)
		}
	}
}
