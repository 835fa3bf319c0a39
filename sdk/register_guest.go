//go:build tinygo || wasip1

package sdk

import (
	pdk "github.com/extism/go-pdk"

	"github.com/keywright/keywright/abi"
)

var registered Plugin

// Register sets the plugin of this module. Call it from an init function.
func Register(p Plugin) { registered = p }

//go:wasmexport describe
func describe() int32 { return run(abi.ExportDescribe) }

//go:wasmexport validate
func validate() int32 { return run(abi.ExportValidate) }

//go:wasmexport authenticate
func authenticate() int32 { return run(abi.ExportAuthenticate) }

func run(export string) int32 {
	if registered == nil {
		pdk.SetErrorString("no plugin is registered: call sdk.Register in a function init of package main")
		return 1
	}
	output, err := Dispatch(registered, guest{}, export)
	if err != nil {
		pdk.SetErrorString(err.Error())
		return 1
	}
	pdk.OutputMemory(pdk.NewMemory(give(output), uint64(len(output))))
	return 0
}
