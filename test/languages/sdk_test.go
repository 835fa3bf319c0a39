// Package languages tests the SDKs for C and AssemblyScript. It compiles plugins with them and runs these.
package languages

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/sdk"
)

const (
	header = "../../sdk/c/keywright.h"
	script = "../../sdk/assemblyscript/keywright.ts"
	crate  = "../../sdk/rust/keywright.rs"
)

// goOnly are methods of the Go SDK that the others lack. Seconds returns a time.Duration; there, times are numbers of seconds. The
// rest is made of what they have: CachedToken needs a function, ExchangeOK an error, and SignatureBase a list of components, in place
// of which there is a template.
var goOnly = []string{"Seconds", "CachedToken", "ExchangeOK", "SignatureBase"}

// All SDKs have all that the Go SDK has for a call, under the same names.
func TestSDKsHaveTheNamesOfTheGoSDK(t *testing.T) {
	c, as, rust := string(read(t, header)), string(read(t, script)), string(read(t, crate))
	call := reflect.TypeFor[*sdk.Call]()
	for i := range call.NumMethod() {
		name := call.Method(i).Name
		if slices.Contains(goOnly, name) {
			continue
		}
		words := regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`).ReplaceAllString(name, "${1}${3}_${2}${4}")
		if want := " kw_" + strings.ToLower(words) + "("; !strings.Contains(c, want) {
			t.Errorf("%s has no%s…), for Call.%s", header, want, name)
		}
		first, rest, _ := strings.Cut(words, "_")
		want := regexp.MustCompile(`export function ` + strings.ToLower(first) + strings.ReplaceAll(rest, "_", "") + `\b`)
		if !want.MatchString(as) {
			t.Errorf("%s has no %s, for Call.%s", script, want, name)
		}
		if want := "pub fn " + strings.ToLower(words) + "("; !strings.Contains(rust, want) {
			t.Errorf("%s has no %s…), for Call.%s", crate, want, name)
		}
	}
}

// The SDKs declare each function as the host has it: a module that imports all functions as the header declares them is loaded, the
// declarations in AssemblyScript and Rust are the same.
func TestSDKsDeclareTheFunctionsOfTheHost(t *testing.T) {
	declared := map[string]string{}
	var calls strings.Builder
	for _, m := range regexp.MustCompile(`(?m)^KW_(ENV|USER)\((\w+), (\w+), (.*)\)$`).FindAllStringSubmatch(string(read(t, header)), -1) {
		declared[m[3]] = signature(m[1], m[4], m[2])
		calls.WriteString("\t(void *)kw_host_" + m[3] + ",\n")
	}
	as := map[string]string{}
	for _, m := range regexp.MustCompile(`@external\("extism:host/(\w+)", "(\w+)"\) declare function \w+\((.*)\): (\w+);`).FindAllStringSubmatch(string(read(t, script)), -1) {
		as[m[2]] = signature(m[1], m[3], m[4])
	}
	if diff := cmp.Diff(declared, as); diff != "" {
		t.Errorf("the declarations differ (-C +AssemblyScript):\n%s", diff)
	}
	rust, module := map[string]string{}, ""
	for _, m := range regexp.MustCompile(`wasm_import_module = "extism:host/(\w+)"|\tpub fn (\w+)\((.*)\)(?: -> (\w+))?;`).FindAllStringSubmatch(
		strings.ReplaceAll(string(read(t, crate)), "    ", "\t"), -1) {
		if m[1] != "" {
			module = m[1]
			continue
		}
		rust[m[2]] = signature(module, m[3], m[4])
	}
	if diff := cmp.Diff(declared, rust); diff != "" {
		t.Errorf("the declarations differ (-C +Rust):\n%s", diff)
	}
	for _, function := range userFunctions(t) {
		if declared[function] == "" {
			t.Errorf("no SDK declares %s", function)
		}
	}

	source := filepath.Join(t.TempDir(), "all.c")
	text := "#include \"keywright.h\"\nvoid *volatile all[] = {\n" + calls.String() + "};\n" +
		`KW_EXPORT(describe) { return kw_done(KW_JSON({"abi": 1, "type": "all", "version": "1.0.0", "summary": "All.", "anonymous": true})); }` +
		"\nKW_EXPORT(authenticate) { return all[kw_now() & 1] == 0; }\n"
	testworld.Check(t, os.WriteFile(source, []byte(text), 0o600))
	info := testworld.Must(host.Inspect(t.Context(), host.Plugin{Name: "all.wasm", Wasm: read(t, compile(t, source))}, host.Limits{}))(t)
	if len(info.Imports) != len(declared) {
		t.Errorf("the module imports %d functions of %d", len(info.Imports), len(declared))
	}
}

// signature returns the module, parameters and result of a function, in the types of WebAssembly.
func signature(module, parameters, result string) string {
	types := strings.NewReplacer(
		"const void *address", "i32", "void *address", "i32", "uint32_t", "i32", "usize", "i32", "u32", "i32", "*const u8", "i32", "*mut u8", "i32",
		"uint64_t", "i64", "int64_t", "i64", "u64", "i64", "void", "",
	)
	var list []string
	for parameter := range strings.SplitSeq(parameters, ",") {
		name := regexp.MustCompile(`^(\w+): (.+)$`).ReplaceAllString(strings.TrimSpace(parameter), "$2 $1")
		kind, _, _ := strings.Cut(types.Replace(name), " ")
		list = append(list, kind)
	}
	return strings.ToLower(module) + "(" + strings.Join(list, ",") + ")" + types.Replace(result)
}

// userFunctions returns the functions of Keywright's own module, which package contract names.
func userFunctions(t *testing.T) (names []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?m)^\tUser\w+ += "(\w+)"`).FindAllStringSubmatch(string(read(t, "../../internal/contract/contract.go")), -1) {
		names = append(names, m[1])
	}
	if len(names) < 20 {
		t.Errorf("package contract has %d functions only", len(names))
	}
	return names
}

