package lease_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

const canary = "canary-5b1f0c77"

var grantKey = lease.Key{Name: canary}

func stateKey() []byte {
	key := make([]byte, 32)
	rand.Read(key)
	return key
}

func newNode(t *testing.T, store state.Store, keys ...[]byte) *lease.Node {
	t.Helper()
	return configured(t, lease.Config{Store: store, Keys: keys})
}

func configured(t *testing.T, c lease.Config) *lease.Node {
	t.Helper()
	return testworld.Must(lease.NewNode(t.Context(), c))(t)
}

// redeem takes a turn, and sends its token if it may. next is the next token.
func redeem(ctx context.Context, node *lease.Node, key lease.Key, seed, next string) (sent string, err error) {
	turn, err := node.Begin(ctx, key, []byte(seed), true)
	if err != nil {
		return "", err
	}
	defer turn.End(ctx)
	_, cancel, err := turn.Intent(ctx)
	if err != nil {
		return "", err
	}
	defer cancel()
	sent = string(turn.Token())
	turn.Done(ctx, []byte(next))
	return sent, nil
}

// sends fails the test unless a node sends this token of a grant. next is the next token.
func sends(t *testing.T, node *lease.Node, key lease.Key, seed, token, next string) {
	t.Helper()
	if sent, err := redeem(t.Context(), node, key, seed, next); sent != token || err != nil {
		t.Errorf("with the seed %q a node sends %q of the grant %s, %v, want %q", seed, sent, key.Name, err, token)
	}
}

// refuses fails the test unless a node sends no token of a grant, because of an error.
func refuses(t *testing.T, node *lease.Node, key lease.Key, seed string, want error) {
	t.Helper()
	if sent, err := redeem(t.Context(), node, key, seed, "never"); !errors.Is(err, want) {
		t.Errorf("with the seed %q a node sends %q, %v, want the error: %v", seed, sent, err, want)
	}
}

// stands fails the test unless a grant has this standing.
func stands(t *testing.T, node *lease.Node, key lease.Key, want lease.Standing) {
	t.Helper()
	if c, err := node.Look(t.Context(), key); err != nil || c.Standing != want {
		t.Errorf("the condition is %+v, %v, want %s", c, err, want)
	}
}

// recorder keeps the rows that were written, as somebody who reads and writes the database may.
type recorder struct {
	state.Store
	puts []state.ID
	put  map[state.ID][][]byte
	swap func(state.ID, state.Row) state.Row
}

func (r *recorder) Put(ctx context.Context, l state.Lease, value []byte, expires time.Duration, release bool) (bool, error) {
	r.puts = append(r.puts, l.ID)
	r.put[l.ID] = append(r.put[l.ID], bytes.Clone(value))
	return r.Store.Put(ctx, l, value, expires, release)
}

func (r *recorder) Get(ctx context.Context, id state.ID) (state.Row, error) {
	row, err := r.Store.Get(ctx, id)
	if r.swap != nil {
		row = r.swap(id, row)
	}
	return row, err
}

func newRecorder() *recorder {
	return &recorder{Store: state.NewMemory(time.Now), put: map[state.ID][][]byte{}}
}

// Of three nodes with a hundred callers each, one fetches.
func TestOneNodeFetches(t *testing.T) {
	store, key := state.NewMemory(time.Now), stateKey()
	var exchanges atomic.Int32
	var wg sync.WaitGroup
	for range 3 {
		node := newNode(t, store, key)
		for range 100 {
			wg.Go(func() {
				token, err := node.Fetch(t.Context(), lease.Key{}, func(context.Context) ([]byte, time.Duration, error) {
					return fmt.Append(nil, "token ", exchanges.Add(1)), time.Hour, nil
				})
				if err != nil || string(token.Value) != "token 1" {
					t.Errorf("Fetch returns %q, %v", token.Value, err)
				}
			})
		}
	}
	wg.Wait()
}

// hesitant is the store of a node that does nothing for a while after it has read the first row.
type hesitant struct {
	state.Store
	meanwhile func()
}

func (h *hesitant) Get(ctx context.Context, id state.ID) (state.Row, error) {
	row, err := h.Store.Get(ctx, id)
	if meanwhile := h.meanwhile; meanwhile != nil {
		h.meanwhile = nil
		meanwhile()
	}
	return row, err
}

// Of two nodes that start with an empty store, one makes the key of the names and a grant while the other one is on its way. Both
// have the same names.
func TestConcurrentStart(t *testing.T) {
	store, key := state.NewMemory(time.Now), stateKey()
	slow := newNode(t, &hesitant{store, func() {
		if err := newNode(t, store, key).Renew(t.Context(), grantKey, []byte("token")); err != nil {
			t.Error(err)
		}
	}}, key)
	stands(t, slow, grantKey, lease.Good)
}

