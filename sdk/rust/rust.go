// Package rust has the SDK for plugins in Rust, as files. README.md beside them describes it.
package rust

import _ "embed"

// The files that stand beside the sources of a plugin.
var (
	//go:embed keywright.rs
	Module []byte // keywright.rs, the module keywright of a plugin
	//go:embed keywright.args
	Options []byte // keywright.args, the options of rustc
)
