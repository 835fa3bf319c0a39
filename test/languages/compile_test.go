// Package languages tests Keywright with plugins that are not written in Go: in C and in AssemblyScript. It compiles them and runs
// them.
package languages

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/keywright/keywright/abi"
)

// assemblyScript compiles the plugin in a file of the directory assembly, and returns the path of the module.
func assemblyScript(t *testing.T, name string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "as_"+name+".wasm")
	run(t, []string{"assembly/*.ts", "*.json"}, "node_modules/.bin/asc", "assembly/"+name+".ts", "--outFile", out)
	return out
}

// clang compiles the plugin in a file of the directory c, and returns the path of the module.
func clang(t *testing.T, name string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "c_"+name+".wasm")
	run(t, []string{"c/*"}, "clang-19", "--target=wasm32", "-Oz", "-Wall", "-Wextra", "-Werror", "-mbulk-memory", "-nostdlib", "-fno-builtin-strlen",
		"-Wl,--no-entry,--strip-debug,--stack-first,-z,stack-size=16384", "-o", out, "c/"+name+".c")
	return out
}

// run runs a compiler. It reads the sources, so that go test runs the test again when they change.
func run(t *testing.T, sources []string, compiler string, arguments ...string) {
	t.Helper()
	for _, pattern := range sources {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("no sources %s: %v", pattern, err)
		}
		for _, name := range names {
			read(t, name)
		}
	}
	command := exec.CommandContext(t.Context(), compiler, arguments...)
	command.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/lib/llvm-19/bin") // where Debian has the linker
	if text, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s does not compile (make deps installs it): %v\n%s", compiler, err, text)
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// checkImports checks that a module imports nothing but functions of the contract.
func checkImports(t *testing.T, wasm []byte) {
	t.Helper()
	runtime := wazero.NewRuntime(t.Context())
	defer runtime.Close(t.Context())
	module, err := runtime.CompileModule(t.Context(), wasm)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range module.ImportedFunctions() {
		if from, name, _ := f.Import(); from != abi.ModuleEnv && from != abi.ModuleUser {
			t.Errorf("the module imports %q %q, want nothing but %s and %s", from, name, abi.ModuleEnv, abi.ModuleUser)
		}
	}
}
