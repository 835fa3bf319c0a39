//go:build tinygo || wasip1

package sdk

import pdk "github.com/extism/go-pdk"

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
	registered = p
	described = describePlugin(p)
}

// Each export has its own function. One for all, with the code that the compiler inlines from the plugin, could be larger than
// the host accepts.

//go:wasmexport describe
func describe() int32 {
	if registered == nil {
		return unregistered()
	}
	return succeed(described)
}

//go:wasmexport validate
func validate() int32 {
	if registered == nil {
		return unregistered()
	}
	return done(validateConfig(registered, guest{}))
}

//go:wasmexport authenticate
func authenticate() int32 {
	if registered == nil {
		return unregistered()
	}
	output, err := authenticateCall(registered, guest{})
	if err != nil {
		return fail(err.Error())
	}
	return succeed(output)
}

//go:wasmexport consent
func consent() int32 {
	if registered == nil {
		return unregistered()
	}
	output, err := consentCall(registered, guest{})
	if err != nil {
		return fail(err.Error())
	}
	return succeed(output)
}

//go:wasmexport connect
func connect() int32 {
	if registered == nil {
		return unregistered()
	}
	return done(connectCall(registered, guest{}))
}

//go:wasmexport disconnect
func disconnect() int32 {
	if registered == nil {
		return unregistered()
	}
	return done(disconnectCall(registered, guest{}))
}

// done ends an export without an output.
func done(err error) int32 {
	if err != nil {
		return fail(err.Error())
	}
	return succeed("")
}

func unregistered() int32 {
	return fail("no plugin is registered: call sdk.Register in a function init of package main")
}

func fail(message string) int32 {
	pdk.SetErrorString(message)
	return 1
}

func succeed(output string) int32 {
	pdk.OutputMemory(pdk.NewMemory(give(output), uint64(len(output))))
	return 0
}
