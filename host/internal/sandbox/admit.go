package sandbox

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/keywright/keywright/internal/abi"
)

// imports is what a guest may import: module, name, type.
type imports map[string]map[string]api.FunctionDefinition

// restrict takes away the functions of a module that are not named.
func (k imports) restrict(module string, names []string) {
	for name := range k[module] {
		if !slices.Contains(names, name) {
			delete(k[module], name)
		}
	}
}

// examine gives every reason why a module may not run. No reason is none.
func (k imports) examine(found outline, compiled wazero.CompiledModule) (reasons []string) {
	for _, i := range found.imports {
		if i.kind != kindFunction {
			reasons = append(reasons, fmt.Sprintf("it imports the %s %q %q, but a plugin has to bring its own",
				kindNames[i.kind], i.module, i.name))
		}
	}
	wasi := false
	for _, f := range compiled.ImportedFunctions() {
		if reason := k.examineImport(f); reason != "" {
			reasons = append(reasons, reason)
		}
		module, _, _ := f.Import()
		wasi = wasi || module == abi.ModuleWASI
	}
	if _, ok := compiled.ExportedMemories()["memory"]; wasi && !ok {
		reasons = append(reasons, `it imports WASI, so it has to export its memory as "memory"`)
	}
	for _, name := range found.exports {
		if strings.HasPrefix(name, abi.ExportReserved) {
			reasons = append(reasons, fmt.Sprintf("its export %q has a name that begins with %q, which is the host's: rename it",
				cutTo(name, 80), abi.ExportReserved))
		}
	}
	return append(reasons, examineExports(compiled.ExportedFunctions())...)
}

func (k imports) examineImport(f api.FunctionDefinition) string {
	module, name, _ := f.Import()
	text := fmt.Sprintf("it imports %q %q", cutTo(module, 80), cutTo(name, 80))
	allowed, ok := k[module][name]
	switch {
	case ok && signature(f) != signature(allowed):
		return fmt.Sprintf("%s as %s, but it is %s", text, signature(f), signature(allowed))
	case ok:
		return ""
	case module == abi.ModuleEnv && strings.HasPrefix(name, "http_"):
		return text + ": a plugin has no HTTP of its own; ask for tokens with token_request"
	case module == abi.ModuleEnv || module == abi.ModuleUser:
		return text + ": there is no such function in version 1 of the plugin contract; see ABI.md"
	case module == abi.ModuleWASI:
		return text + ": a plugin has no files and no sockets; leave out the code that needs them"
	case module == "env" && name == "abort":
		return text + ": build AssemblyScript with --use abort= and a function of your own"
	}
	return fmt.Sprintf("%s: only %s, %s and %s may be imported from; see ABI.md",
		text, abi.ModuleEnv, abi.ModuleUser, abi.ModuleWASI)
}

// examineExports checks what the contract says about exports. Others are not looked at.
func examineExports(functions map[string]api.FunctionDefinition) (reasons []string) {
	for _, e := range []struct {
		name     string
		required bool
		want     string
	}{
		{abi.ExportDescribe, true, "() → i32"},
		{abi.ExportValidate, false, "() → i32"},
		{abi.ExportAuthenticate, true, "() → i32"},
		{exportInitialize, false, "() → ()"},
	} {
		f, ok := functions[e.name]
		switch {
		case !ok && e.required:
			reasons = append(reasons, fmt.Sprintf("it has no function %q to export: add one of type %s", e.name, e.want))
		case ok && signature(f) != e.want:
			reasons = append(reasons, fmt.Sprintf("its export %q is %s, but has to be %s", e.name, signature(f), e.want))
		}
	}
	return reasons
}

// signature writes the type of a function, such as (i64, i32) → ().
func signature(f api.FunctionDefinition) string {
	list := func(types []api.ValueType) string {
		var names []string
		for _, t := range types {
			names = append(names, api.ValueTypeName(t))
		}
		return strings.Join(names, ", ")
	}
	results := list(f.ResultTypes())
	if len(f.ResultTypes()) != 1 {
		results = "(" + results + ")"
	}
	return "(" + list(f.ParamTypes()) + ") → " + results
}
