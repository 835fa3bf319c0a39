package host

import (
	"context"
	"fmt"

	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/hostfn"
)

// place waits for one of the places of the connector's detached calls, and returns a function that frees it. It waits for half of the
// time of an exchange, so that the other half is left for that. A call may wait for the store of keys whatever it waits for first.
func (c *Connector) place(ctx context.Context) (free func(), err error) {
	all, resource := c.host.exchangePlaces, "token endpoints"
	if c.plan.AsksKeys {
		all, resource = c.host.keyPlaces, "the store of keys"
	}
	if free, ok := all.Try(c.plan.SlotOwners...); ok {
		return free, nil
	}
	ctx, span := c.events.Start(ctx, event.Span{Name: event.Wait, Awaits: string(AwaitPlace)})
	if free, err = all.Enter(ctx, c.exchangeTime()/2, c.plan.SlotOwners...); err != nil {
		err = hostfn.Passing(fmt.Errorf("%w wait for %s", ErrBusy, resource))
	}
	span.End(event.End{Err: err})
	return free, err
}
