package lease_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

// A refusal of the client leaves the token as it was, also within the turn, and a refusal of the token ends the grant.
func TestOutcomes(t *testing.T) {
	store, key, ctx := state.NewMemory(time.Now), stateKey(), t.Context()
	node, other := newNode(t, store, key), newNode(t, store, key)
	for _, intents := range []int{1, 2, 0} {
		turn := testworld.Must(node.Begin(ctx, grantKey, []byte("seed"), true))(t)
		for range intents {
			if _, _, err := turn.Intent(ctx); err != nil {
				t.Fatal(err)
			}
			if _, _, err := turn.Intent(ctx); err == nil {
				t.Error("a token may be sent while the one before has no answer")
			}
			turn.NotRedeemed(ctx)
		}
		turn.End(ctx)
		if _, _, err := turn.Intent(ctx); err == nil {
			t.Error("a token may be sent after End")
		}
	}
	for _, want := range []string{"seed", "seed"} { // the server lets it be used again
		turn := testworld.Must(other.Begin(ctx, grantKey, []byte("seed"), true))(t)
		if _, _, err := turn.Intent(ctx); err != nil || string(turn.Token()) != want {
			t.Fatalf("the token is %q, %v", turn.Token(), err)
		}
		turn.Done(ctx, nil)
	}
	turn := testworld.Must(other.Begin(ctx, grantKey, []byte("seed"), true))(t)
	if _, _, err := turn.Intent(ctx); err != nil {
		t.Fatal(err)
	}
	turn.Refused(ctx)
	turn.End(ctx)
	var lost *lease.LostError
	if sent, err := redeem(ctx, node, grantKey, "seed", "never"); !errors.As(err, &lost) || !lost.Refused {
		t.Errorf("after a refusal a node sends %q, %v, want a LostError", sent, err)
	}
}

// A grant without a seed begins and ends with consent, and each consent is good, whatever became of the one before.
func TestConsent(t *testing.T) {
	now := time.Now()
	store, key, ctx := state.NewMemory(func() time.Time { return now }), stateKey(), t.Context()
	node, other := newNode(t, store, key), newNode(t, store, key)
	standing := func(want lease.Standing) {
		t.Helper()
		got, err := other.Look(ctx, grantKey)
		now = now.Add(time.Minute)
		later, _ := other.Look(ctx, grantKey)
		if err != nil || got.Standing != want || want != lease.None && later.Age-got.Age != time.Minute {
			t.Errorf("the condition is %+v, and %+v a minute later, %v: want %d", got, later, err, want)
		}
		now = now.Add(-time.Minute)
	}
	unconnected := func() {
		t.Helper()
		standing(lease.None)
		if sent, err := redeem(ctx, other, grantKey, "", "never"); !errors.Is(err, lease.ErrNotConnected) {
			t.Errorf("without a grant a node sends %q, %v", sent, err)
		}
		if token, err := other.Forget(ctx, grantKey); token != nil || err != nil {
			t.Errorf("without a grant Forget returns %q, %v", token, err)
		}
	}
	unconnected()
	for consent, refused := range []bool{false, true} {
		testworld.Check(t, node.Renew(ctx, grantKey, fmt.Append(nil, "consent ", consent)))
		standing(lease.Good)
		turn := testworld.Must(other.Begin(ctx, grantKey, nil, true))(t)
		if _, _, err := turn.Intent(ctx); err != nil || string(turn.Token()) != fmt.Sprint("consent ", consent) {
			t.Errorf("a node sends %q, %v", turn.Token(), err)
		}
		standing(lease.Good)
		if refused {
			turn.Refused(ctx)
		}
		turn.End(ctx)
		standing(map[bool]lease.Standing{false: lease.Uncertain, true: lease.Refused}[refused])
	}
	testworld.Check(t, node.Renew(ctx, grantKey, []byte("last")))
	if token, err := other.Forget(ctx, grantKey); err != nil || string(token) != "last" {
		t.Errorf("Forget returns %q, %v", token, err)
	}
	unconnected()
}

