package lease_test

import (
	"context"
	"errors"
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

// A caller whose time is over while it waits for the turn of a grant learns what the wait was for.
func TestTurnTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, key := state.NewMemory(time.Now), stateKey()
		one, two := newNode(t, store, key), newNode(t, store, key)
		turn := testworld.Must(one.Begin(t.Context(), grantKey, []byte("seed"), true))(t)
		defer turn.End(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := two.Begin(ctx, grantKey, []byte("seed"), true); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "wait for another call with the grant") {
			t.Errorf("the error is %v", err)
		}
	})
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
