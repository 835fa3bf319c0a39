package secretstore

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// flights has one caller do what several want at the same time. The work has the first caller's values, but not its
// cancellation: whoever goes away takes nothing from the others. So it runs on a goroutine of its own, one for each piece
// of work and none for those who wait. The zero value is ready.
type flights[T any] struct {
	mu   sync.Mutex
	runs map[string]*run[T]
}

type run[T any] struct {
	done  chan struct{} // closed once value and err are written
	value T
	err   error
}

// do does the work, for at most the given time, or waits for who is doing that of the same key.
func (f *flights[T]) do(ctx context.Context, key string, most time.Duration, work func(context.Context) (T, error)) (T, error) {
	var none T
	gone := func() (T, error) {
		return none, fmt.Errorf("gave up waiting for a secret: %w", context.Cause(ctx))
	}
	if ctx.Err() != nil {
		return gone()
	}
	f.mu.Lock()
	r, running := f.runs[key]
	if !running {
		r = &run[T]{done: make(chan struct{}), err: errPanicked}
		if f.runs == nil {
			f.runs = map[string]*run[T]{}
		}
		f.runs[key] = r
		go f.run(context.WithoutCancel(ctx), key, most, r, work)
	}
	f.mu.Unlock()
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		return gone()
	}
}

func (f *flights[T]) run(ctx context.Context, key string, most time.Duration, r *run[T], work func(context.Context) (T, error)) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	defer func() {
		_ = recover() // r.err says it; on this goroutine nobody else could, and the process would end
		f.mu.Lock()
		delete(f.runs, key)
		f.mu.Unlock()
		close(r.done)
	}()
	r.value, r.err = work(ctx)
}

// errPanicked stands for the panic of a store, whose text is not kept: it could hold anything.
var errPanicked = errors.New("the store of secrets panicked")
