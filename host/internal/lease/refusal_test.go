package lease_test

import (
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
)

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
