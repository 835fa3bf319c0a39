// Package assemblyscript has the SDK for plugins in AssemblyScript, as a file. README.md beside it describes it.
package assemblyscript

import _ "embed"

// Module is keywright.ts, all that a plugin imports.
//
//go:embed keywright.ts
var Module []byte
