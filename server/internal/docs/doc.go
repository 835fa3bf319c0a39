// Package docs has the tests that hold the documents of this repository to its code: the contract in ABI.md to package
// abi, the picture in ARCHITECTURE.md to the imports, and README.md to what happens when somebody pastes from it. They
// hold references to threats, rules and decisions to the pages that have these.
package docs
