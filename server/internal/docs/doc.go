// Package docs tests that the documents of this repository match its code: ABI.md matches package abi, the picture in
// ARCHITECTURE.md matches the imports, and the commands in README.md work when a reader pastes them. It also tests that
// references to threats, rules and cases have a target.
package docs
