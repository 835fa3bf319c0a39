package host

import (
	"context"
	"fmt"

	"github.com/keywright/keywright/host/internal/hostfn"
)

// place waits for one of the places of the connector's detached calls, and returns a function that frees it. A call may wait for the
// store of keys whatever it waits for first.
func (c *Connector) place(ctx context.Context, stage Stage) (free func(), err error) {
	slots, others := c.host.exchangeSlots, "token endpoints"
	if c.plan.AsksKeys {
		slots, others = c.host.keySlots, "the store of keys"
	}
	free = func() { <-slots }
	select {
	case slots <- struct{}{}:
		return free, nil
	default:
	}
	ctx, end := c.startSpan(ctx, Span{Name: SpanWait, Awaits: AwaitPlace})
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		err = c.fail(stage, hostfn.Passing(fmt.Errorf("too many other calls wait for %s", others)))
	}
	if end != nil {
		end(endWith(err))
	}
	return free, err
}