// A seed that was sent is not sent again after its grant was forgotten. threats.md 110
func TestForgottenSeed(t *testing.T) {
	store, key, ctx := state.NewMemory(time.Now), stateKey(), t.Context()
	node := newNode(t, store, key)
	testworld.Must(redeem(ctx, node, grantKey, "one", "two"))(t)
	if token, err := node.Forget(ctx, grantKey); err != nil || string(token) != "two" {
		t.Errorf("Forget returns %q, %v", token, err)
	}
	for _, seed := range []string{"one", ""} {
		if sent, err := redeem(ctx, newNode(t, store, key), grantKey, seed, "never"); !errors.Is(err, lease.ErrNotConnected) {
			t.Errorf("after Forget a node with the seed %q sends %q, %v", seed, sent, err)
		}
	}
	if sent, err := redeem(ctx, node, grantKey, "three", "four"); err != nil || sent != "three" {
		t.Errorf("with a new seed a node sends %q, %v", sent, err)
	}
	if sent, err := redeem(ctx, node, grantKey, "one", "never"); !errors.Is(err, lease.ErrSeedUsed) {
		t.Errorf("with the earlier seed a node sends %q, %v", sent, err)
	}
}

// Without the store no grant is forgotten, and Forget says so.
func TestForgetWithoutTheStore(t *testing.T) {
	store, ctx := &faulty{Store: state.NewMemory(time.Now)}, t.Context()
	node := newNode(t, store, stateKey())
	testworld.Check(t, node.Renew(ctx, grantKey, []byte("consent")))
	store.turn(true)
	if token, err := node.Forget(ctx, grantKey); token != nil || !errors.Is(err, errFault) {
		t.Errorf("Forget returns %q, %v", token, err)
	}
	store.turn(false)
	if token, err := node.Forget(ctx, grantKey); string(token) != "consent" || err != nil {
		t.Errorf("Forget returns %q, %v", token, err)
	}
}

// Of many who take what is held, one gets it.
func TestTakenOnce(t *testing.T) {
	store, key, ctx := state.NewMemory(time.Now), stateKey(), t.Context()
	nodes := []*lease.Node{newNode(t, store, key), newNode(t, store, key)}
	if value, ok, err := nodes[0].Take(ctx, grantKey); ok || err != nil {
		t.Errorf("nothing is held, and Take returns %q, %v", value, err)
	}
	testworld.Check(t, nodes[0].Hold(ctx, grantKey, []byte("held"), time.Hour))
	if err := nodes[1].Hold(ctx, grantKey, []byte("other"), time.Hour); !errors.Is(err, lease.ErrHeld) {
		t.Errorf("a second Hold returns %v", err)
	}
	var taken atomic.Int32
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			switch value, ok, err := nodes[i%2].Take(ctx, grantKey); {
			case err != nil || ok && string(value) != "held":
				t.Errorf("Take returns %q, %v", value, err)
			case ok:
				taken.Add(1)
			}
		})
	}
	wg.Wait()
	if taken.Load() != 1 {
		t.Errorf("%d have taken it", taken.Load())
	}
}

// What is held is gone when its time is over.
func TestHeldExpires(t *testing.T) {
	now := time.Now()
	node := newNode(t, state.NewMemory(func() time.Time { return now }), stateKey())
	testworld.Check(t, node.Hold(t.Context(), grantKey, []byte("held"), time.Minute))
	now = now.Add(time.Minute)
	if value, ok, err := node.Take(t.Context(), grantKey); ok || err != nil {
		t.Errorf("Take returns %q, %v", value, err)
	}
}

// A grant that another version has written in another form is an error that a new consent ends.
func TestUnknownGrantForm(t *testing.T) {
	node, ctx := newNode(t, state.NewMemory(time.Now), stateKey()), t.Context()
	testworld.Check(t, node.Overwrite(ctx, grantKey, []byte(`["another form"]`)))
	if sent, err := redeem(ctx, node, grantKey, "", "next"); err == nil || !lease.Permanent(err) {
		t.Errorf("a node sends %q, %v", sent, err)
	}
	testworld.Check(t, node.Renew(ctx, grantKey, []byte("renewed")))
	if sent, err := redeem(ctx, node, grantKey, "", "next"); sent != "renewed" || err != nil {
		t.Errorf("a node sends %q, %v", sent, err)
	}
}
