package lease_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

// faulty is a store that a test turns off. Calls that find it off fail, and are counted.
type faulty struct {
	state.Store
	mu    sync.Mutex
	off   bool
	calls int
}

func (f *faulty) turn(off bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.off, f.calls = off, 0
}

func (f *faulty) asked() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *faulty) fault() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.off {
		return errFault
	}
	return nil
}

func (f *faulty) Get(ctx context.Context, id state.ID) (state.Row, error) {
	if err := f.fault(); err != nil {
		return state.Row{}, err
	}
	return f.Store.Get(ctx, id)
}

func (f *faulty) Put(ctx context.Context, l state.Lease, value []byte, expires time.Duration, release bool) (bool, error) {
	if err := f.fault(); err != nil {
		return false, err
	}
	return f.Store.Put(ctx, l, value, expires, release)
}

func (f *faulty) Release(ctx context.Context, l state.Lease) error {
	if err := f.fault(); err != nil {
		return err
	}
	return f.Store.Release(ctx, l)
}

func (f *faulty) Reseal(ctx context.Context, id state.ID, generation int64, value []byte) (bool, error) {
	if err := f.fault(); err != nil {
		return false, err
	}
	return f.Store.Reseal(ctx, id, generation, value)
}

func token(context.Context) ([]byte, time.Duration, error) { return []byte("token"), time.Hour, nil }

// intended takes the turn of a grant and writes its intent.
func intended(t *testing.T, node *lease.Node, name string) *lease.Turn {
	t.Helper()
	return intending(t, node, lease.Key{Name: name}, "seed of "+name)
}

// intending takes the turn of a grant, and writes its intent.
func intending(t *testing.T, node *lease.Node, key lease.Key, seed string) *lease.Turn {
	t.Helper()
	turn := testworld.Must(node.Begin(t.Context(), key, []byte(seed), true))(t)
	if _, _, err := turn.Intent(t.Context()); err != nil {
		t.Fatal(err)
	}
	return turn
}

// After three failures in a row the store is not asked for a second, and then by one call. Grants fail at once, and tokens
// that may be fetched again are fetched. threats.md 112, 114
func TestStoreBreaker(t *testing.T) {
	now := time.Now()
	store := &faulty{Store: state.NewMemory(time.Now)}
	var degraded int
	node := configured(t, lease.Config{
		Store: store, Keys: [][]byte{stateKey()}, Now: func() time.Time { return now },
		Degraded: func(error) { degraded++ },
	})
	ask := func(calls, wantAsked int) {
		t.Helper()
		before := store.asked()
		for range calls {
			if got, err := node.Fetch(t.Context(), lease.Key{}, token); err != nil || string(got.Value) != "token" {
				t.Errorf("Fetch returns %q, %v", got.Value, err)
			}
		}
		if asked := store.asked() - before; asked != wantAsked {
			t.Errorf("of %d calls the store was asked %d times, want %d", calls, asked, wantAsked)
		}
	}
	store.turn(true)
	ask(100, 3)
	var down *lease.StoreError
	if _, err := node.Begin(t.Context(), grantKey, []byte("seed"), true); !errors.As(err, &down) || !down.Paused || !errors.Is(err, errFault) {
		t.Errorf("Begin returns %v, want a StoreError", err)
	}
	now = now.Add(time.Second)
	ask(100, 1)
	now = now.Add(time.Second - 1)
	ask(100, 0)
	if degraded != 300 {
		t.Errorf("%d of 300 exchanges without the store were counted", degraded)
	}
	store.turn(false)
	now = now.Add(1)
	ask(1, 2) // reads, acquires, writes
	ask(1, 1)
	store.turn(true)
	ask(2, 2)
	store.turn(false)
	ask(1, 1)
	store.turn(true)
	ask(3, 3) // what failed before the store answered does not count
}

