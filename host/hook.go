package host

import (
	"context"

	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/host/internal/testhook"
)

// Package hosttest needs three things that no embedder should have: to run a plugin as plain Go, to look into the memory
// of guests, and to know what a guest was allowed to see.

func init() {
	testhook.NativePlugin = func(name string, guest sandbox.Guest, grants []string) any {
		return Plugin{Name: name, Grants: grants, guest: guest}
	}
}

func observer(ctx context.Context) func(memory, blocks []byte) { return testhook.MemoryObserver(ctx) }
