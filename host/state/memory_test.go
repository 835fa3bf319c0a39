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
		Sweep:   func(_ *testing.T, s state.Store) { s.(*state.Memory).Sweep() },
	})
}

// A Memory without a clock has that of the machine, as all that has a clock in this module.
func TestMemoryWithoutAClock(t *testing.T) {
	_, taken, err := state.NewMemory(nil).Acquire(t.Context(), state.ID{1}, 0, time.Minute)
	if err != nil || !taken {
		t.Errorf("Acquire = %t, %v", taken, err)
	}
}