// While one node gets the next token ahead, another one neither waits nor asks, and those who need a token have the old one.
// Afterwards they have the next one.
func TestOneNodeFetchesAhead(t *testing.T) {
	store, key := state.NewMemory(time.Now), stateKey()
	one, two := newNode(t, store, key), newNode(t, store, key)
	is := func(token lease.Token, err error, want string) {
		t.Helper()
		if err != nil || string(token.Value) != want {
			t.Errorf("a node has %q, %v, want %q", token.Value, err, want)
		}
	}
	none := func(context.Context) ([]byte, time.Duration, error) { return nil, 0, errors.New("asked once more") }
	next := func(value string, during func()) func(context.Context) ([]byte, time.Duration, error) {
		return func(context.Context) ([]byte, time.Duration, error) {
			during()
			return []byte(value), time.Hour, nil
		}
	}
	ctx := t.Context()
	first, err := one.Fetch(ctx, lease.Key{}, next("token 1", func() {}))
	is(first, err, "token 1")
	second, err := one.FetchAhead(ctx, lease.Key{}, first.Generation, next("token 2", func() {
		token, err := two.FetchAhead(ctx, lease.Key{}, first.Generation, none)
		is(token, err, "")
		token, err = two.Fetch(ctx, lease.Key{}, none)
		is(token, err, "token 1")
	}))
	is(second, err, "token 2")
	token, err := two.FetchAhead(ctx, lease.Key{}, first.Generation, none)
	is(token, err, "token 2")
	token, err = two.Fetch(ctx, lease.Key{}, none)
	is(token, err, "token 2")
	if _, err := one.FetchAhead(ctx, lease.Key{}, second.Generation, none); err == nil {
		t.Error("a failure has no error")
	}
	token, err = two.FetchAhead(ctx, lease.Key{}, second.Generation, next("token 3", func() {})) // the lease is free again
	is(token, err, "token 3")
}

// A node whose store fails does not ask ahead.
func TestNoFetchAheadWithoutStore(t *testing.T) {
	var degraded int
	node := configured(t, lease.Config{Store: state.NewMemory(time.Now), Keys: [][]byte{stateKey()}, Degraded: func(error) { degraded++ }})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := node.FetchAhead(ctx, lease.Key{}, 1, nil); err == nil || degraded != 0 {
		t.Errorf("%v, and %d token requests", err, degraded)
	}
}

// A dump of the store holds no name and no token. threats.md 107
func TestDumpHoldsNothing(t *testing.T) {
	store := newRecorder()
	node := newNode(t, store, stateKey())
	testworld.Must(redeem(t.Context(), node, grantKey, canary, canary+" 2"))(t)
	testworld.Check(t, node.Hold(t.Context(), grantKey, []byte(canary), time.Hour))
	for id, values := range store.put {
		for _, value := range values {
			if bytes.Contains(value, []byte("canary")) || bytes.Contains(id[:], []byte("canary")) {
				t.Errorf("row %x holds the canary", id)
			}
		}
	}
}

// A row that was copied to another place, or put back to what it was, is refused. threats.md 108
func TestMovedRows(t *testing.T) {
	store := newRecorder()
	node := newNode(t, store, stateKey())
	other := lease.Key{Name: "other"}
	for _, key := range []lease.Key{grantKey, other} {
		testworld.Must(redeem(t.Context(), node, key, "seed "+key.Name, "next"))(t)
	}
	grant, otherGrant := store.puts[1], store.puts[3]
	for name, swap := range map[string]func(state.ID, state.Row) state.Row{
		"copied": func(id state.ID, row state.Row) state.Row {
			if id == grant {
				row.Value = store.put[otherGrant][1]
			}
			return row
		},
		"older value": func(id state.ID, row state.Row) state.Row {
			row.Value = store.put[id][0]
			return row
		},
		"older row": func(id state.ID, row state.Row) state.Row {
			row.Value = store.put[id][0]
			row.Generation--
			return row
		},
		"no row": func(state.ID, state.Row) state.Row { return state.Row{} },
	} {
		store.swap = swap
		if sent, err := redeem(t.Context(), node, grantKey, "seed "+canary, "never"); !lease.Permanent(err) {
			t.Errorf("%s: a node sends %q, %v, want a permanent error", name, sent, err)
		}
	}
	store.swap = nil
	sends(t, node, grantKey, "seed "+canary, "next", "last")
}

