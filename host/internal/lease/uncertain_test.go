package lease_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

// attempts are nodes that send the token of a grant by turns. The clock is that of their store.
type attempts struct {
	*testing.T
	now   time.Time
	store state.Store
	key   []byte
	nodes []*lease.Node
}

func newAttempts(t *testing.T) *attempts {
	t.Helper()
	a := &attempts{T: t, now: time.Now(), key: stateKey()}
	a.store = state.NewMemory(func() time.Time { return a.now })
	a.nodes = []*lease.Node{newNode(t, a.store, a.key), newNode(t, a.store, a.key)}
	return a
}

// sends takes the turn on a node and returns it with its intent written. The nodes change their places.
func (a *attempts) sends() *lease.Turn {
	a.Helper()
	a.nodes[0], a.nodes[1] = a.nodes[1], a.nodes[0]
	turn := intending(a.T, a.nodes[0], grantKey, "seed")
	if string(turn.Token()) != "seed" {
		a.Fatalf("the token is %q", turn.Token())
	}
	return turn
}

// waits fails the test unless nobody sends the token for d, and not a moment longer.
func (a *attempts) waits(d time.Duration) {
	a.Helper()
	a.now = a.now.Add(d - time.Microsecond)
	for _, node := range a.nodes {
		var uncertain *lease.UncertainError
		if _, err := node.Begin(a.Context(), grantKey, []byte("seed"), true); !errors.As(err, &uncertain) || uncertain.Wait != time.Microsecond {
			a.Fatalf("a moment before the end of %s a node gets %v", d, err)
		}
	}
	a.now = a.now.Add(time.Microsecond)
}

// look lets a node see that the lease of an attempt is over.
func (a *attempts) look() {
	a.Helper()
	if _, err := a.nodes[1].Begin(a.Context(), grantKey, []byte("seed"), true); !errors.As(err, new(*lease.UncertainError)) {
		a.Fatalf("the first look returns %v, want an UncertainError", err)
	}
}

func (a *attempts) standing(want lease.Standing) {
	a.Helper()
	stands(a.T, a.nodes[0], grantKey, want)
}

// unknown is an outcome that nobody knows, after which the token stays for as long as the count says.
func unknown(count int) time.Duration { return time.Duration(count) * time.Minute }

// A token that was sent, and nobody knows what became of it, is sent again by one node, after waits that grow with the attempts until one
// has an outcome. An attempt that was not redeemed takes nothing back of those before. threats.md 300
func TestUncertainGrantResent(t *testing.T) {
	a, ctx := newAttempts(t), t.Context()
	for count := 1; count <= 3; count++ {
		if err := a.sends().Unknown(ctx, unknown); err.Wait != unknown(count) {
			t.Errorf("after attempt %d nobody sends for %s", count, err.Wait)
		}
		a.standing(lease.Uncertain)
		a.waits(unknown(count))
	}
	turn := a.sends()
	turn.NotRedeemed(ctx)
	turn.End(ctx)
	a.standing(lease.Uncertain)
	a.waits(unknown(3))
	a.sends().Done(ctx, nil)
	a.standing(lease.Good)
	a.sends().Unknown(ctx, unknown)
	a.waits(unknown(1))
}

// A caller that needs no token yet does not send one that may have been sent before.
func TestUncertainGrantWithoutNeed(t *testing.T) {
	a := newAttempts(t)
	a.sends().End(t.Context())
	a.now = a.now.Add(time.Hour)
	var uncertain *lease.UncertainError
	if _, err := a.nodes[0].Begin(t.Context(), grantKey, []byte("seed"), false); !errors.As(err, &uncertain) {
		t.Errorf("Begin returns %v", err)
	}
	a.sends()
}

// While an attempt may be on its way, nobody begins another: not before the lease is over by the clock of the store.
// threats.md 300
func TestUnseenAttemptEnd(t *testing.T) {
	a := newAttempts(t)
	for range 3 {
		a.sends()
		a.standing(lease.Good)
		a.now = a.now.Add(30*time.Second - 1)
		ctx, cancel := context.WithCancel(t.Context())
		waiting := newNode(t, waiter{a.store, func(ctx context.Context) error {
			cancel()
			return ctx.Err()
		}}, a.key)
		if _, err := waiting.Begin(ctx, grantKey, []byte("seed"), true); !errors.Is(err, context.Canceled) {
			t.Errorf("before the lease is over Begin returns %v", err)
		}
		a.now = a.now.Add(1)
		a.standing(lease.Uncertain)
		a.look()
		a.waits(7 * time.Second)
	}
}

// An outage of the store that is longer than the lease hides from the others that the token was redeemed. No node sends it again before
// the one that redeemed it has had time to write, also one that never met the outage. The seven seconds are of all nodes together.
// threats.md 300
func TestRedemptionWrittenAfterAnOutage(t *testing.T) {
	a, ctx := newAttempts(t), t.Context()
	store := &faulty{Store: a.store}
	a.nodes[0] = newNode(t, store, a.key)
	a.nodes[0], a.nodes[1] = a.nodes[1], a.nodes[0]
	turn := a.sends()
	store.turn(true)
	turn.Done(ctx, []byte("next"))
	a.now = a.now.Add(time.Hour)
	for i := range 7 {
		left := time.Duration(7-i) * time.Second
		var uncertain *lease.UncertainError
		if sent, err := redeem(ctx, newNode(t, a.store, a.key), grantKey, "seed", "never"); !errors.As(err, &uncertain) || uncertain.Wait != left {
			t.Errorf("a new node sends %q, %v, want to wait for %s", sent, err, left)
		}
		a.now = a.now.Add(time.Second)
	}
	a.now = a.now.Add(-1)
	store.turn(false)
	a.nodes[0].Flush(ctx)
	sends(t, newNode(t, a.store, a.key), grantKey, "seed", "next", "last")
}

