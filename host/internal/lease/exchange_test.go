package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

// slow is a store that takes its time to acquire a row.
type slow struct {
	state.Store
	pass func()
}

func (s slow) Acquire(ctx context.Context, id state.ID, generation int64, d time.Duration) (state.Lease, bool, error) {
	s.pass()
	return s.Store.Acquire(ctx, id, generation, d)
}

// Who has a lease may ask a token endpoint for two thirds of its time, from when the node asked for the lease. A token that may be used
// once is not sent later, and the grant is as it was.
func TestRequestsEndWithinTheLease(t *testing.T) {
	now, ctx := time.Now(), t.Context()
	var within time.Duration
	node := configured(t, lease.Config{
		Store: slow{state.NewMemory(time.Now), func() { now = now.Add(5 * time.Second) }}, Keys: [][]byte{stateKey()},
		Lease: 30 * time.Second, Now: func() time.Time { return now },
		Within: func(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
			within = d
			return context.WithCancel(ctx)
		},
	})
	_, x, err := node.BeginExchange(ctx, lease.Key{}, nil)
	if x == nil {
		t.Fatal(err)
	}
	now = now.Add(3 * time.Second)
	_, cancel := x.Within(ctx)
	defer cancel()
	if within != 12*time.Second {
		t.Errorf("the exchange has %s", within)
	}
	for _, after := range []time.Duration{0, 15*time.Second - 1, 15 * time.Second} {
		turn := testworld.Must(node.Begin(ctx, grantKey, []byte("seed"), true))(t)
		now = now.Add(after)
		left := 15*time.Second - after
		if _, _, err := turn.Intent(ctx); left > 0 && (err != nil || within != left) || left == 0 && err == nil {
			t.Errorf("after %s the token may be sent for %s, %v", after, within, err)
		}
		turn.NotRedeemed(ctx)
		turn.End(ctx)
	}
	if sent, err := redeem(ctx, node, grantKey, "seed", "next"); sent != "seed" || err != nil || node.Unwritten() != 0 {
		t.Errorf("a node sends %q, %v", sent, err)
	}
}

// A node that comes with its token after another one has acquired the lease stores nothing.
func TestALateExchange(t *testing.T) {
	now, ctx := time.Now(), t.Context()
	store, key := state.NewMemory(func() time.Time { return now }), stateKey()
	late, other := newNode(t, store, key), newNode(t, store, key)
	_, x, err := late.BeginExchange(ctx, lease.Key{}, nil)
	if x == nil {
		t.Fatal(err)
	}
	defer x.End(ctx)
	now = now.Add(time.Hour)
	testworld.Must(other.Fetch(ctx, lease.Key{}, token))(t)
	if generation := x.Put(ctx, []byte("late"), time.Hour); generation != 0 {
		t.Errorf("Put returns generation %d", generation)
	}
	if got, err := late.Fetch(ctx, lease.Key{}, nil); string(got.Value) != "token" || err != nil {
		t.Errorf("a node gets %q, %v", got.Value, err)
	}
}

// A token whose time is over is not stored.
func TestATokenWithoutATime(t *testing.T) {
	node, ctx := newNode(t, state.NewMemory(time.Now), stateKey()), t.Context()
	_, x, err := node.BeginExchange(ctx, lease.Key{}, nil)
	if x == nil {
		t.Fatal(err)
	}
	defer x.End(ctx)
	for _, ttl := range []time.Duration{-1, 0} {
		if generation := x.Put(ctx, []byte("token"), ttl); generation != 0 {
			t.Errorf("with %d ns Put returns generation %d", ttl, generation)
		}
	}
	if generation := x.Put(ctx, []byte("token"), time.Hour); generation == 0 {
		t.Error("a token with a time is not stored")
	}
}

// The time that a reading takes is not counted as time of the token.
func TestASlowReading(t *testing.T) {
	begin := time.Now()
	now, store := begin, newRecorder()
	store.Store = state.NewMemory(func() time.Time { return begin })
	node := configured(t, lease.Config{Store: store, Keys: [][]byte{stateKey()}, Now: func() time.Time { return now }})
	testworld.Must(node.Fetch(t.Context(), lease.Key{}, token))(t)
	store.swap = func(_ state.ID, row state.Row) state.Row {
		now = now.Add(time.Minute)
		return row
	}
	if got, err := node.Fetch(t.Context(), lease.Key{}, nil); err != nil || got.ExpiresIn != 59*time.Minute {
		t.Errorf("the token may be used for %s, %v", got.ExpiresIn, err)
	}
}
