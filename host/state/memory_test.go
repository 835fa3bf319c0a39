package state_test

import (
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/host/state/statetest"
)

// clock is a clock that stands unless a test advances it.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestMemory(t *testing.T) {
	c := &clock{now: time.Unix(1_800_000_000, 0)}
	statetest.Run(t, statetest.Suite{
		New:     func(*testing.T) state.Store { return state.NewMemory(c.Now) },
		Advance: func(_ *testing.T, _ state.Store, d time.Duration) { c.advance(d) },
		Sweep:   func(_ *testing.T, s state.Store) { state.Sweep(s) },
	})
}

// A store of NewMemory without a clock has that of the machine, as all that has a clock in this module.
func TestMemoryWithoutAClock(t *testing.T) {
	_, taken, err := state.NewMemory(nil).Acquire(t.Context(), state.ID{1}, 0, time.Minute)
	if err != nil || !taken {
		t.Errorf("Acquire = %t, %v", taken, err)
	}
}

// A store in memory forgets rows that have expired by itself, and no others.
func TestMemorySweepsItself(t *testing.T) {
	c := &clock{now: time.Unix(1_800_000_000, 0)}
	store := state.NewMemory(c.Now)
	for i := range 10_000 {
		id, expires := state.ID{byte(i), byte(i >> 8)}, time.Second
		if i < 10 {
			expires = 0
		}
		lease, _, err := store.Acquire(t.Context(), id, 0, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if ok, err := store.Put(t.Context(), lease, []byte("value"), expires, true); !ok || err != nil {
			t.Fatalf("Put = %t, %v", ok, err)
		}
		c.advance(time.Second)
	}
	if n := state.Rows(store); n > 1024 {
		t.Errorf("the store has %d rows", n)
	}
	for i := range 10 {
		if row, err := store.Get(t.Context(), state.ID{byte(i)}); string(row.Value) != "value" || err != nil {
			t.Errorf("row %d is %q, %v", i, row.Value, err)
		}
	}
}