// The code of the READMEs is that of the examples, so an author who copies it has what is tested.
func TestREADMECode(t *testing.T) {
	makefile := string(read(t, "../../Makefile"))
	for readme, files := range map[string][]string{
		"../../sdk/c/README.md":              {"../../examples/acme_hmac_c/acme_hmac.c"},
		"../../sdk/assemblyscript/README.md": {"../../examples/acme_hmac_as/acme_hmac.ts", asDir + "/asconfig.json"},
		"../../sdk/rust/README.md":           {"../../examples/acme_hmac_rust/acme_hmac.rs"},
	} {
		all := makefile + strings.Replace(string(read(t, asDir+"/package.json")), "asc ", "npx asc ", 1)
		for _, name := range files {
			all += string(read(t, name))
		}
		blocks := regexp.MustCompile("(?s)```(\\w+)\n(.*?)```").FindAllStringSubmatch(string(read(t, readme)), -1)
		if len(blocks) < 3 {
			t.Errorf("%s has %d blocks of code only", readme, len(blocks))
		}
		for _, block := range blocks {
			for line := range strings.Lines(strings.ReplaceAll(block[2], "\n\n", "\n")) {
				if block[1] != "sh" {
					line = block[2]
				}
				if !strings.Contains(all, strings.TrimSuffix(line, "\n")) {
					t.Errorf("%s has code that no example has:\n%s", readme, line)
					break
				}
			}
		}
	}
}

// examples has the modules that are committed, by their sources.
var examples = map[string]string{
	"../../examples/acme_hmac_c/acme_hmac.c":     "../../examples/acme_hmac_c/acme_hmac_c.wasm",
	"../../examples/acme_hmac_as/acme_hmac.ts":   "../../examples/acme_hmac_as/acme_hmac_as.wasm",
	"../../examples/acme_hmac_rust/acme_hmac.rs": "../../examples/acme_hmac_rust/acme_hmac_rust.wasm",
}

// Compiling an example anew makes the module that is committed, byte by byte.
func TestExampleSources(t *testing.T) {
	for source, module := range examples {
		if !bytes.Equal(read(t, module), read(t, compile(t, source))) {
			t.Errorf("%s is not what %s compiles to: run make languages", module, source)
		}
	}
}

// compile compiles a plugin in C, AssemblyScript or Rust, and returns the path of the module.
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
	if filepath.Ext(source) == ".rs" {
		read(t, crate)
		read(t, "../../sdk/rust/keywright.args")
		run(t, "/usr/bin/rustc", "@../../sdk/rust/keywright.args", "-o", out, source) // Debian's, as of all compilers
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
