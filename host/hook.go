package host

import (
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/host/internal/testhook"
)

// init lets package hosttest run a plugin as plain Go. Through package testhook, hosttest also reads the memory of
// guests and the texts that they reveal. Embedders must not be able to do any of this.
func init() {
	testhook.NativePlugin = func(name string, guest sandbox.Guest, grants []string) any {
		return Plugin{Name: name, Grants: grants, guest: guest}
	}
}
