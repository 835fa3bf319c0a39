package host

import (
	"context"

	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/host/internal/testhook"
)

// Package hosttest needs two things that no embedder should have: to run a plugin as plain Go, and to look into the
// memory of guests.

func init() {
	testhook.NativePlugin = func(name string, guest sandbox.Guest, grants []string) any {
		return Plugin{Name: name, Grants: grants, guest: guest}
	}
}

func observer(ctx context.Context) func(memory, blocks []byte) { return testhook.MemoryObserver(ctx) }
