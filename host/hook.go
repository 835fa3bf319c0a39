package host

import (
	"context"

	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/host/internal/testhook"
	"github.com/keywright/keywright/plugins"
)

// Package hosttest needs three things that no embedder should have: to run a plugin as plain Go, to do without the
// built-in plugins, and to look into the memory of guests.

func init() {
	testhook.NativePlugin = func(name string, guest sandbox.Guest, grants []string) any {
		return Plugin{Name: name, Grants: grants, guest: guest}
	}
}

func observer(ctx context.Context) func(memory, blocks []byte) { return testhook.MemoryObserver(ctx) }

func builtIns(ctx context.Context) [][]byte {
	if !testhook.BuiltIns(ctx) {
		return nil
	}
	return plugins.All()
}
