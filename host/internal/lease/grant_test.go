package lease_test

import (
	"context"
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
	for range 2 { // the server lets it be used again
		turn := intending(t, other, grantKey, "seed")
		if string(turn.Token()) != "seed" {
			t.Errorf("the token is %q", turn.Token())
		}
		turn.Done(ctx, nil)
	}
	turn := intending(t, other, grantKey, "seed")
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
			t.Errorf("the condition is %+v, and %+v a minute later, %v: want %s", got, later, err, want)
		}
		now = now.Add(-time.Minute)
	}
	unconnected := func() {
		t.Helper()
		standing(lease.None)
		refuses(t, other, grantKey, "", lease.ErrNotConnected)
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
		refuses(t, newNode(t, store, key), grantKey, seed, lease.ErrNotConnected)
	}
	sends(t, node, grantKey, "three", "three", "four")
	refuses(t, node, grantKey, "one", lease.ErrSeedUsed)
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
	for _, node := range nodes { // it stays there
		if got, err := node.Peek(ctx, grantKey); string(got) != "held" || err != nil {
			t.Errorf("%q is held, %v", got, err)
		}
	}
	if got, err := nodes[0].Peek(ctx, lease.Key{Name: "other"}); got != nil || err != nil {
		t.Errorf("under another key, %q is held, %v", got, err)
	}
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

// A grant that another version has written in another form, or with another mark, is an error that a new consent ends.
func TestUnknownGrantForm(t *testing.T) {
	for _, text := range []string{`["another form"]`, `{"Mark":3,"Token":"c2VlZA=="}`} {
		node, ctx := newNode(t, state.NewMemory(time.Now), stateKey()), t.Context()
		testworld.Check(t, node.Overwrite(ctx, grantKey, []byte(text)))
		if sent, err := redeem(ctx, node, grantKey, "", "next"); err == nil || !lease.Permanent(err) {
			t.Errorf("a node sends %q, %v", sent, err)
		}
		if all, err := node.Standings(ctx); len(all) > 0 || err != nil {
			t.Errorf("the grants of %s are %v, %v", text, all, err)
		}
		testworld.Check(t, node.Renew(ctx, grantKey, []byte("renewed")))
		sends(t, node, grantKey, "", "renewed", "next")
	}
}

