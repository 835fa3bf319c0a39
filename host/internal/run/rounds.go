package run

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/internal/request"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/internal/tokens"
)

// rounds runs the plugin until its call ends, and returns that call and its outcome. The call is nil if it was not the plugin that
// ended it. Each round that does not end the call fetches one more entry, keeps the body, or takes the API's answer from the call.
func (rn *Runner) rounds(ctx context.Context, r *http.Request, body *request.Body, in *hostfn.Inputs, earlier *Outcome, stats *event.Attempt) (*hostfn.Call, *Outcome) {
	var found map[tokencache.Key]tokens.Entry
	if len(body.Turns) > 0 {
		in.Number = body.Turns[rn.Plan.Partition(in)].Number(body.Second)
	}
	// The limit stops a plugin that keeps asking.
	for range rn.MaxEntries + 4 {
		call, out := rn.repeat(ctx, in, earlier, stats)
		if out == nil {
			call = hostfn.New(ctx, rn.Plan.Plan, in, hostfn.Inline)
			call.Found, call.Repeatable = found, rn.usesLater.Load() && in.Answer == nil && in.Earlier == nil && rn.reuses()
			if out = rn.run(ctx, call, stats); call.UsesLater {
				rn.usesLater.Store(true)
			}
		}
		if out.restart == nil {
			return call, out
		}
		if missed := *out.restart; !missed.Body && !missed.Afresh && missed.Floor == nil {
			out = rn.fetchOrWait(ctx, in, missed, stats)
			switch {
			case out.filled != nil:
				if found == nil {
					found = map[tokencache.Key]tokens.Entry{}
				}
				found[*missed.Key] = *out.filled
				continue
			case out.restart == nil:
				return nil, out
			}
		}
		switch floor := out.restart.Floor; {
		case out.restart.Afresh:
			in.Answer = nil
		case floor != nil:
			if err := rn.takeTurn(ctx, r, body, in, *floor); err != nil {
				return nil, &Outcome{Err: err}
			}
		default:
			if err := rn.keep(ctx, r, body, in); err != nil {
				return nil, &Outcome{Err: rn.Fail(hostfn.StageBody, call.ScrubError(err))}
			}
		}
	}
	return nil, &Outcome{Err: rn.Fail(hostfn.StagePlugin, errors.New("the plugin asks the cache for more entries than one partition has"))}
}

// repeat repeats an earlier call. The outcome is nil if there is none, or if the plugin has to run.
func (rn *Runner) repeat(ctx context.Context, in *hostfn.Inputs, earlier *Outcome, stats *event.Attempt) (*hostfn.Call, *Outcome) {
	if earlier == nil || earlier.pattern == nil {
		return nil, nil
	}
	for _, used := range earlier.used { // again, since the body may have been read meanwhile
		if in.Body != nil && !rn.Tokens.Live(used) {
			return nil, nil
		}
	}
	call := hostfn.New(ctx, rn.Plan.Plan, in, hostfn.Inline)
	switch m := call.Repeat(earlier.pattern); {
	case m != nil:
		stats.Cached, stats.Reused, stats.Expires = len(earlier.used) > 0, true, earlier.expires
		return call, &Outcome{runner: rn, Mutation: m, used: earlier.used, Entries: earlier.Entries, expires: earlier.expires, Call: call}
	case call.Restart != nil && call.Restart.Body:
		return call, &Outcome{restart: call.Restart}
	}
	return nil, nil
}

func (rn *Runner) keep(ctx context.Context, r *http.Request, body *request.Body, in *hostfn.Inputs) error {
	err := body.Keep(ctx, r)
	if err == nil {
		in.Body, in.BodySize = body.Reader()
	}
	return err
}