// A call whose caller has gone says nothing about the store. threats.md 114
func TestLeavingCallersPauseNothing(t *testing.T) {
	store := &faulty{Store: state.NewMemory(time.Now)}
	node := newNode(t, store, stateKey())
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 10 {
		if _, err := node.Fetch(gone, lease.Key{}, token); !errors.Is(err, context.Canceled) {
			t.Errorf("Fetch returns %v", err)
		}
	}
	if _, err := redeem(t.Context(), node, grantKey, "seed", "next"); err != nil {
		t.Error(err)
	}
}

// hanging is a store that does not answer.
type hanging struct{ state.Store }

func (hanging) Get(ctx context.Context, _ state.ID) (state.Row, error) {
	<-ctx.Done()
	return state.Row{}, ctx.Err()
}

// A store that hangs takes the time of a call, and no more. threats.md 114
func TestStoreHangs(t *testing.T) {
	store := newRecorder()
	over := time.Hour
	node := configured(t, lease.Config{
		Store: store, Keys: [][]byte{stateKey()}, StoreTimeout: 7 * time.Minute,
		Within: func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
			if d == 7*time.Minute {
				d = over
			}
			return context.WithTimeout(ctx, d)
		},
	})
	store.Store, over = hanging{store.Store}, time.Nanosecond
	if got, err := node.Fetch(t.Context(), lease.Key{}, token); err != nil || string(got.Value) != "token" {
		t.Errorf("Fetch returns %q, %v", got.Value, err)
	}
	var down *lease.StoreError
	if _, err := node.Begin(t.Context(), grantKey, []byte("seed"), true); !errors.As(err, &down) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Begin returns %v", err)
	}
}

// waiter is a store whose Wait is that of the test.
type waiter struct {
	state.Store
	wait func(ctx context.Context) error
}

func (w waiter) Wait(ctx context.Context, _ state.ID, _ int64) error { return w.wait(ctx) }

// deaf hears of no change.
func deaf(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// A wait ends with the lease, even if the store does not say so, and with its caller, who learns what the wait was for. threats.md 114
func TestWaitsEnd(t *testing.T) {
	now := time.Now()
	memory, key := state.NewMemory(func() time.Time { return now }), stateKey()
	holder := newNode(t, memory, key)
	patient := configured(t, lease.Config{
		Store: waiter{memory, deaf}, Keys: [][]byte{key}, Lease: time.Minute,
		Within: func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
			if d <= 10*time.Second || d > time.Minute { // a call of the store, or the start
				return ctx, func() {}
			}
			now = now.Add(d)
			return context.WithTimeout(ctx, 0)
		},
	})
	testworld.Must(holder.Begin(t.Context(), grantKey, []byte("seed"), true))(t)
	turn := testworld.Must(patient.Begin(t.Context(), grantKey, []byte("seed"), true))(t)
	gone, cancel := context.WithCancel(t.Context())
	impatient := newNode(t, waiter{memory, func(ctx context.Context) error {
		cancel()
		return deaf(ctx)
	}}, key)
	_, err := impatient.Begin(gone, grantKey, []byte("seed"), true)
	if testworld.WantError(t, "Begin returns", err, "wait for another call with the grant"); !errors.Is(err, context.Canceled) {
		t.Errorf("Begin returns %v, want context.Canceled", err)
	}
	synctest.Test(t, func(t *testing.T) {
		hurried, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := newNode(t, waiter{memory, deaf}, key).Begin(hurried, grantKey, []byte("seed"), true)
		if !errors.Is(err, lease.ErrBusy) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Begin returns %v, want ErrBusy", err)
		}
	})
	turn.End(t.Context())
}

