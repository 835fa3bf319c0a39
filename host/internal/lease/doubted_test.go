package lease_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

// late is a store that loses a write: its caller gets an error, and the write arrives when the test calls arrive.
type late struct {
	state.Store
	// lose is set if the next write is lost.
	lose   bool
	arrive func()
	// meanwhile is called before the next reading.
	meanwhile func()
}

func (l *late) Put(ctx context.Context, held state.Lease, value []byte, expires time.Duration, release bool) (bool, error) {
	if l.lose {
		l.lose = false
		l.arrive = func() { _, _ = l.Store.Put(context.WithoutCancel(ctx), held, value, expires, release) }
		return false, errFault
	}
	return l.Store.Put(ctx, held, value, expires, release)
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
	if left := d.node.Flush(d.Context()); left != want {
		d.Fatalf("the node keeps %d records, want %d", left, want)
	}
}

// sends lets the other node send its token, which is want.
func (d *doubted) sends(want string) {
	d.Helper()
	if sent, err := redeem(d.Context(), d.other, grantKey, "seed", "last"); sent != want || err != nil {
		d.Errorf("another node sends %q, %v, want %q", sent, err, want)
	}
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
			turn := testworld.Must(d.other.Begin(d.Context(), grantKey, []byte("seed"), true))(d)
			if _, _, err := turn.Intent(d.Context()); err != nil {
				d.Fatal(err)
			}
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
	if left := node.Flush(ctx); left != 0 || node.Unsettled() != 0 {
		t.Errorf("the node keeps %d records and %d places", left, node.Unsettled())
	}
}

// A node forgets a grant whose next token the store has not taken. It returns the next token, which is the one to revoke.
func TestForgetReturnsTheNewestToken(t *testing.T) {
	now, ctx := time.Now(), t.Context()
	store := &late{Store: state.NewMemory(func() time.Time { return now })}
	node := newNode(t, store, stateKey())
	turn := testworld.Must(node.Begin(ctx, grantKey, []byte("seed"), true))(t)
	if _, _, err := turn.Intent(ctx); err != nil {
		t.Fatal(err)
	}
	store.lose = true
	turn.Done(ctx, []byte("next"))
	now = now.Add(time.Hour)
	if token, err := node.Forget(ctx, grantKey); string(token) != "next" || err != nil {
		t.Errorf("Forget returns %q, %v", token, err)
	}
}
