package run

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
func (rn *Runner) refreshAhead(ctx context.Context, out *Outcome, values []string, subject *inputs.Subject) {
	for _, old := range out.Entries {
		remaining, ending := rn.Tokens.Ending(old, rn.RefreshAhead)
		switch {
		case !ending:
			continue
		case rn.Plan.Names.UserToken() && subject.TokenExpires.Sub(rn.Plan.Clock()) <= remaining:
			return
		}
		free, ok := rn.Ahead.Try(rn.Plan.SlotOwners...)
		if !ok { // a later request begins
			return
		}
		holder, first := old.BeginAhead(remaining)
		if !holder || rn.Gate.Enter() != nil {
			free()
			return
		}
		in := rn.Reader.Inputs(values, *subject, nil)
		go func() {
			defer rn.Gate.Leave()
			defer free()
			rn.refresh(context.WithoutCancel(ctx), old, in, first)
		}()
		return
	}
}

// refresh replaces an entry, unless another node does so or has done so. It runs the plugin without a request, with the
// secrets, the variables and the user of the request that began it: all that the entry may depend on.
func (rn *Runner) refresh(ctx context.Context, old *tokencache.Handle, in *hostfn.Inputs, first bool) {
	stats, out := rn.Events.Attempt(), &Outcome{}
	stats.Ahead = true
	ctx = stats.Begin(ctx, event.Span{Name: event.Refresh})
	defer func() { stats.End(out.Err) }()
	ctx, cancel := context.WithTimeout(ctx, rn.Plan.ExchangeTime)
	defer cancel()
	right, err := rn.Tokens.Ahead(ctx, old, rn.RefreshAhead)
	if err != nil && first {
		rn.Seldom(ctx, notAhead(err))
	}
	if right == nil {
		out.Err = err
		return
	}
	ctx, cancelExchange := right.Within(ctx, rn.Plan.ExchangeTime)
	defer cancelExchange()
	call := hostfn.New(ctx, rn.Plan.Plan, in, hostfn.Detached)
	call.Right = right
	out.Err = rn.Fail(hostfn.StagePlugin, errNotWell)
	defer func() { right.End(ctx, out.Err) }()
	out = rn.run(ctx, call, &stats)
	if out.Err != nil && first {
		rn.Seldom(ctx, notAhead(out.Err))
	}
	stats.Observe(ctx, out.Err)
}

// errNotWell is the error of a call whose goroutine has ended without an outcome.
var errNotWell = errors.New("the call did not end well")

func notAhead(err error) string {
	return fmt.Sprintf("a token was not replaced ahead of its end, and is used until then: %v", err)
}