// takeTurn takes the turn of the partition for a request, and sets the number of its calls. The body of the request is kept before, so that
// nobody waits for a slow caller (threats.md 502).
func (rn *Runner) takeTurn(ctx context.Context, r *http.Request, body *request.Body, in *hostfn.Inputs, floor int64) error {
	if r.Body != nil && r.Body != http.NoBody && r.GetBody == nil && !body.Kept() {
		if err := rn.keep(ctx, r, body, in); err != nil {
			return rn.Fail(hostfn.StageBody, err)
		}
	}
	if body.Turns == nil {
		body.Turns = map[[32]byte]*lease.Serial{}
	}
	partition := rn.Plan.Partition(in)
	err := rn.Await(ctx, event.AwaitTurn, func(ctx context.Context) error {
		turn, err := rn.Turns.Begin(ctx, partition, floor, rn.Plan.ExchangeTime)
		if err == nil {
			in.Number = turn.Number(body.Second)
			body.Turns[partition] = turn
		}
		return err
	})
	if err == nil {
		return nil
	}
	if err = fmt.Errorf("the request did not get its turn: %w", err); !lease.Permanent(err) {
		err = hostfn.Passing(err)
	}
	return rn.Fail(hostfn.StageSign, err)
}

// fetchOrWait waits for the missing cache entry if another call fetches it, and otherwise runs the call detached.
func (rn *Runner) fetchOrWait(ctx context.Context, in *hostfn.Inputs, missed hostfn.Restart, stats *event.Attempt) *Outcome {
	var entry *tokens.Entry
	var right *tokens.Right
	var err error
	if missed.Key != nil {
		entry, right, err = rn.Tokens.Get(ctx, *missed.Key, rn)
	}
	if err != nil || entry != nil {
		return &Outcome{Err: err, filled: entry}
	}
	return rn.runDetached(ctx, in, right, missed.Keys, stats)
}

// runDetached runs the call on a goroutine of its own, with the values of the caller's context but without its
// cancellation. So a caller that goes away does not take the token from other callers (threats.md 31). If the outcome
// has a Restart, the caller must do what that says and run the call again; stats is not complete then, and Observe has not
// been called. keys is set if the call waits for the store of keys, and not for a token endpoint.
func (rn *Runner) runDetached(ctx context.Context, in *hostfn.Inputs, right *tokens.Right, keys bool, stats *event.Attempt) *Outcome {
	in.Request = in.Request.Clone(context.WithoutCancel(ctx)) // a caller that gave up may change its request
	stage, awaited := hostfn.StageToken, "a token"
	if keys {
		stage, awaited = hostfn.StageSign, "a signature"
	}
	gaveUp := func() error {
		return rn.Fail(stage, fmt.Errorf("gave up waiting for %s: %w", awaited, context.Cause(ctx)))
	}
	done := make(chan *Outcome)
	rn.Gate.Join()
	statsSoFar := *stats
	go func() {
		defer rn.Gate.Leave()
		out := &Outcome{Err: rn.Fail(hostfn.StagePlugin, errNotWell)}
		defer func() { // runs after right.End, so that a caller who retries does not wait for this one
			out.detached = out.restart == nil
			select {
			case done <- out:
			case <-ctx.Done():
				if out.restart != nil {
					statsSoFar.Observe(context.WithoutCancel(ctx), gaveUp())
				}
			}
		}()
		detached := context.WithoutCancel(ctx)
		defer func() {
			if out.restart == nil {
				statsSoFar.Observe(detached, out.Err)
			}
		}()
		defer func() { right.End(detached, out.Err) }() // first, so that nobody waits for Observe
		out = rn.exchange(detached, in, right, stage, &statsSoFar)
	}()
	select {
	case out := <-done:
		*stats = statsSoFar
		return out
	case <-ctx.Done():
		return &Outcome{Err: gaveUp(), detached: true}
	}
}

// Await implements [tokens.Waiter].
func (rn *Runner) Await(ctx context.Context, awaited string, wait func(context.Context) error) error {
	ctx, span := rn.Events.Start(ctx, event.Span{Name: event.Wait, Awaits: awaited})
	err := wait(ctx)
	span.End(event.End{Err: err})
	return err
}

// GaveUp implements [tokens.Waiter].
func (rn *Runner) GaveUp(err error) error { return rn.Fail(hostfn.StageToken, err) }