// A row that a call of a node has read, and another call has written since, is not taken for one that was put back.
func TestLateReading(t *testing.T) {
	store := newRecorder()
	node := newNode(t, store, stateKey())
	testworld.Must(redeem(t.Context(), node, grantKey, "seed", "one"))(t)
	store.swap = func(_ state.ID, row state.Row) state.Row {
		store.swap = nil
		sends(t, node, grantKey, "seed", "one", "two")
		return row
	}
	sends(t, node, grantKey, "seed", "two", "three")
}

// A holder that was stopped for longer than its lease stores what it got, unless another node has sent the token meanwhile.
// threats.md 109
func TestStoppedHolder(t *testing.T) {
	for _, meanwhile := range []bool{false, true} {
		now := time.Now()
		store, key, ctx := state.NewMemory(func() time.Time { return now }), stateKey(), t.Context()
		stopped, other := newNode(t, store, key), newNode(t, store, key)
		turn := intending(t, stopped, grantKey, "seed")
		now = now.Add(time.Hour)
		want := "next"
		if meanwhile {
			want = "of the other"
			if _, err := redeem(ctx, other, grantKey, "seed", "never"); !errors.As(err, new(*lease.UncertainError)) {
				t.Errorf("another node that sees first that the lease is over gets %v, want an UncertainError", err)
			}
			now = now.Add(7 * time.Second)
			sends(t, other, grantKey, "seed", "seed", want)
		}
		turn.Done(ctx, []byte("next"))
		turn.End(ctx)
		sends(t, other, grantKey, "seed", want, "last")
	}
}

// A turn that was stopped before its intent, until another had its turn, sends nothing. threats.md 109
func TestStoppedBeforeIntent(t *testing.T) {
	now := time.Now()
	store, key, ctx := state.NewMemory(func() time.Time { return now }), stateKey(), t.Context()
	stopped, other := newNode(t, store, key), newNode(t, store, key)
	turn := testworld.Must(stopped.Begin(ctx, grantKey, []byte("seed"), true))(t)
	now = now.Add(time.Hour)
	sends(t, other, grantKey, "seed", "seed", "next")
	if _, _, err := turn.Intent(ctx); err == nil {
		t.Error("the late turn may send")
	}
	turn.End(ctx)
}

// No earlier seed comes back after a grant was lost. threats.md 110
func TestLostGrant(t *testing.T) {
	store, key, ctx := state.NewMemory(time.Now), stateKey(), t.Context()
	node, other := newNode(t, store, key), newNode(t, store, key)
	turn := intending(t, node, grantKey, "one")
	turn.Lost(ctx)
	turn.End(ctx)
	var lost *lease.LostError
	if sent, err := redeem(ctx, other, grantKey, "one", "never"); !errors.As(err, &lost) || lost.Refused {
		t.Errorf("another node sends %q, %v, want a LostError", sent, err)
	}
	stands(t, other, grantKey, lease.Lost)
	sends(t, other, grantKey, "two", "two", "three")
	refuses(t, node, grantKey, "one", lease.ErrSeedUsed)
}

// Nodes with one store have the same partitions, and other stores have others. Lists of parts that differ have different ones.
func TestPartitions(t *testing.T) {
	store, key := state.NewMemory(time.Now), stateKey()
	node, other := newNode(t, store, key), newNode(t, store, key)
	if node.Partition("a", "b") != other.Partition("a", "b") {
		t.Error("two nodes have different partitions for the same list")
	}
	seen := map[[32]byte]bool{newNode(t, state.NewMemory(time.Now), key).Partition("a", "b"): true}
	for _, parts := range [][]string{{}, {""}, {"", ""}, {"ab"}, {"a", "b"}, {"b", "a"}, {"a", "b", ""}} {
		partition := node.Partition(parts...)
		if seen[partition] {
			t.Errorf("%q has the partition of another list", parts)
		}
		seen[partition] = true
	}
}

// Errors about state keys hold no key. threats.md 111
func TestErrorsHoldNoStateKey(t *testing.T) {
	store := state.NewMemory(time.Now)
	newNode(t, store, []byte(canary+strings.Repeat("x", 32-len(canary))))
	for _, keys := range [][][]byte{nil, {[]byte(canary)}, {stateKey()}} {
		_, err := lease.NewNode(t.Context(), lease.Config{Store: store, Keys: keys})
		if err == nil || strings.Contains(err.Error(), canary) {
			t.Errorf("NewNode returns %v", err)
		}
	}
}

type downStore struct{ state.Store }

func (downStore) Get(context.Context, state.ID) (state.Row, error) { return state.Row{}, errFault }
