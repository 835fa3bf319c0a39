package lease_test

import (
	"context"
	"sync"
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

// beginExchange returns the right to ask for a token, which must be free.
func beginExchange(t *testing.T, node *lease.Node, key lease.Key) *lease.Exchange {
	t.Helper()
	_, x, err := node.BeginExchange(t.Context(), key, nil)
	if x == nil {
		t.Fatalf("there is no right to ask for a token: %v", err)
	}
	return x
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
	x := beginExchange(t, node, lease.Key{})
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
	x := beginExchange(t, late, lease.Key{})
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
	x := beginExchange(t, node, lease.Key{})
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

// seconds waits as many seconds as there were refusals.
func seconds(count int) time.Duration { return time.Duration(count) * time.Second }

// What one node was refused, no node asks again until the time is over. The time grows with each refusal by any node.
// threats.md 113
func TestSharedRefusals(t *testing.T) {
	now, ctx := time.Now(), t.Context()
	clock := func() time.Time { return now }
	config := lease.Config{Store: state.NewMemory(clock), Keys: [][]byte{stateKey()}, Now: clock}
	nodes := []*lease.Node{configured(t, config), configured(t, config), configured(t, config)}
	waits := func(want lease.Refusal) {
		t.Helper()
		for i, node := range nodes {
			got, err := node.Refusal(ctx, grantKey)
			if err != nil || got.Count != want.Count || string(got.Value) != string(want.Value) || got.Wait != want.Wait {
				t.Errorf("node %d has %+v, %v, want %+v", i, got, err, want)
			}
		}
	}
	waits(lease.Refusal{})
	for i, node := range nodes {
		if got, err := node.Refuse(ctx, grantKey, []byte("refused"), seconds); err != nil || got.Count != i+1 || got.Wait != seconds(i+1) {
			t.Errorf("refusal %d is %+v, %v", i, got, err)
		}
		waits(lease.Refusal{Value: []byte("refused"), Count: i + 1, Wait: seconds(i + 1)})
		now = now.Add(seconds(i) + time.Second/2)
		waits(lease.Refusal{Value: []byte("refused"), Count: i + 1, Wait: time.Second / 2})
		now = now.Add(time.Second / 2)
		waits(lease.Refusal{Value: []byte("refused"), Count: i + 1})
	}
	testworld.Check(t, nodes[1].Accept(ctx, grantKey))
	waits(lease.Refusal{})
	if err := nodes[1].Accept(ctx, grantKey); err != nil {
		t.Error("nothing is refused:", err)
	}
	if got, err := nodes[0].Refuse(ctx, grantKey, []byte("again"), seconds); err != nil || got.Count != 1 {
		t.Errorf("the first refusal after a token is %+v, %v", got, err)
	}
	now = now.Add(2 * time.Hour)
	waits(lease.Refusal{})
}

// Of refusals at the same time, one counts. threats.md 113
func TestConcurrentRefusals(t *testing.T) {
	store, key := state.NewMemory(time.Now), stateKey()
	nodes := []*lease.Node{newNode(t, store, key), newNode(t, store, key)}
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			if got, err := nodes[i%2].Refuse(t.Context(), grantKey, nil, func(int) time.Duration { return time.Hour }); err != nil || got.Count != 1 {
				t.Errorf("got = %+v, err = %v", got, err)
			}
		})
	}
	wg.Wait()
	if got, err := nodes[0].Refusal(t.Context(), grantKey); err != nil || got.Count != 1 || got.Wait <= 0 {
		t.Errorf("got = %+v, err = %v", got, err)
	}
}

// A refusal that comes after another node has written one changes nothing in the store. threats.md 113
func TestLateRefusal(t *testing.T) {
	store, key, ctx := newRecorder(), stateKey(), t.Context()
	other, pausing := newNode(t, store.Store, key), &hesitant{Store: store}
	node := newNode(t, pausing, key)
	pausing.meanwhile = func() {
		if _, err := other.Refuse(ctx, grantKey, nil, seconds); err != nil {
			t.Error(err)
		}
	}
	if got, err := node.Refuse(ctx, grantKey, nil, seconds); err != nil || got.Count != 1 || len(store.puts) != 0 {
		t.Errorf("%+v, %v, and the node writes %d rows", got, err, len(store.puts))
	}
}

// If nothing is refused any more, Accept changes nothing in the store.
func TestAcceptWithoutARefusal(t *testing.T) {
	store, ctx := newRecorder(), t.Context()
	node := newNode(t, store, stateKey())
	testworld.Must(node.Refuse(ctx, grantKey, nil, seconds))(t)
	var generations []int64
	for range 2 {
		testworld.Check(t, node.Accept(ctx, grantKey))
		row, err := store.Get(ctx, store.puts[1])
		if err != nil || row.Value != nil {
			t.Errorf("after Accept the row is %+v, %v", row, err)
		}
		generations = append(generations, row.Generation)
	}
	if generations[0] != generations[1] {
		t.Errorf("the generation is %d, and %d after a second Accept", generations[0], generations[1])
	}
}

// A refusal that somebody has changed or moved is none. threats.md 108
func TestMovedRefusal(t *testing.T) {
	store := newRecorder()
	node := newNode(t, store, stateKey())
	testworld.Must(node.Refuse(t.Context(), grantKey, nil, func(int) time.Duration { return time.Hour }))(t)
	store.swap = func(_ state.ID, row state.Row) state.Row {
		row.Value[len(row.Value)-1]++
		return row
	}
	if got, err := node.Refusal(t.Context(), grantKey); err != nil || got.Wait != 0 || got.Count != 0 {
		t.Errorf("got = %+v, err = %v", got, err)
	}
}