// A node that writes what it redeemed while another one notes that its lease is over is not waited for.
func TestRedemptionWrittenDuringNote(t *testing.T) {
	a, ctx := newAttempts(t), t.Context()
	turn := a.sends()
	a.now = a.now.Add(time.Hour)
	noting := newNode(t, resealer{a.store, func() { turn.Done(ctx, []byte("next")) }}, a.key)
	sends(t, noting, grantKey, "seed", "next", "last")
}

// resealer is a store that calls before, and then reseals.
type resealer struct {
	state.Store
	before func()
}

func (r resealer) Reseal(ctx context.Context, id state.ID, generation int64, value []byte) (bool, error) {
	r.before()
	return r.Store.Reseal(ctx, id, generation, value)
}

// If the clock of the store is set back after the note, a node notes anew, and waits no longer than without that.
func TestUncertainGrantAfterClockSetBack(t *testing.T) {
	a := newAttempts(t)
	a.sends()
	a.now = a.now.Add(10 * time.Hour)
	a.look()
	a.now = a.now.Add(-2 * time.Hour)
	a.look()
	a.waits(7 * time.Second)
	a.sends()
}

// A refusal of a token that may have been redeemed before means that the grant is lost. threats.md 300
func TestRefusedUncertainGrant(t *testing.T) {
	a, ctx := newAttempts(t), t.Context()
	a.sends().End(ctx)
	a.waits(time.Second)
	if err := a.sends().Refused(ctx); err.Refused {
		t.Errorf("Refused returns %v", err)
	}
	a.standing(lease.Lost)
	a.now = a.now.Add(time.Hour)
	for _, node := range a.nodes {
		var lost *lease.LostError
		if sent, err := redeem(ctx, node, grantKey, "seed", "never"); !errors.As(err, &lost) || lost.Refused {
			t.Errorf("a node sends %q, %v, want a LostError", sent, err)
		}
	}
}

// A node whose store has just failed does not take an attempt for one without an outcome: the node that knows it may have failed, too.
// threats.md 300
func TestUncertainGrantAfterTheStoreFailed(t *testing.T) {
	a := newAttempts(t)
	now := a.now
	store := &faulty{Store: a.store}
	node := configured(t, lease.Config{Store: store, Keys: [][]byte{a.key}, Now: func() time.Time { return now }})
	holder := a.sends()
	a.now = a.now.Add(time.Minute)
	a.look()
	a.now = a.now.Add(time.Minute)
	store.turn(true)
	if _, err := node.Begin(t.Context(), grantKey, []byte("seed"), true); !errors.Is(err, errFault) {
		t.Fatal(err)
	}
	store.turn(false)
	for _, left := range []time.Duration{7 * time.Second, time.Second} {
		var uncertain *lease.UncertainError
		if _, err := node.Begin(t.Context(), grantKey, []byte("seed"), true); !errors.As(err, &uncertain) || uncertain.Wait != left {
			t.Errorf("Begin returns %v, want to wait for %s", err, left)
		}
		now = now.Add(6 * time.Second)
	}
	holder.Done(t.Context(), []byte("next"))
	sends(t, node, grantKey, "seed", "next", "last")
}

// Nodes of a version that sent no token again share the store: they send none that may have been sent, and what they have marked is
// uncertain: the grant is lost if the server refuses that.
func TestUncertainGrantOfOtherVersion(t *testing.T) {
	a, ctx := newAttempts(t), t.Context()
	for name, ends := range map[string]func(*lease.Turn){
		"unknown": func(turn *lease.Turn) { turn.End(ctx) },
		"lost":    func(turn *lease.Turn) { turn.Lost(ctx) },
	} {
		turn := a.sends()
		ends(turn)
		if text, err := a.nodes[0].Stored(ctx, grantKey); err != nil || !bytes.HasPrefix(text, []byte(`{"Mark":1,`)) {
			t.Errorf("%s: the record is %s, %v", name, text, err)
		}
		testworld.Check(t, a.nodes[0].Overwrite(ctx, grantKey, []byte(`{"Mark":1,"Token":"c2VlZA=="}`)))
		a.standing(lease.Uncertain)
		turn = intending(t, a.nodes[0], grantKey, "")
		if err := turn.Refused(ctx); err.Refused {
			t.Errorf("%s: the token may have been redeemed, and is said to be %v", name, err)
		}
		a = newAttempts(t)
	}
}

// The grants in the store are counted by their standing. What else is in it does not count, and neither does what no key opens.
func TestStandings(t *testing.T) {
	ctx := t.Context()
	store := state.NewMemory(time.Now)
	node := newNode(t, store, stateKey())
	grant := func(name string) *lease.Turn { return intended(t, node, name) }
	grant("good").Done(ctx, []byte("next"))
	grant("on its way")
	grant("uncertain").End(ctx)
	grant("lost").Lost(ctx)
	grant("refused").Refused(ctx)
	testworld.Check(t, errors.Join(node.Renew(ctx, lease.Key{Name: "gone"}, []byte("consent")), node.Hold(ctx, lease.Key{Name: "held"}, []byte("{}"), time.Hour)))
	testworld.Must(node.Forget(ctx, lease.Key{Name: "gone"}))(t)
	want := map[lease.Standing]int{lease.Good: 2, lease.Uncertain: 1, lease.Lost: 1, lease.Refused: 1}
	if got, err := node.Standings(ctx); err != nil || !maps.Equal(got, want) {
		t.Errorf("the grants are %v, %v, want %v", got, err, want)
	}
}