// exchange runs the call once there is a slot for it, unless another node has stored the entry of the right meanwhile.
func (rn *Runner) exchange(ctx context.Context, in *hostfn.Inputs, right *tokens.Right, stage string, stats *event.Attempt) *Outcome {
	entry, err := right.Begin(ctx, rn.Plan.ExchangeTime, rn)
	switch {
	case err != nil:
		return &Outcome{Err: err}
	case entry != nil:
		return &Outcome{restart: &hostfn.Restart{}, filled: entry}
	}
	ctx, cancel := right.Within(ctx, rn.Plan.ExchangeTime)
	defer cancel()
	free, err := rn.AcquireSlot(ctx)
	if err != nil {
		return &Outcome{Err: rn.Fail(stage, err)}
	}
	defer free()
	in, failure := rn.Reader.ForExchange(ctx, in)
	if failure != nil {
		return &Outcome{Err: rn.OverTime(rn.failed(failure))}
	}
	call := hostfn.New(ctx, rn.Plan.Plan, in, hostfn.Detached)
	call.Right, call.Trace = right, event.TraceOf(ctx)
	out := rn.run(ctx, call, stats)
	out.Err = rn.OverTime(out.Err)
	return out
}

// AcquireSlot waits for one of the slots of the connector's detached calls, and returns a function that frees it. It waits for half of the
// time of an exchange, so that the other half is left for that. A call may wait for the store of keys whatever it waits for first.
func (rn *Runner) AcquireSlot(ctx context.Context) (free func(), err error) {
	all, resource := rn.Exchanges, "token endpoints"
	if rn.Plan.AsksKeys {
		all, resource = rn.Keys, "the store of keys"
	}
	owners := rn.slotOwners(ctx)
	if free, ok := all.Try(owners...); ok {
		return free, nil
	}
	err = rn.Await(ctx, event.AwaitPlace, func(ctx context.Context) (err error) {
		if free, err = all.Enter(ctx, rn.Plan.ExchangeTime/2, owners...); err != nil {
			err = hostfn.Passing(fmt.Errorf("%w wait for %s", ErrBusy, resource))
		}
		return err
	})
	return free, err
}

// slotOwners returns the owners of the slots of the context's calls. Where tenants choose hosts, each is one.
func (rn *Runner) slotOwners(ctx context.Context) []string {
	if !rn.Plan.TenantHosts {
		return rn.Plan.SlotOwners
	}
	return append(slices.Clip(rn.Plan.SlotOwners), "tenant "+rn.Reader.Subject(ctx).TenantID)
}

// refreshAhead begins to replace an entry that the outcome's mutation contains, if it is time and no other call has begun. It does not
// wait. An entry is not replaced if the user's token ends no later: the next one would end with that, too.
func (rn *Runner) refreshAhead(ctx context.Context, out *Outcome, values []string, subject *hostfn.Subject) {
	for _, old := range out.Entries {
		remaining, ending := rn.Tokens.Ending(old, rn.RefreshAhead)
		switch {
		case !ending:
			continue
		case rn.Plan.Names.UserToken() && subject.TokenExpires.Sub(rn.Plan.Clock()) <= remaining:
			return
		}
		free, ok := rn.Ahead.Try(rn.slotOwners(ctx)...)
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
	out.Err = rn.Fail(hostfn.StagePlugin, errNotWell)
	defer func() { stats.Observe(ctx, out.Err) }()
	defer func() { right.End(ctx, out.Err) }() // first, so that nobody waits for Observe
	in, failure := rn.Reader.ForExchange(ctx, in)
	if failure != nil {
		out.Err = rn.failed(failure)
	} else {
		call := hostfn.New(ctx, rn.Plan.Plan, in, hostfn.Detached)
		call.Right = right
		out = rn.run(ctx, call, &stats)
	}
	if out.Err != nil && first {
		rn.Seldom(ctx, notAhead(out.Err))
	}
}

// errNotWell is the error of a call whose goroutine has ended without an outcome.
var errNotWell = errors.New("the call did not end well")

func notAhead(err error) string {
	return fmt.Sprintf("a token was not replaced ahead of its end, and is used until then: %v", err)
}
