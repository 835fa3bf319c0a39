package lease_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

// A node sends no token while it closes and after that, whether the turn began before or after, and though store and lease allow it:
// nobody would wait for what becomes of it. Another node sends it. threats.md 115
func TestNoSendAfterClose(t *testing.T) {
	store, key := state.NewMemory(time.Now), stateKey()
	var node *lease.Node
	sends := func(when string, turn *lease.Turn) {
		t.Helper()
		if _, _, err := turn.Intent(t.Context()); err == nil || !strings.Contains(err.Error(), "is closing") {
			t.Errorf("%s, Intent returns %v", when, err)
		}
		turn.End(t.Context())
	}
	begin := func(name string) *lease.Turn {
		t.Helper()
		return testworld.Must(node.Begin(t.Context(), lease.Key{Name: name}, []byte("seed of "+name), true))(t)
	}
	var last, meanwhile *lease.Turn
	node = configured(t, lease.Config{
		Store: store, Keys: [][]byte{key},
		Sleep: func(context.Context, time.Duration) {
			sends("while the node closes", meanwhile)
			last.Done(t.Context(), []byte("next"))
		},
	})
	last, meanwhile = intended(t, node, "last"), begin("meanwhile")
	before := begin("before")
	testworld.Check(t, node.Close(t.Context()))
	sends("with a turn from before Close", before)
	sends("with a turn from after Close", begin("after"))
	other := newNode(t, store, key)
	for _, name := range []string{"meanwhile", "before", "after"} {
		if sent, err := redeem(t.Context(), other, lease.Key{Name: name}, "seed of "+name, "next"); err != nil || sent != "seed of "+name {
			t.Errorf("another node sends %q of the grant %s, %v", sent, name, err)
		}
	}
}
