package run

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
)

var (
	// ErrBusy means that a call was not made, because so many others wait.
	ErrBusy = errors.New("too many other calls")
	// ErrClosed means that the gate is closed.
	ErrClosed = errors.New("the host is closed")
)

// Gate counts the calls of a host, and lets none in once it is closed.
type Gate struct {
	// mu makes the check of closed and the addition to calls one step.
	mu     sync.Mutex
	closed atomic.Bool
	calls  sync.WaitGroup
}

// Enter begins a call, or returns ErrClosed. The caller must call Leave at the end of the call.
func (g *Gate) Enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed.Load() {
		return ErrClosed
	}
	g.calls.Add(1)
	return nil
}

// Leave ends a call.
func (g *Gate) Leave() { g.calls.Done() }

// Join begins a call within another one, which may end before it.
func (g *Gate) Join() { g.calls.Add(1) }

// Closed reports whether the gate is closed.
func (g *Gate) Closed() bool { return g.closed.Load() }

// Go runs a task on a goroutine of its own, for which Close waits. After Close it returns ErrClosed.
func (g *Gate) Go(task func()) error {
	if err := g.Enter(); err != nil {
		return err
	}
	go func() {
		defer g.Leave()
		task()
	}()
	return nil
}

// Close lets no further call in, and waits for those inside. If ctx ends first, Close returns its error.
func (g *Gate) Close(ctx context.Context) error {
	g.mu.Lock()
	g.closed.Store(true)
	g.mu.Unlock()
	done := make(chan struct{})
	go func() {
		g.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
