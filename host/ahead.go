package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/inputs"
	"github.com/keywright/keywright/host/internal/tokencache"
)

// refreshAhead begins to replace an entry that the outcome's mutation contains, if RefreshAhead says so and no other call has
// begun. It does not wait. The request goes on with the entry that it has.
//
// An entry is not replaced if the user's token ends no later: the next one would end with that, too.
func (c *Connector) refreshAhead(ctx context.Context, out *outcome, values []string, subject *inputs.Subject) {
	for _, old := range out.putIn {
		remaining, ending := c.host.cache.tokens.Ending(old, c.config.RefreshAhead)
		switch {
		case !ending:
			continue
		case c.plan.Names.UserToken() && subject.TokenExpires.Sub(c.host.config.Clock()) <= remaining:
			return
		}
		free, ok := c.host.aheadPlaces.Try(c.plan.SlotOwners...)
		if !ok { // a later request begins
			return
		}
		holder, first := old.BeginAhead(remaining)
		if !holder || c.host.enter() != nil {
			free()
			return
		}
		in := c.reader.Inputs(values, *subject, nil)
		go func() {
			defer c.host.calls.Done()
			defer free()
			c.refresh(context.WithoutCancel(ctx), old, in, first)
		}()
		return
	}
}

// refresh replaces an entry, unless another node does so or has done so. It runs the plugin without a request, with the
// secrets, the variables and the user of the request that began it: all that the entry may depend on.
func (c *Connector) refresh(ctx context.Context, old *tokencache.Handle, in *hostfn.Inputs, first bool) {
	stats, out := c.events.Attempt(), &outcome{}
	stats.Ahead = true
	ctx = stats.Begin(ctx, event.Span{Name: event.Refresh})
	defer func() { stats.End(out.err) }()
	ctx, cancel := context.WithTimeout(ctx, c.exchangeTime())
	defer cancel()
	right, err := c.host.cache.tokens.Ahead(ctx, old, c.config.RefreshAhead)
	if err != nil && first {
		c.log.seldom(ctx, notAhead(err))
	}
	if right == nil {
		out.err = err
		return
	}
	ctx, cancelExchange := right.Within(ctx, c.exchangeTime())
	defer cancelExchange()
	call := hostfn.New(ctx, c.plan.Plan, in, hostfn.Detached)
	call.Right = right
	out.err = c.fail(StagePlugin, errNotWell)
	defer func() { right.End(ctx, out.err) }()
	out = c.run(ctx, call, &stats)
	if out.err != nil && first {
		c.log.seldom(ctx, notAhead(out.err))
	}
	stats.Observe(ctx, out.err)
}

// errNotWell is the error of a call whose goroutine has ended without an outcome.
var errNotWell = errors.New("the call did not end well")

func notAhead(err error) string {
	return fmt.Sprintf("a token was not replaced ahead of its end, and is used until then: %v", err)
}
