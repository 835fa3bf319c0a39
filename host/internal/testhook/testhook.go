// Package testhook is the back door of package host for package hosttest.
package testhook

import (
	"context"

	"github.com/keywright/keywright/host/internal/sandbox"
)

// NativePlugin makes a host.Plugin of a guest that is not a module. Package host sets it.
var NativePlugin func(name string, guest sandbox.Guest, grants []string) any

type observerKey struct{}

// WithMemoryObserver makes host.New, when it is given the context, call observe with the memory of each guest that has
// run, and with its memory blocks, before either is freed.
func WithMemoryObserver(ctx context.Context, observe func(memory, blocks []byte)) context.Context {
	return context.WithValue(ctx, observerKey{}, observe)
}

// MemoryObserver returns what WithMemoryObserver was given, or nil.
func MemoryObserver(ctx context.Context) func(memory, blocks []byte) {
	observe, _ := ctx.Value(observerKey{}).(func(memory, blocks []byte))
	return observe
}

type revealKey struct{}

// WithRevealObserver makes host.New, when it is given the context, call observe with each text that a guest has revealed.
func WithRevealObserver(ctx context.Context, observe func(text string)) context.Context {
	return context.WithValue(ctx, revealKey{}, observe)
}

// RevealObserver returns what WithRevealObserver was given, or nil.
func RevealObserver(ctx context.Context) func(text string) {
	observe, _ := ctx.Value(revealKey{}).(func(text string))
	return observe
}
