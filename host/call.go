package host

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/inputs"
	"github.com/keywright/keywright/host/internal/request"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/internal/tokens"
	"github.com/keywright/keywright/internal/contract"
)

// authenticate returns the outcome of a request's call. It calls Observe, unless the detached call does.
func (c *Connector) authenticate(ctx context.Context, r *http.Request, h request.Headers, body *request.Body, answer *hostfn.APIAnswer) *outcome {
	stats := c.events.Attempt()
	ctx = stats.Begin(ctx, event.Span{Name: event.Authenticate, Second: body.Second})
	out := c.find(ctx, r, body, answer, &stats)
	if out.err == nil {
		if err := request.Check(r, h, out.mutation); err != nil {
			out, stats.Failure = &outcome{err: c.fail(StageMutation, err), detached: out.detached}, string(FailureAnswer)
		}
	}
	stats.End(out.err)
	if !out.detached {
		stats.Observe(ctx, out.err)
	}
	return out
}

// find returns the outcome of an earlier call if it is valid for this request, and otherwise runs the plugin. It always runs
// the plugin if answer, the API's answer to an earlier attempt, is not nil. It adds to stats.
func (c *Connector) find(ctx context.Context, r *http.Request, body *request.Body, answer *hostfn.APIAnswer, stats *event.Attempt) *outcome {
	if c.host.closed.Load() {
		return &outcome{err: c.fail(StagePlugin, ErrClosed)}
	}
	var buffer [4]string
	subject := c.reader.Subject(ctx)
	values, failure := c.reader.Read(ctx, &subject, buffer[:0], stats)
	if failure != nil {
		return &outcome{err: c.failure(failure)}
	}
	if c.plugin.info.Consent {
		var err error
		if subject.Grant, err = c.grantName(ctx); err != nil {
			return &outcome{err: err}
		}
	}
	if out := c.lookup(values, &subject); out != nil && answer == nil && !c.host.closed.Load() {
		stats.Cached, stats.Reused, stats.Expires = len(out.used) > 0, true, out.expires
		c.refreshAhead(ctx, out, values, &subject)
		return out
	}
	if err := c.host.enter(); err != nil {
		return &outcome{err: c.fail(StagePlugin, err)}
	}
	defer c.host.calls.Done()
	in := c.reader.Inputs(values, subject, r)
	in.Answer = answer
	if body.Kept() {
		in.Body, in.BodySize = body.Reader()
	}
	call, out := c.rounds(ctx, r, body, in, stats)
	if call == nil {
		return out
	}
	c.store(values, subject, call, out)
	c.refreshAhead(ctx, out, values, &subject)
	return out
}

// rounds runs the plugin until its call ends, and returns that call and its outcome. The call is nil if it was not the plugin that
// ended it. Each round that does not end the call fetches one more entry, keeps the body, or takes the API's answer from the call.
func (c *Connector) rounds(ctx context.Context, r *http.Request, body *request.Body, in *hostfn.Inputs, stats *event.Attempt) (*hostfn.Call, *outcome) {
	var found map[tokencache.Key]tokens.Entry
	// The limit stops a plugin that keeps asking.
	for range c.host.config.Limits.CachePerPartition + 3 {
		call := hostfn.New(ctx, c.plan.Plan, in, hostfn.Inline)
		call.Found = found
		out := c.run(ctx, call, stats)
		if out.restart == nil {
			return call, out
		}
		if missed := *out.restart; !missed.Body && !missed.Afresh {
			var entry *tokens.Entry
			out, entry = c.fetchOrWait(ctx, in, missed, stats)
			switch {
			case entry != nil:
				if found == nil {
					found = map[tokencache.Key]tokens.Entry{}
				}
				found[*missed.Key] = *entry
				continue
			case out.restart == nil:
				return nil, out
			}
		}
		if out.restart.Afresh {
			in.Answer = nil
			continue
		}
		if err := body.Keep(ctx, r); err != nil {
			return nil, &outcome{err: c.fail(StageBody, call.ScrubError(err))}
		}
		in.Body, in.BodySize = body.Reader()
	}
	return nil, &outcome{err: c.fail(StagePlugin, errors.New("the plugin asks the cache for more entries than one partition has"))}
}

// lookup returns the outcome of an earlier call with the same inputs, or nil if there is none or one of its cache
// entries is gone.
func (c *Connector) lookup(values []string, subject *inputs.Subject) *outcome {
	var earlier *cachedMutation
	if c.plan.Personal() {
		earlier = c.host.reuse.mutation(c, subject)
	} else {
		earlier = c.lastMutation.Load()
	}
	if earlier == nil || !slices.Equal(earlier.values, values) {
		return nil
	}
	for _, used := range earlier.outcome.used {
		if !c.host.cache.tokens.Live(used) {
			return nil
		}
	}
	if !earlier.used.Load() {
		earlier.used.Store(true)
	}
	return earlier.outcome
}

// store keeps the outcome of a call for later requests, if a call with the same inputs would have the same outcome and
// it needs no more than maxMutation bytes.
func (c *Connector) store(values []string, subject inputs.Subject, call *hostfn.Call, out *outcome) {
	if c.host.config.NoReuse || !c.plugin.deterministic || !call.Cacheable() || call.Size() > maxMutation || out.err != nil ||
		c.plan.Keep > 0 { // each answer of the API may change what the next call gets
		return
	}
	call.DropRequest() // the outcome's ScrubError needs only the sealed values
	entry := &cachedMutation{values: slices.Clone(values), outcome: out, connector: c}
	if !c.plan.Personal() {
		c.lastMutation.Store(entry)
	}
	c.host.reuse.keep(entry, c.plan.Plan, subject, call.Size())
}

