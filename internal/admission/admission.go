// Package admission decides whether a module that a stranger delivered may be compiled, and makes it pay for what it
// does.
//
// Admit reads every byte of a module once, in time that grows with its size alone, before any runtime sees it. It
// validates the module (WebAssembly 2.0 without vector instructions), holds it to the plugin contract and to Limits,
// and then writes a counter into it: fuel, which each function entry and each turn of a loop takes from, and without
// which the module stops. So a call needs no timer and no other goroutine to end, its start section included, and the
// same call on the same input always uses the same fuel.
//
// What is charged, in units of about 0.27 ns: an instruction 1, a division or a bulk operation a few, a call a few
// and more with each parameter and result, a call of the host 170, and on top of that bulk operations by length. A function pays for its code outside of loops when it is entered, a
// loop for its code outside of inner loops whenever its head is passed, whatever branches are then taken: nothing runs
// that is not paid for.
package admission

import (
	"fmt"

	"github.com/keywright/keywright/abi"
)

// Names of what admission adds to a module.
const (
	// FuelExport is the exported mutable i64 global that holds what is left of the fuel. It is below zero if, and only
	// if, the module ran out: then it has trapped.
	FuelExport = abi.ExportReserved + "fuel"

	startExport  = abi.ExportReserved + "start"
	globalExport = abi.ExportReserved + "global " // and the index of a mutable global
)

// Limits bound a module. None may be zero.
type Limits struct {
	// ModuleBytes bounds the module as delivered. Offsets are kept in 32 bits, so it is less than 2 GiB.
	ModuleBytes int
	// MemoryBytes bounds the memory that the module may ever have.
	MemoryBytes int
	// Fuel is how many units an instance begins with. At most 1<<60, it stays far from where subtracting wraps.
	Fuel int64
}

// pages returns the largest memory in pages of 64 KiB.
func (l Limits) pages() uint32 { return uint32(l.MemoryBytes >> 16) }

// What no plugin comes near to, and would only cost memory or time.
const (
	maxFunctions     = 20_000    // that a module defines
	maxBodyBytes     = 512 << 10 // of a function
	maxLocals        = 5_000     // of a function
	maxAllLocals     = 200_000   // of all functions
	maxNesting       = 500       // of blocks in a function
	maxTableElements = 10_000    // that all tables together may ever have
	maxTypes         = 5_000
	maxParams        = 200 // of a type
	maxResults       = 20  // of a type, and parameters of a block
	maxImports       = 1_000
	maxTables        = 100
	maxGlobals       = 1_000
	maxExports       = 5_000
	maxSegments      = 5_000  // of data, and of elements: no fuel is taken while an instance is made
	maxElements      = 20_000 // of all segments: with these, that takes 6 ms
	maxNameBytes     = 10_000
	maxReasons       = 20
)

// Global is a mutable global of a module, which is exported so that the host can put it back.
type Global struct {
	Export string // its name
	Type   byte   // an api.ValueType: i32, i64, f32 or f64
}

// Import is a function that a module imports.
type Import struct{ Module, Name string }

// Module is a module that has been admitted.
type Module struct {
	Wasm    []byte   // what to compile: the module with its fuel, without custom sections
	Globals []Global // every mutable number, but for the fuel itself
	Imports []Import // each once, in the order of the module
	Exports []string // the functions it exports, in the order of the module
	Start   string   // the export to run before any other, or "": what was the module's start function, () → ()

	MemoryMin, MemoryMax uint32 // in pages of 64 KiB; 0 and 0 when it has none
	Functions            int    // that it defines

	// NotPooled is the reason why no instance can serve two calls. It is "" when an instance is as good as new once its
	// memory and Globals are put back to what they were after initialisation, provided that its memory has not grown, and
	// that it neither trapped nor was ended by the host.
	NotPooled string
}

// Admit checks a module, and meters it. The error is a *RefusedError. The bytes are not kept, and may be changed
// afterwards.
func Admit(wasm []byte, limits Limits) (*Module, error) {
	return admit(wasm, limits, plugins)
}

func admit(wasm []byte, limits Limits, rules contract) (*Module, error) {
	if len(wasm) > limits.ModuleBytes {
		return nil, &RefusedError{Reasons: []Reason{{Function: -1, Text: fmt.Sprintf(
			"it has %d bytes, and %d are allowed: build it without debug information, or raise the limit",
			len(wasm), limits.ModuleBytes)}}}
	}
	m := &module{limits: limits, rules: rules}
	m.readAll(wasm)
	if len(m.reasons) == 0 {
		m.checkContract()
	}
	if len(m.reasons) > 0 {
		name(wasm, m.reasons)
		return nil, &RefusedError{Reasons: m.reasons}
	}
	return m.admitted(), nil
}