// What the store does not confirm takes up places. Without a place no token is sent, and when the store answers again, all is
// written. threats.md 115
func TestUnwrittenBound(t *testing.T) {
	now := time.Now()
	store := &faulty{Store: state.NewMemory(time.Now)}
	node := configured(t, lease.Config{Store: store, Keys: [][]byte{stateKey()}, Unwritten: 3, Now: func() time.Time { return now }})
	turns := []*lease.Turn{intended(t, node, "0"), intended(t, node, "1"), intended(t, node, "2")}
	refused := func() {
		t.Helper()
		turn := testworld.Must(node.Begin(t.Context(), lease.Key{Name: "3"}, []byte("seed of 3"), true))(t)
		if _, _, err := turn.Intent(t.Context()); err == nil || !strings.Contains(err.Error(), "3 tokens") {
			t.Errorf("Intent returns %v", err)
		}
		turn.End(t.Context())
	}
	refused()
	store.turn(true)
	for i, turn := range turns {
		turn.Done(t.Context(), fmt.Append(nil, "next ", i))
	}
	if got := node.Unwritten(); got != 3 {
		t.Errorf("%d grants are not written", got)
	}
	now = now.Add(time.Second)
	store.turn(false)
	refused()
	if left := node.Flush(t.Context()); left != 0 {
		t.Errorf("%d records are left", left)
	}
	for i := range turns {
		name := fmt.Sprint(i)
		sends(t, node, lease.Key{Name: name}, "seed of "+name, "next "+name, "last")
	}
	for range 10 { // all outcomes give their places back
		turn := intended(t, node, "a")
		turn.NotRedeemed(t.Context())
		if _, _, err := turn.Intent(t.Context()); err != nil {
			t.Fatal(err)
		}
		turn.Done(t.Context(), nil)
	}
	for i := range 5 {
		intended(t, node, fmt.Sprint("unknown ", i)).End(t.Context())
		intended(t, node, fmt.Sprint("refused ", i)).Refused(t.Context())
	}
}

// Close waits until what became of all tokens is written. threats.md 115
func TestCloseWaits(t *testing.T) {
	var now time.Time
	var slept []time.Duration
	store := &faulty{Store: state.NewMemory(time.Now)}
	var turn *lease.Turn
	key := stateKey()
	node := configured(t, lease.Config{
		Store: store, Keys: [][]byte{key}, Now: func() time.Time { return now },
		Sleep: func(_ context.Context, d time.Duration) {
			slept = append(slept, d)
			now = now.Add(d)
			switch len(slept) {
			case 1:
				turn.Done(t.Context(), []byte("next"))
			case 10:
				store.turn(false)
			}
		},
	})
	turn = intended(t, node, "a")
	store.turn(true)
	testworld.Check(t, node.Close(t.Context()))
	if len(slept) < 10 || slept[1] != 2*slept[0] || slept[9] != 3*time.Second {
		t.Errorf("Close waited %v", slept)
	}
	sends(t, newNode(t, store, key), lease.Key{Name: "a"}, "seed of a", "next", "last")
}

// Close ends with its context, and says how many grants may be lost. threats.md 115
func TestCloseGivesUp(t *testing.T) {
	store := &faulty{Store: state.NewMemory(time.Now)}
	ctx, cancel := context.WithCancel(t.Context())
	node := configured(t, lease.Config{Store: store, Keys: [][]byte{stateKey()}, Sleep: func(context.Context, time.Duration) { cancel() }})
	turns := []*lease.Turn{intended(t, node, "a"), intended(t, node, "b")}
	store.turn(true)
	for _, turn := range turns {
		turn.Done(ctx, []byte("next"))
	}
	testworld.WantError(t, "Close returns", node.Close(ctx), "2 tokens")
}

// While Run runs, what the store did not take is written without another call. threats.md 115
func TestRunWrites(t *testing.T) {
	store := &faulty{Store: state.NewMemory(time.Now)}
	var passed atomic.Int64
	key := stateKey()
	begin := time.Now()
	node := configured(t, lease.Config{
		Store: store, Keys: [][]byte{key}, Now: func() time.Time { return begin.Add(time.Duration(passed.Load())) },
		Sleep: func(context.Context, time.Duration) {
			if passed.Add(int64(time.Second)) == 5*int64(time.Second) {
				store.turn(false)
			}
		},
	})
	turn := intended(t, node, "a")
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { node.Run(ctx) })
	store.turn(true)
	turn.Done(ctx, []byte("next"))
	sends(t, newNode(t, store.Store, key), lease.Key{Name: "a"}, "seed of a", "next", "last")
	cancel()
	running.Wait()
}