// A grant of a newer version has a member that this one does not know, and is sent as any other.
func TestUnknownGrantMember(t *testing.T) {
	node, ctx := newNode(t, state.NewMemory(time.Now), stateKey()), t.Context()
	testworld.Check(t, node.Overwrite(ctx, grantKey, []byte(`{"Token":"c2VlZA==","Newer":[1]}`)))
	sends(t, node, grantKey, "", "seed", "next")
}

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
	names := map[string]bool{"": true}
	for range 3 {
		testworld.Check(t, node.Renew(ctx, grantKey, []byte("consent")))
		grant := look()
		if names[grant] {
			t.Errorf("the grant %x was there before", grant)
		}
		names[grant] = true
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

// late is a store that loses a write: its caller gets an error, and the write arrives when the test calls arrive.
type late struct {
	state.Store
	// lose is set if the next write is lost.
	lose   bool
	arrive func()
	// meanwhile is called before the next reading.
	meanwhile func()
}

func (l *late) Put(ctx context.Context, holder state.Lease, value []byte, expires time.Duration, release bool) (bool, error) {
	if l.lose {
		l.lose = false
		l.arrive = func() { _, _ = l.Store.Put(context.WithoutCancel(ctx), holder, value, expires, release) }
		return false, errFault
	}
	return l.Store.Put(ctx, holder, value, expires, release)
}

func (l *late) Get(ctx context.Context, id state.ID) (state.Row, error) {
	if meanwhile := l.meanwhile; meanwhile != nil {
		l.meanwhile = nil
		meanwhile()
	}
	return l.Store.Get(ctx, id)
}

// doubted is a node with an intent that the store has not confirmed, and another node.
type doubted struct {
	*testing.T
	now         time.Time
	key         []byte
	memory      state.Store
	store       *late
	node, other *lease.Node
}

func newDoubted(t *testing.T) *doubted {
	t.Helper()
	d := &doubted{T: t, now: time.Now(), key: stateKey()}
	d.memory = state.NewMemory(func() time.Time { return d.now })
	d.store = &late{Store: d.memory}
	d.node, d.other = newNode(t, d.store, d.key), newNode(t, d.memory, d.key)
	turn := testworld.Must(d.node.Begin(t.Context(), grantKey, []byte("seed"), true))(t)
	d.store.lose = true
	if _, _, err := turn.Intent(t.Context()); !errors.Is(err, errFault) {
		t.Fatalf("Intent returns %v", err)
	}
	turn.End(t.Context())
	return d
}

// leaves lets the node try once to write what the store does not have. want is the number of records that are left.
func (d *doubted) leaves(want int) {
	d.Helper()
	if remaining := d.node.Flush(d.Context()); remaining != want {
		d.Fatalf("the node keeps %d records, want %d", remaining, want)
	}
}

// sends lets the other node send its token, which is want.
func (d *doubted) sends(want string) {
	d.Helper()
	sends(d.T, d.other, grantKey, "seed", want, "last")
}

// An intent that the store has not confirmed, whether it arrives or not: the token was not sent, and can be sent afterwards, once. The
// node keeps nothing that nobody needs. threats.md 109, 115
func TestUnconfirmedIntent(t *testing.T) {
	for name, run := range map[string]func(d *doubted){
		"it has arrived": func(d *doubted) {
			d.store.arrive()
			d.store.Store = downStore{d.memory} // nothing has to be read
			d.leaves(0)
			d.sends("seed")
		},
		"it arrives late": func(d *doubted) {
			d.leaves(1)
			d.store.arrive()
			d.leaves(0)
			d.sends("seed")
		},
		"it arrives after a try to take it back": func(d *doubted) {
			d.store.meanwhile = d.store.arrive
			d.leaves(0)
			d.sends("seed")
		},
		"it arrives too late": func(d *doubted) {
			d.now = d.now.Add(time.Hour)
			d.leaves(0)
			d.store.arrive()
			d.sends("seed")
		},
		"another node has the turn": func(d *doubted) {
			d.now = d.now.Add(time.Hour)
			turn := intending(d.T, d.other, grantKey, "seed")
			d.leaves(0)
			turn.Done(d.Context(), []byte("next"))
			d.store.arrive()
			d.sends("next")
		},
	} {
		t.Run(name, func(t *testing.T) { run(newDoubted(t)) })
	}
}

// A new consent or a new seed that failed after it had acquired the row keeps the node from taking its intent back. The grant is
// uncertain, and a node whose store has not just failed sends its token.
func TestIrrevocableIntent(t *testing.T) {
	for name, begin := range map[string]func(ctx context.Context, failing *lease.Node) error{
		"consent": func(ctx context.Context, failing *lease.Node) error {
			return failing.Renew(ctx, grantKey, []byte("consent"))
		},
		"seed": func(ctx context.Context, failing *lease.Node) error {
			_, err := redeem(ctx, failing, grantKey, "another seed", "never")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDoubted(t)
			d.store.arrive()
			d.now = d.now.Add(time.Hour)
			failing := newNode(t, &late{Store: d.memory, lose: true}, d.key)
			if err := begin(t.Context(), failing); !errors.Is(err, errFault) {
				t.Fatalf("the error is %v", err)
			}
			d.now = d.now.Add(time.Hour)
			d.leaves(0)
			for _, node := range []*lease.Node{d.node, d.other} {
				if sent, err := redeem(t.Context(), node, grantKey, "seed", "never"); !errors.As(err, new(*lease.UncertainError)) {
					t.Errorf("a node sends %q, %v, want an UncertainError", sent, err)
				}
			}
			d.now = d.now.Add(7 * time.Second)
			d.sends("seed")
		})
	}
}

// A database that is put back lets a node acquire the same lease twice. If the store confirms neither intent, the node keeps no place for
// them in the end. threats.md 115
func TestTheSameLeaseTwice(t *testing.T) {
	now, ctx := time.Now(), t.Context()
	clock := func() time.Time { return now }
	store := &late{Store: state.NewMemory(clock)}
	node := newNode(t, store, stateKey())
	doubt := func(turn *lease.Turn, err error) {
		testworld.Check(t, err)
		store.lose = true
		if _, _, err := turn.Intent(ctx); !errors.Is(err, errFault) {
			t.Errorf("Intent returns %v", err)
		}
	}
	turn, err := node.Begin(ctx, grantKey, []byte("seed"), true)
	store.meanwhile = func() {
		doubt(turn, err)
		store.Store = state.NewMemory(clock)
	}
	doubt(node.Begin(ctx, grantKey, []byte("seed"), true))
	now = now.Add(time.Hour)
	if remaining := node.Flush(ctx); remaining != 0 || node.Unsettled() != 0 {
		t.Errorf("the node keeps %d records and %d places", remaining, node.Unsettled())
	}
}

// A node forgets a grant whose next token the store has not taken. It returns the next token, which is the one to revoke.
func TestForgetReturnsTheNewestToken(t *testing.T) {
	now, ctx := time.Now(), t.Context()
	store := &late{Store: state.NewMemory(func() time.Time { return now })}
	node := newNode(t, store, stateKey())
	turn := intending(t, node, grantKey, "seed")
	store.lose = true
	turn.Done(ctx, []byte("next"))
	now = now.Add(time.Hour)
	if token, err := node.Forget(ctx, grantKey); string(token) != "next" || err != nil {
		t.Errorf("Forget returns %q, %v", token, err)
	}
}
