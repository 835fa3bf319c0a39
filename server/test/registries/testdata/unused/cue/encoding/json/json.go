// Package json validates nothing.
package json

import "cuelang.org/go/cue/cuecontext"

func Validate(_ []byte, v cuecontext.Value) error { return v.Err() }
