//go:build tinygo || wasip1

package sdk

import (
	"errors"

	pdk "github.com/extism/go-pdk"
)

var (
	registered Plugin
	// described is the document that the export describe returns.
	described string
)

// Register sets the plugin of this module, and asks for its description. Call it from an init function. TinyGo runs these
// while it compiles, so that the module has the description as data, and none of the code that makes it: that can be half of a
// plugin. TinyGo leaves the code in the module if it cannot run it, for example with an append that makes a list grow. Then
// it runs when the module initialises, and each call is charged its fuel.
func Register(p Plugin) {
	registered, described = p, describePlugin(p)
}

// Each export has its own function. One for all, with the code that the compiler inlines from the plugin, could be larger than
// the host accepts.

//go:wasmexport describe
func describe() int32 {
	if registered == nil { // the host runs describe before any other
		return done("", errors.New("no plugin is registered: call sdk.Register in a function init of package main"))
	}
	return done(described, nil)
}

//go:wasmexport validate
func validate() int32 { return done("", validateConfig(registered, guest{})) }

//go:wasmexport authenticate
func authenticate() int32 { return done(authenticateCall(registered, guest{})) }

//go:wasmexport consent
func consent() int32 { return done(consentCall(registered, guest{})) }

//go:wasmexport connect
func connect() int32 { return done("", connectCall(registered, guest{})) }

//go:wasmexport disconnect
func disconnect() int32 { return done("", disconnectCall(registered, guest{})) }

// done ends an export.
func done(output string, err error) int32 {
	if err != nil {
		pdk.SetErrorString(err.Error())
		return 1
	}
	pdk.OutputMemory(pdk.NewMemory(give(output), uint64(len(output))))
	return 0
}
