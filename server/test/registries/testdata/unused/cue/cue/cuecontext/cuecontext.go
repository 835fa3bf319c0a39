// Package cuecontext has no values.
package cuecontext

import "cuelang.org/go/cue/load"

type (
	Context struct{}
	Value   struct{ err error }
)

func New() Context { return Context{} }

func (Context) BuildInstance(i *load.Instance) Value { return Value{i.Err} }

func (v Value) Err() error { return v.err }
