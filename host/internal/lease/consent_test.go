package lease_test

import (
	"testing"
	"time"

	"github.com/keywright/keywright/host/state"
)

// Each consent has a name of its own, for all nodes, which the grant keeps while its tokens rotate. So what was got with one
// consent is not taken for what another one brings.
func TestTheGrantOfAConsentHasAName(t *testing.T) {
	store, key, ctx := state.NewMemory(time.Now), stateKey(), t.Context()
	node, other := newNode(t, store, key), newNode(t, store, key)
	look := func() string {
		t.Helper()
		one, err := node.Look(ctx, grantKey)
		if err != nil {
			t.Fatal(err)
		}
		if two, err := other.Look(ctx, grantKey); err != nil || two.Grant != one.Grant {
			t.Errorf("the nodes see %x and %x, %v", one.Grant, two.Grant, err)
		}
		return one.Grant
	}
	seen := map[string]bool{"": true}
	for range 3 {
		if err := node.Renew(ctx, grantKey, []byte("consent")); err != nil {
			t.Fatal(err)
		}
		grant := look()
		if seen[grant] {
			t.Errorf("the grant %x was there before", grant)
		}
		seen[grant] = true
		if _, err := redeem(ctx, other, grantKey, "", "next"); err != nil {
			t.Fatal(err)
		}
		if got := look(); got != grant {
			t.Errorf("after its token rotated, the grant is %x, want %x", got, grant)
		}
	}
	if _, err := other.Forget(ctx, grantKey); err != nil {
		t.Fatal(err)
	}
	if got := look(); got != "" {
		t.Errorf("without a grant, it is %x", got)
	}
}
