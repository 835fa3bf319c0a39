package secretstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
)

// flights merges concurrent calls with the same key. The work has the values of the first caller's context, but not its
// cancellation, so that it goes on for the others if that caller goes away. The zero value is ready to use.
type flights[T any] struct{ group singleflight.Group }

// do returns the result of work, which may take limit, or that of a running call with the same key. It returns an error if ctx
// ends first, and errPanicked if work panics.
func (f *flights[T]) do(ctx context.Context, key string, limit time.Duration, work func(context.Context) (T, error)) (T, error) {
	var none T
	if ctx.Err() != nil {
		return none, gaveUp(ctx)
	}
	shared := f.group.DoChan(key, func() (value any, err error) {
		defer func() {
			if recover() != nil {
				err = errPanicked
			}
		}()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		return work(ctx)
	})
	select {
	case result := <-shared:
		value, _ := result.Val.(T)
		return value, result.Err
	case <-ctx.Done():
		return none, gaveUp(ctx)
	}
}

func gaveUp(ctx context.Context) error {
	return fmt.Errorf("gave up waiting for a secret: %w", context.Cause(ctx))
}

// errPanicked replaces the panic of a store, whose text could contain anything.
var errPanicked = errors.New("the store of secrets panicked")
