// Package admission decides whether a module of an untrusted author may be compiled, and writes into it a counter that bounds what it does.
//
// Admit reads every byte of a module once, before any runtime sees it, in time that grows only with the module's size. It validates the
// module (WebAssembly 2.0 without vector instructions) and checks it against the plugin contract and against Limits. Then it meters the
// module: it adds a global, the fuel, and code that takes from the fuel. Every function entry and every turn of a loop takes some. A module
// that runs out of fuel traps. So a call ends without a timer and without another goroutine, also in a start function, and the same call on
// the same input always uses the same fuel.
//
// This is a function before metering:
//
//	(func (param $n i32)
//	  (loop $again
//	    (memory.fill (i32.const 0) (i32.const 0) (local.get $n))
//	    (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
//
// And after it:
//
//	(func (param $n i32) (local $length i32)
//	  (global.set $fuel (i64.sub (global.get $fuel) (i64.const 2)))  ;; 2 units: loop, end
//	  (if (i64.lt_s (global.get $fuel) (i64.const 0)) (then unreachable))
//	  (loop $again
//	    (global.set $fuel (i64.sub (global.get $fuel) (i64.const 22)))  ;; 22 units for each turn
//	    (if (i64.lt_s (global.get $fuel) (i64.const 0)) (then unreachable))
//	    i32.const 0
//	    i32.const 0
//	    (local.tee $length (local.get $n))
//	    (call $charge (i64.shr_u (i64.extend_i32_u (local.get $length)) (i64.const 2)))  ;; a unit for 4 bytes
//	    memory.fill
//	    (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
//
// A unit of fuel is about 0.27 ns. An instruction costs 1 unit. A division costs 8, and a bulk operation 12 and more with its length. A
// call costs 8 and 2 for each parameter and result, and a call of a host function 170. Some host functions cost more with a length. A
// function pays for its code outside of loops when it is entered. A loop pays for its code outside of inner loops at each turn. Both pay
// for all branches, whichever are taken, so no code runs that has not been paid for.
package admission

import (
	"fmt"

	"github.com/keywright/keywright/internal/contract"
)

// Names of exports that Admit adds to a module.
const (
	// FuelExport is the name of the exported mutable i64 global that holds the remaining fuel. It is below zero if and
	// only if the module has run out of fuel and trapped.
	FuelExport = contract.ExportReserved + "fuel"

	startExport = contract.ExportReserved + "start"
	// The index of a mutable global follows globalExport.
	globalExport = contract.ExportReserved + "global "
)

// Limits holds the limits of a module. None may be zero.
type Limits struct {
	// ModuleBytes is the maximum size of the module as delivered. It must be less than 2 GiB, because offsets are kept in 32 bits.
	ModuleBytes int
	// MemoryBytes is the maximum size of the module's memory at first. The sandbox enforces it for a memory that grows.
	MemoryBytes int
	// Fuel is the number of units that an instance begins with. It must be at most 1<<60, so that subtracting from it never wraps.
	Fuel int64
}

// MaxPages is the number of pages of 64 KiB that WebAssembly can address.
const MaxPages = 1 << 16

func (l Limits) pages() uint32 { return uint32(l.MemoryBytes >> 16) }

// Limits that no plugin comes near. Modules beyond them would only cost memory or time.
const (
	maxFunctions     = 20_000    // defined by the module
	maxBodyBytes     = 512 << 10 // per function
	maxLocals        = 5_000     // per function
	maxAllLocals     = 200_000   // of all functions together
	maxNesting       = 500       // depth of blocks in a function
	maxTableElements = 10_000    // maximum size of all tables together
	maxTypes         = 5_000
	maxParams        = 200 // per type
	maxResults       = 20  // per type; also the limit of a block's parameters
	maxImports       = 1_000
	maxTables        = 100
	maxGlobals       = 1_000
	maxExports       = 5_000
	maxNameBytes     = 10_000
	maxReasons       = 20

	// Instantiation takes no fuel. So the numbers of data segments and of element segments are each limited, and that of
	// the elements of all element segments together. At these limits, instantiation takes 6 ms.
	maxSegments = 5_000
	maxElements = 20_000
)

// Import is a function that a module imports.
type Import struct{ Module, Name string }

// Module is an admitted module.
type Module struct {
	// Wasm is the metered module without custom sections. The host compiles this.
	Wasm []byte
	// Globals are the names under which Admit exports all mutable globals of a number type, except the fuel, so that the host can reset them.
	Globals []string
	// Imports are the imported functions, each once, in the order of the module.
	Imports []Import
	// Exports are the names of the module's own exported functions, in the order of the module.
	Exports []string
	// Start is the name of an export of type () → () that the host must call before any other, or "". It was the module's start function.
	Start string
	// NotPooled is the reason why an instance cannot serve more than one call. If it is "", the host may use an instance
	// again after it has reset the memory and Globals to their state after initialisation, provided that the initialisation
	// uses nothing of the host, that the memory has not grown, and that the instance neither trapped nor was ended by the host.
	NotPooled string
}

// Admit checks a module and meters it. Its error is a *RefusedError. It neither changes wasm nor keeps a reference to it.
func Admit(wasm []byte, limits Limits) (*Module, error) { return admit(wasm, limits, plugins) }

func admit(wasm []byte, limits Limits, rules ruleset) (*Module, error) {
	if len(wasm) > limits.ModuleBytes {
		return nil, &RefusedError{Reasons: []Reason{{Function: -1, Text: fmt.Sprintf(
			"it has %d bytes, and %d are allowed: build it without debug information, or raise the limit",
			len(wasm), limits.ModuleBytes)}}}
	}
	m := &module{
		limits: limits, rules: rules, segments: -1, start: -1,
		exports: map[string]exported{}, declared: map[uint32]bool{}, rewriting: rewriting{wrappers: map[uint32]uint32{}},
	}
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