// A node sends no token while it closes and after that, whether the turn began before or after, and though store and lease allow it:
// nobody would wait for what becomes of it. Another node sends it. threats.md 115
func TestNoSendAfterClose(t *testing.T) {
	store, key := state.NewMemory(time.Now), stateKey()
	var node *lease.Node
	sendsNothing := func(when string, turn *lease.Turn) {
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
			sendsNothing("while the node closes", meanwhile)
			last.Done(t.Context(), []byte("next"))
		},
	})
	last, meanwhile = intended(t, node, "last"), begin("meanwhile")
	before := begin("before")
	testworld.Check(t, node.Close(t.Context()))
	sendsNothing("with a turn from before Close", before)
	sendsNothing("with a turn from after Close", begin("after"))
	other := newNode(t, store, key)
	for _, name := range []string{"meanwhile", "before", "after"} {
		sends(t, other, lease.Key{Name: name}, "seed of "+name, "seed of "+name, "next")
	}
}

// acquirer counts the tries to acquire a row.
type acquirer struct {
	state.Store
	tries atomic.Int32
}

func (a *acquirer) Acquire(ctx context.Context, id state.ID, generation int64, d time.Duration) (state.Lease, bool, error) {
	a.tries.Add(1)
	return a.Store.Acquire(ctx, id, generation, d)
}

// A node that waits for the token of another one reads, and changes nothing in the store.
func TestWhoWaitsOnlyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, key := state.NewMemory(time.Now), stateKey()
		waits := &acquirer{Store: store}
		one, two := newNode(t, store, key), newNode(t, waits, key)
		var wg sync.WaitGroup
		_, err := one.Fetch(t.Context(), grantKey, func(ctx context.Context) ([]byte, time.Duration, error) {
			wg.Go(func() {
				if got, err := two.Fetch(t.Context(), grantKey, nil); err != nil || string(got.Value) != "token" {
					t.Errorf("the node that waits gets %q, %v", got.Value, err)
				}
			})
			synctest.Wait()
			return token(ctx)
		})
		wg.Wait()
		if n := waits.tries.Load(); n != 0 || err != nil {
			t.Errorf("the node that waits tried %d times to acquire the row; the other one gets %v", n, err)
		}
	})
}

// A store whose Wait fails is an error for who waits. It is not asked again and again. threats.md 114
func TestImpatientStore(t *testing.T) {
	now := time.Now()
	memory, key := state.NewMemory(func() time.Time { return now }), stateKey()
	testworld.Must(newNode(t, memory, key).Begin(t.Context(), grantKey, []byte("seed"), true))(t)
	node := newNode(t, waiter{memory, func(context.Context) error {
		now = now.Add(time.Hour)
		return errFault
	}}, key)
	var down *lease.StoreError
	if _, err := node.Begin(t.Context(), grantKey, []byte("seed"), true); !errors.As(err, &down) || !errors.Is(err, errFault) {
		t.Errorf("Begin returns %v, want a StoreError", err)
	}
}

// While nothing is left to write, Run does nothing. threats.md 115
func TestRunHasNothingToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		node := configured(t, lease.Config{
			Store: state.NewMemory(time.Now), Keys: [][]byte{stateKey()}, Sleep: func(context.Context, time.Duration) {
				t.Error("Run is about to try again")
				cancel()
			},
		})
		var running sync.WaitGroup
		running.Go(func() { node.Run(ctx) })
		synctest.Wait()
		if _, err := redeem(ctx, node, grantKey, "seed", "next"); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		cancel()
		running.Wait()
	})
}
