package sqlstate

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/keywright/keywright/host/state"
)

// Wait implements [state.Store]. The waiter is registered before it looks at the row, so no change is lost between the
// look and the wait.
func (s *Store) Wait(ctx context.Context, id state.ID, generation int64) error {
	woken, done := s.waiters.add(id)
	defer done()
	for {
		listening, turned := false, (<-chan struct{})(nil)
		if s.config.Listening != nil {
			listening, turned = s.config.Listening()
		}
		row, err := s.Get(ctx, id)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil || row.Generation != generation || row.LeasedFor <= 0 {
			return nil // after an error too: the caller looks at the row next, and gets the error then
		}
		pause := s.config.Poll
		if listening {
			pause = s.config.Recheck
		}
		select {
		case <-woken:
			return nil
		case <-s.done.Done():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-turned:
		case <-time.After(min(jitter(pause), row.LeasedFor)):
		}
	}
}

// Wake wakes those of this process who wait for a row.
func (s *Store) Wake(id state.ID) { s.waiters.wake(id) }

// jitter returns a time around d, so that many nodes do not do the same at once.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// waiters are the calls of a process that wait.
type waiters struct {
	mutex   sync.Mutex
	waiters map[state.ID]map[chan struct{}]struct{}
}

// add returns a channel that is closed when somebody wakes the waiters of the row, and a function that ends the waiting.
func (w *waiters) add(id state.ID) (woken <-chan struct{}, done func()) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.waiters == nil {
		w.waiters = map[state.ID]map[chan struct{}]struct{}{}
	}
	if w.waiters[id] == nil {
		w.waiters[id] = map[chan struct{}]struct{}{}
	}
	channel := make(chan struct{})
	w.waiters[id][channel] = struct{}{}
	return channel, func() {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		if delete(w.waiters[id], channel); len(w.waiters[id]) == 0 {
			delete(w.waiters, id)
		}
	}
}

func (w *waiters) wake(id state.ID) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for channel := range w.waiters[id] {
		close(channel)
	}
	delete(w.waiters, id)
}
