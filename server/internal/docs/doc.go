// Package docs tests that the documents of this repository match its code: ABI.md matches packages abi and contract, packages import
// only what they may, and the commands in README.md work when a reader pastes them. It also tests that references to threats, rules and
// cases have a target.
package docs
