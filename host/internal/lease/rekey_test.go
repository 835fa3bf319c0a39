package lease_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

func rekey(t *testing.T, node *lease.Node, want lease.Rekeyed) {
	t.Helper()
	if got, err := node.Rekey(t.Context()); err != nil || got != want {
		t.Errorf("Rekey returns %+v, %v, want %+v", got, err, want)
	}
}

// After Rekey the new state key alone opens all that the old one has sealed, and grants, what is held, and tokens are as
// before. threats.md 116
func TestRekey(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	store, before, after, ctx := state.NewMemory(clock), stateKey(), stateKey(), t.Context()
	config := lease.Config{Store: store, Keys: [][]byte{before}, Now: clock}
	node := configured(t, config)
	for i := range 20 {
		testworld.Must(redeem(ctx, node, lease.Key{Name: fmt.Sprint(i)}, "seed", fmt.Sprint("next ", i)))(t)
	}
	testworld.Check(t, node.Hold(ctx, grantKey, []byte("held"), time.Hour))
	testworld.Must(node.Fetch(ctx, grantKey, token))(t)
	now = now.Add(time.Minute)
	config.Keys = [][]byte{after, before}
	both := configured(t, config)
	rekey(t, both, lease.Rekeyed{Sealed: 23}) // and the name key
	rekey(t, both, lease.Rekeyed{Current: 23})
	config.Keys = [][]byte{after}
	only := configured(t, config)
	if got, err := only.Look(ctx, lease.Key{Name: "1"}); err != nil || got != (lease.Condition{Standing: lease.Good, Age: time.Minute}) {
		t.Errorf("the condition of a grant is %+v, %v", got, err)
	}
	for i := range 20 {
		sends(t, only, lease.Key{Name: fmt.Sprint(i)}, "seed", fmt.Sprint("next ", i), "last")
	}
	if held, ok, err := only.Take(ctx, grantKey); !ok || err != nil || string(held) != "held" {
		t.Errorf("Take returns %q, %v", held, err)
	}
	if got, err := only.Fetch(ctx, grantKey, nil); err != nil || string(got.Value) != "token" || got.ExpiresIn != 59*time.Minute {
		t.Errorf("Fetch returns %+v, %v", got, err)
	}
}

// Values that no key opens are counted and left. threats.md 116
func TestRekeyLeavesUnopened(t *testing.T) {
	store, before, after := state.NewMemory(time.Now), stateKey(), stateKey()
	node := newNode(t, store, before)
	for i := range 3 {
		testworld.Must(redeem(t.Context(), node, lease.Key{Name: fmt.Sprint(i)}, "seed", "next"))(t)
	}
	foreign := map[state.ID][]byte{}
	if err := store.Rows(t.Context(), func(id state.ID, row state.Row) error {
		if id == (state.ID{}) || len(foreign) == 2 {
			return nil
		}
		foreign[id] = bytes.Repeat([]byte{7}, 100*len(foreign)) // also one that is too short
		_, err := store.Reseal(t.Context(), id, row.Generation, foreign[id])
		return err
	}); err != nil {
		t.Fatal(err)
	}
	both := newNode(t, store, after, before)
	rekey(t, both, lease.Rekeyed{Sealed: 2, Unopened: 2})
	rekey(t, both, lease.Rekeyed{Current: 2, Unopened: 2})
	for id, value := range foreign {
		if row, err := store.Get(t.Context(), id); err != nil || !bytes.Equal(row.Value, value) {
			t.Errorf("Rekey has changed a value that does not open: %x, %v", row.Value, err)
		}
	}
}

// overtaken is a store in which somebody writes right before a grant is sealed anew.
type overtaken struct {
	state.Store
	write func()
}

func (o *overtaken) Reseal(ctx context.Context, id state.ID, generation int64, value []byte) (bool, error) {
	if write := o.write; write != nil && id != (state.ID{}) {
		o.write = nil
		write()
	}
	return o.Store.Reseal(ctx, id, generation, value)
}

