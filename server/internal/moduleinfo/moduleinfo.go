// Package moduleinfo lists what a WebAssembly module imports and exports.
package moduleinfo

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tetratelabs/wazero"
)

// Info describes a module.
type Info struct {
	Imports []string `json:"imports"` // of functions: module.name, in the module's order
	Exports []string `json:"exports"` // of functions, sorted
}

// Read looks into a module, which is not run. The module should have passed the host's admission: limits on what is
// expensive to compile are not checked here.
func Read(ctx context.Context, wasm []byte) (info Info, err error) {
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	defer runtime.Close(ctx)
	module, err := runtime.CompileModule(ctx, wasm)
	if err != nil {
		return Info{}, fmt.Errorf("not a module that can be read: %w", err)
	}
	for _, function := range module.ImportedFunctions() {
		from, name, _ := function.Import()
		info.Imports = append(info.Imports, from+"."+name)
	}
	info.Exports = slices.Sorted(maps.Keys(module.ExportedFunctions()))
	return info, nil
}