// fetchOrWait continues a call that could not end inline. If another call fetches the missing cache entry, fetchOrWait
// waits for the entry and returns it. Otherwise it runs the call detached and returns the outcome.
func (c *Connector) fetchOrWait(ctx context.Context, in *hostfn.Inputs, missed hostfn.Restart, stats *event.Attempt) (*outcome, *tokens.Entry) {
	var right *tokens.Right
	if missed.Key != nil {
		var entry *tokens.Entry
		var err error
		if entry, right, err = c.host.cache.tokens.Get(ctx, *missed.Key, c.await); err != nil {
			return &outcome{err: err}, nil
		}
		if entry != nil {
			return nil, entry
		}
	}
	out := c.runDetached(ctx, in, right, missed.Keys, stats)
	return out, out.filled
}

// await implements tokens.Await with a span. Its errors are those of the connector.
func (c *Connector) await(ctx context.Context, nodes bool, wait func(context.Context) error) error {
	awaited := AwaitRequest
	if nodes {
		awaited = AwaitNode
	}
	ctx, span := c.events.Start(ctx, event.Span{Name: event.Wait, Awaits: string(awaited)})
	err := wait(ctx)
	if err != nil && !errors.As(err, new(*Error)) { // that of another call is one
		err = c.fail(StageToken, err)
	}
	span.End(event.End{Err: err})
	return err
}

// runDetached runs the call on a goroutine of its own, with the values of the caller's context but without its
// cancellation. So a caller that goes away does not take the token from other callers (threats.md 31). If the outcome
// has a Restart, the caller must do what that says and run the call again; stats is not complete then, and Observe has not
// been called. keys is set if the call waits for the store of keys, and not for a token endpoint.
func (c *Connector) runDetached(ctx context.Context, in *hostfn.Inputs, right *tokens.Right, keys bool, stats *event.Attempt) *outcome {
	in.Request = in.Request.Clone(context.WithoutCancel(ctx)) // a caller that gave up may change its request
	stage, awaited := StageToken, "a token"
	if keys {
		stage, awaited = StageSign, "a signature"
	}
	gaveUp := func() error {
		return c.fail(stage, fmt.Errorf("gave up waiting for %s: %w", awaited, context.Cause(ctx)))
	}
	done := make(chan *outcome)
	c.host.calls.Add(1)
	statsSoFar := *stats
	go func() {
		defer c.host.calls.Done()
		out := &outcome{err: c.fail(StagePlugin, errNotWell)}
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
		defer func() { right.End(detached, out.err) }()
		defer func() {
			if out.restart == nil {
				statsSoFar.Observe(detached, out.err)
			}
		}()
		out = c.exchange(detached, in, right, stage, &statsSoFar)
	}()
	select {
	case out := <-done:
		*stats = statsSoFar
		return out
	case <-ctx.Done():
		return &outcome{err: gaveUp(), detached: true}
	}
}

// exchange runs the call detached, once there is a place for it, within the time of an exchange. If hosts share a store of
// state and another node has stored the entry of the right meanwhile, exchange returns that.
func (c *Connector) exchange(ctx context.Context, in *hostfn.Inputs, right *tokens.Right, stage Stage, stats *event.Attempt) *outcome {
	entry, err := right.Begin(ctx, c.exchangeTime(), c.await)
	switch {
	case err != nil:
		return &outcome{err: err}
	case entry != nil:
		return &outcome{restart: &hostfn.Restart{}, filled: entry}
	}
	ctx, cancel := right.Within(ctx, c.exchangeTime())
	defer cancel()
	free, err := c.place(ctx)
	if err != nil {
		return &outcome{err: c.fail(stage, err)}
	}
	defer free()
	call := hostfn.New(ctx, c.plan.Plan, in, hostfn.Detached)
	call.Right, call.Trace = right, event.TraceOf(ctx)
	out := c.run(ctx, call, stats)
	out.err = c.overTime(out.err)
	return out
}

// run runs the guest once and checks its output. The outcome has a Restart if the call must run again. It adds to stats.
func (c *Connector) run(ctx context.Context, call *hostfn.Call, stats *event.Attempt) *outcome {
	result, failure := c.runCounted(ctx, contract.ExportAuthenticate, call, stats)
	restart := call.Restart
	if restart == nil || call.Exchanges > 0 { // the log lines of a run without effect are dropped
		call.Flush()
	}
	if restart != nil {
		return &outcome{restart: restart}
	}
	out := &outcome{connector: c, used: call.Used, call: call}
	stats.Cached = len(out.used) > 0
	if failure == nil {
		out.mutation, failure = call.Mutation(result.Output)
		out.putIn = call.UsedOrigins()
		if c.plugin.Uses[contract.GroupToken] { // others cache what is no token, such as a signing key
			out.expires = out.ends()
		}
		stats.Expires = out.expires
	}
	if failure != nil {
		out.err, stats.Failure = c.failure(failure), string(failureOf(failure))
	}
	if c.host.hooks.Explain != nil {
		c.host.hooks.Explain(c.explanation(call, result.Output, out))
	}
	return out
}
