// Package c has the SDK for plugins in C, as files. README.md beside them describes it.
package c

import _ "embed"

// The files that stand beside the sources of a plugin.
var (
	//go:embed keywright.h
	Header []byte // keywright.h, all that a plugin includes
	//go:embed keywright.cfg
	Options []byte // keywright.cfg, the options of clang
)