// Rekey loses nothing that a node writes meanwhile, not even one that has sent a token and was stopped. threats.md 116
func TestRekeyAndWriters(t *testing.T) {
	now, ctx := time.Now(), t.Context()
	store := &overtaken{Store: state.NewMemory(func() time.Time { return now })}
	before, after := stateKey(), stateKey()
	node := newNode(t, store, before)
	testworld.Must(redeem(ctx, node, grantKey, "seed", "one"))(t)
	both := newNode(t, store, after, before)
	store.write = func() {
		sends(t, node, grantKey, "seed", "one", "two")
	}
	rekey(t, both, lease.Rekeyed{Sealed: 2})
	turn, err := both.Begin(ctx, grantKey, []byte("seed"), true)
	if err != nil || string(turn.Token()) != "two" {
		t.Fatalf("turn.Token() = %q, err = %v", turn.Token(), err)
	}
	if _, _, err := turn.Intent(ctx); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour)
	last := stateKey()
	rekey(t, newNode(t, store, last, after), lease.Rekeyed{Sealed: 2})
	turn.Done(ctx, []byte("three"))
	sends(t, newNode(t, store, last, after), grantKey, "seed", "three", "four")
	store.write = func() { // what is gone is not sealed
		if _, ok, err := both.Take(ctx, lease.Key{Name: "held"}); !ok || err != nil {
			t.Errorf("Take: %t, %v", ok, err)
		}
	}
	testworld.Check(t, both.Hold(ctx, lease.Key{Name: "held"}, []byte("held"), time.Hour))
	got, err := newNode(t, store, after, last).Rekey(ctx)
	if err != nil || got.Unopened != 0 || got.Sealed+got.Current > 3 {
		t.Errorf("Rekey returns %+v, %v", got, err)
	}
}

// Rekey ends with the first failure of the store.
func TestRekeyWithoutTheStore(t *testing.T) {
	store, before, after := &faulty{Store: state.NewMemory(time.Now)}, stateKey(), stateKey()
	newNode(t, store, before)
	node := newNode(t, store, after, before)
	store.turn(true)
	if got, err := node.Rekey(t.Context()); !errors.Is(err, errFault) || got != (lease.Rekeyed{}) || store.asked() != 1 {
		t.Errorf("Rekey returns %+v, %v after %d calls of the store", got, err, store.asked())
	}
	store.turn(false)
	rekey(t, node, lease.Rekeyed{Sealed: 1})
}

// interrupted is a source of randomness whose reader does something else before its first reading.
type interrupted struct {
	io.Reader
	first     sync.Once
	interrupt func()
}

func (i *interrupted) Read(p []byte) (int, error) {
	i.first.Do(i.interrupt)
	return i.Reader.Read(p)
}

// A node that starts while another one makes the key of the names waits for it. Both have the same names.
func TestANodeWaitsForTheKeyOfTheNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		config := lease.Config{Store: state.NewMemory(time.Now), Keys: [][]byte{stateKey()}}
		var partition [32]byte
		var starting sync.WaitGroup
		first := config
		first.Random = &interrupted{Reader: rand.Reader, interrupt: func() {
			starting.Go(func() {
				second, err := lease.NewNode(t.Context(), config)
				if err != nil {
					t.Error(err)
					return
				}
				partition = second.Partition("a")
			})
			synctest.Wait()
		}}
		node := configured(t, first)
		starting.Wait()
		if node.Partition("a") != partition {
			t.Error("the nodes have different names")
		}
	})
}

// A node that starts waits for the key of the names for twice the time of a lease and a call of the store, and no longer.
func TestSlowStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, begin := state.NewMemory(time.Now), time.Now()
		if _, ok, err := store.Acquire(t.Context(), state.ID{}, 0, 5*time.Minute); !ok || err != nil {
			t.Fatal(ok, err)
		}
		_, err := lease.NewNode(t.Context(), lease.Config{
			Store: store, Keys: [][]byte{stateKey()}, Lease: 30 * time.Second, StoreTimeout: 2 * time.Second,
		})
		if took := time.Since(begin); !errors.Is(err, context.DeadlineExceeded) || took != 62*time.Second {
			t.Errorf("after %s the error is %v", took, err)
		}
	})
}
