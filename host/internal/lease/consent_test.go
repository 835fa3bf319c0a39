package lease_test

import (
	"testing"
	"time"

	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

// Each consent has a name of its own, for all nodes, which the grant keeps while its tokens rotate. So what was got with one
// consent is not taken for what another one brings.
func TestTheGrantOfAConsentHasAName(t *testing.T) {
	store, key, ctx := state.NewMemory(time.Now), stateKey(), t.Context()
	node, other := newNode(t, store, key), newNode(t, store, key)
	look := func() string {
		t.Helper()
		one := testworld.Must(node.Look(ctx, grantKey))(t)
		if two, err := other.Look(ctx, grantKey); err != nil || two.Grant != one.Grant {
			t.Errorf("the nodes see %x and %x, %v", one.Grant, two.Grant, err)
		}
		return one.Grant
	}
	seen := map[string]bool{"": true}
	for range 3 {
		testworld.Check(t, node.Renew(ctx, grantKey, []byte("consent")))
		grant := look()
		if seen[grant] {
			t.Errorf("the grant %x was there before", grant)
		}
		seen[grant] = true
		testworld.Must(redeem(ctx, other, grantKey, "", "next"))(t)
		if got := look(); got != grant {
			t.Errorf("after its token rotated, the grant is %x, want %x", got, grant)
		}
	}
	testworld.Must(other.Forget(ctx, grantKey))(t)
	if got := look(); got != "" {
		t.Errorf("without a grant, it is %x", got)
	}
}
