package sqlstate

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/keywright/keywright/host/state"
)

// Wait implements [state.Store]. The waiter is registered before it looks at the row, so no change is lost between the
// look and the wait.
func (s *Store) Wait(ctx context.Context, id state.ID, generation int64) error {
	woken, done := s.addWaiter(id)
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

// jitter returns a time around d, so that many nodes do not do the same at once.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d) }

// addWaiter returns a channel that is closed when somebody wakes the waiters of the row, and a function that ends the waiting.
func (s *Store) addWaiter(id state.ID) (woken <-chan struct{}, done func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.waiters[id] == nil {
		s.waiters[id] = map[chan struct{}]bool{}
	}
	channel := make(chan struct{})
	s.waiters[id][channel] = true
	return channel, func() {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if delete(s.waiters[id], channel); len(s.waiters[id]) == 0 {
			delete(s.waiters, id)
		}
	}
}

// Wake wakes those of this process who wait for a row.
func (s *Store) Wake(id state.ID) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for channel := range s.waiters[id] {
		close(channel)
	}
	delete(s.waiters, id)
}
