// Package testhook lets package hosttest use internals of package host.
package testhook

import (
	"context"

	"github.com/keywright/keywright/host/internal/sandbox"
)

// NativePlugin returns a host.Plugin that runs guest natively, with the given name and grants. Package host sets it.
var NativePlugin func(name string, guest sandbox.Guest, grants []string) any

type observerKey struct{}

// WithMemoryObserver returns a context for host.New. A host made with it calls observe after each run of a guest, with
// the guest's memory and its memory blocks, before they are zeroed.
func WithMemoryObserver(ctx context.Context, observe func(memory, blocks []byte)) context.Context {
	return context.WithValue(ctx, observerKey{}, observe)
}

// MemoryObserver returns the function of WithMemoryObserver, or nil.
func MemoryObserver(ctx context.Context) func(memory, blocks []byte) {
	observe, _ := ctx.Value(observerKey{}).(func(memory, blocks []byte))
	return observe
}

type revealKey struct{}

// WithRevealObserver returns a context for host.New. A host made with it calls observe with each text that a guest
// reveals.
func WithRevealObserver(ctx context.Context, observe func(text string)) context.Context {
	return context.WithValue(ctx, revealKey{}, observe)
}

// RevealObserver returns the function of WithRevealObserver, or nil.
func RevealObserver(ctx context.Context) func(text string) {
	observe, _ := ctx.Value(revealKey{}).(func(text string))
	return observe
}

type randomKey struct{}

// WithRandom returns a context for host.New. In a host made with it, guests that ask for a number of random bytes get what random
// returns in place of the bytes in hex, unless that is empty.
func WithRandom(ctx context.Context, random func(bytes int64) string) context.Context {
	return context.WithValue(ctx, randomKey{}, random)
}

// Random returns the function of WithRandom, or nil.
func Random(ctx context.Context) func(bytes int64) string {
	random, _ := ctx.Value(randomKey{}).(func(bytes int64) string)
	return random
}

type explainKey struct{}

// WithExplanations returns a context for host.New. A host made with it calls observe with an explanation of each call of
// authenticate that counts, for people to read. Credentials in it are masked.
func WithExplanations(ctx context.Context, observe func(text string)) context.Context {
	return context.WithValue(ctx, explainKey{}, observe)
}

// Explanations returns the function of WithExplanations, or nil.
func Explanations(ctx context.Context) func(text string) {
	observe, _ := ctx.Value(explainKey{}).(func(text string))
	return observe
}

type codeKey struct{}

// WithCode returns a context for host.New. Hosts made with it share the code that they compile.
func WithCode(ctx context.Context, code *sandbox.Code) context.Context {
	return context.WithValue(ctx, codeKey{}, code)
}

// Code returns the code of WithCode, or nil.
func Code(ctx context.Context) *sandbox.Code {
	code, _ := ctx.Value(codeKey{}).(*sandbox.Code)
	return code
}
