// Package abi has the documents of the plugin contract, version 1, that programs and people meet: the description of an auth type, and
// pairs of names and values. ABI.md is the full specification, and a test keeps the two consistent.
//
// Both sides import this package: the host, and the SDK, which is compiled to WebAssembly. It adds no code to a guest beyond what
// the guest uses.
package abi

// Version is the version of the contract. A plugin states it in [Description].ABI.
const Version = 1

// Grants are rights that an operator may give to one plugin. No plugin has one by default.
const (
	// GrantSignRaw allows sign: raw signatures of bytes that the plugin chooses.
	GrantSignRaw = "sign_raw"
	// GrantReveal allows reveal: reading the bytes of sealed values.
	GrantReveal = "reveal"
)
