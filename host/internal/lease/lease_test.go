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
)

const canary = "canary-5b1f0c77"

var grantKey = lease.Key{Kind: lease.Rotating, Name: canary}

func stateKey() []byte {
	key := make([]byte, 32)
	rand.Read(key)
	return key
}

func newNode(t *testing.T, store state.Store, keys ...[]byte) *lease.Node {
	t.Helper()
	node, err := lease.NewNode(t.Context(), lease.Config{Store: store, Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// next is an exchange that answers with a token that follows the one sent.
func next(_ context.Context, token []byte) (lease.Answer, error) {
	return lease.Answer{Token: append(token, '+'), Value: append([]byte("access "), token...), TTL: time.Hour}, nil
}

func never(context.Context, []byte) (lease.Answer, error) {
	return lease.Answer{}, errors.New("a token was sent")
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
				token, err := node.Fetch(t.Context(), lease.Key{Kind: lease.Fetched}, func(context.Context) ([]byte, time.Duration, error) {
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

// A dump of the store holds no name and no token. threats.md 107
func TestDumpHoldsNothing(t *testing.T) {
	store := newRecorder()
	node := newNode(t, store, stateKey())
	if _, err := node.Rotate(t.Context(), grantKey, []byte(canary), 0, next); err != nil {
		t.Fatal(err)
	}
	for id, values := range store.put {
		for _, value := range values {
			if bytes.Contains(value, []byte("canary")) || bytes.Contains(id[:], []byte("canary")) {
				t.Errorf("row %x holds the canary", id)
			}
		}
	}
}

// A row that was copied to another place, or put back to what it was, is refused. threats.md 108
func TestMovedRowsAreRefused(t *testing.T) {
	store := newRecorder()
	node := newNode(t, store, stateKey())
	other := lease.Key{Kind: lease.Rotating, Name: "other"}
	for _, key := range []lease.Key{grantKey, other} {
		if _, err := node.Rotate(t.Context(), key, []byte("seed "+key.Name), 0, next); err != nil {
			t.Fatal(err)
		}
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
		if token, err := node.Rotate(t.Context(), grantKey, []byte("seed "+canary), 0, never); err == nil || strings.Contains(err.Error(), "was sent") {
			t.Errorf("%s: Rotate returns %q, %v", name, token.Value, err)
		}
	}
	store.swap = nil
	if _, err := node.Rotate(t.Context(), grantKey, []byte("seed "+canary), 0, never); err != nil {
		t.Errorf("the row as it was: %v", err)
	}
}

// A holder that was stopped for longer than its lease sends nothing twice, and others are refused meanwhile. threats.md 109
func TestStoppedHolder(t *testing.T) {
	now := time.Now()
	store, key := state.NewMemory(func() time.Time { return now }), stateKey()
	stopped, other := newNode(t, store, key), newNode(t, store, key)
	_, err := stopped.Rotate(t.Context(), grantKey, []byte("seed"), 0, func(ctx context.Context, token []byte) (lease.Answer, error) {
		now = now.Add(time.Hour)
		var lost *lease.LostError
		if _, err := other.Rotate(ctx, grantKey, []byte("seed"), 0, never); !errors.As(err, &lost) {
			t.Errorf("another node gets %v, want a LostError", err)
		}
		return next(ctx, token)
	})
	if err != nil {
		t.Fatal(err)
	}
	if token, err := other.Rotate(t.Context(), grantKey, []byte("seed"), 0, never); err != nil || string(token.Value) != "access seed" {
		t.Errorf("after the holder went on, another node gets %q, %v", token.Value, err)
	}
}

// An exchange without an answer loses the grant until there is a new seed, and no earlier seed comes back. threats.md 110
func TestLostGrant(t *testing.T) {
	store, key := state.NewMemory(time.Now), stateKey()
	node, other := newNode(t, store, key), newNode(t, store, key)
	cut := errors.New("cut")
	var lost *lease.LostError
	if _, err := node.Rotate(t.Context(), grantKey, []byte("one"), 0, func(context.Context, []byte) (lease.Answer, error) {
		return lease.Answer{}, cut
	}); !errors.As(err, &lost) || !errors.Is(err, cut) {
		t.Errorf("Rotate returns %v, want a LostError", err)
	}
	if _, err := other.Rotate(t.Context(), grantKey, []byte("one"), 0, never); !errors.As(err, &lost) {
		t.Errorf("another node gets %v, want a LostError", err)
	}
	if token, err := other.Rotate(t.Context(), grantKey, []byte("two"), 0, next); err != nil || string(token.Value) != "access two" {
		t.Errorf("with a new seed Rotate returns %q, %v", token.Value, err)
	}
	if _, err := node.Rotate(t.Context(), grantKey, []byte("one"), 0, never); !errors.Is(err, lease.ErrSeedUsed) {
		t.Errorf("with the earlier seed Rotate returns %v, want ErrSeedUsed", err)
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

// A node with a new first state key reads what the old one sealed.
func TestStateKeysRotate(t *testing.T) {
	store, before, after := state.NewMemory(time.Now), stateKey(), stateKey()
	if _, err := newNode(t, store, before).Rotate(t.Context(), grantKey, []byte("seed"), 0, next); err != nil {
		t.Fatal(err)
	}
	if _, err := newNode(t, store, after, before).Rotate(t.Context(), grantKey, []byte("seed"), 0, never); err != nil {
		t.Error(err)
	}
}

// Without the store, a token that may be fetched again is, and one that may be used once is not sent. threats.md 112
func TestStoreDown(t *testing.T) {
	store := newRecorder()
	node := newNode(t, store, stateKey())
	ctx := t.Context()
	store.Store = downStore{store.Store}
	if _, err := node.Rotate(ctx, grantKey, []byte("seed"), 0, never); !errors.Is(err, errFault) {
		t.Errorf("Rotate returns %v, want the error of the store", err)
	}
	token, err := node.Fetch(ctx, lease.Key{Kind: lease.Fetched}, func(context.Context) ([]byte, time.Duration, error) {
		return []byte("token"), time.Hour, nil
	})
	if err != nil || string(token.Value) != "token" {
		t.Errorf("Fetch returns %q, %v", token.Value, err)
	}
}

type downStore struct{ state.Store }

func (downStore) Get(context.Context, state.ID) (state.Row, error) { return state.Row{}, errFault }
