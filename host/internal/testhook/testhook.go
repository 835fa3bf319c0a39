// Package testhook lets package hosttest use internals of package host.
package testhook

import (
	"context"

	"github.com/keywright/keywright/host/internal/sandbox"
)

// NativePlugin returns a host.Plugin that runs guest natively, with the given name and grants. Package host sets it.
var NativePlugin func(name string, guest sandbox.Guest, grants []string) any

// Hooks are functions and data for a host. Each may be nil.
type Hooks struct {
	// Memory is called after each run of a guest with the guest's memory and its memory blocks, before they are zeroed.
	Memory func(memory, blocks []byte)
	// Reveal is called with each text that a guest reveals.
	Reveal func(text string)
	// Random returns the random bytes that guests get, in hex, for a number of bytes. "" stands for those of the host.
	Random func(bytes int64) string
	// Explain is called with an explanation of each call of authenticate that counts, for people to read. Credentials in it are masked.
	Explain func(text string)
	// Code is the code that hosts with it compile, and share.
	Code *sandbox.Code
}

type hooksKey struct{}

// With returns a context for host.New, whose host has hooks.
func With(ctx context.Context, h Hooks) context.Context { return context.WithValue(ctx, hooksKey{}, h) }

// Of returns the hooks of a context.
func Of(ctx context.Context) Hooks {
	h, _ := ctx.Value(hooksKey{}).(Hooks)
	return h
}
