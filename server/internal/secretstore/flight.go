package secretstore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/singleflight"
)

// flights merges calls for the same key. The work has the values of the first caller's context, but not its cancellation:
// a caller that goes away takes nothing from the others. The zero value is ready.
type flights[T any] struct{ group singleflight.Group }

// do does the work, which may take limit, or waits for another caller that does the work of the same key.
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

// errPanicked stands for the panic of a store. Its text is not kept: it could hold anything.
var errPanicked = errors.New("the store of secrets panicked")
