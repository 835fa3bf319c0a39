package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/tokencache"
)

// outcome is the result of a call.
type outcome struct {
	mutation *hostfn.Mutation
	used     []*tokencache.Handle // what the call read
	putIn    []*tokencache.Handle // the entries whose sealed values went into the mutation
	call     *hostfn.Call         // its ScrubError is for errors of those who have seen the credential
	err      error
	apart    bool                   // the call runs on, or has run, on a goroutine of its own, which tells Observe
	body     bool                   // the call is to be run again once the body is kept; nothing else is set
	echoes   atomic.Pointer[echoes] // once they were needed, and if they are not large
}

// fail makes the host's error of a failure.
func (c *Connector) fail(stage Stage, err error) error {
	return &Error{Connector: c.config.Name, Type: c.config.Auth.Type, Stage: stage, Err: err}
}

func (c *Connector) failure(f *hostfn.Failure) error {
	return c.fail(Stage(f.Stage), f.Err)
}

// authenticate finds what is to be changed of a request, and tells Observe.
func (c *Connector) authenticate(ctx context.Context, r *http.Request, body *payload) *outcome {
	told := Call{}
	out := c.find(ctx, r, body, &told)
	if out.err == nil {
		if err := c.stripped(r, out.mutation); err != nil {
			out = &outcome{err: err, apart: out.apart}
		}
	}
	if !out.apart {
		c.observe(ctx, told, out.err)
	}
	return out
}

// find runs the plugin, unless an earlier call has come to what this one would.
func (c *Connector) find(ctx context.Context, r *http.Request, body *payload, told *Call) *outcome {
	if c.host.closed.Load() {
		return &outcome{err: c.fail(StagePlugin, ErrClosed)}
	}
	var buffer [4]string
	secrets, err := c.secrets(ctx, buffer[:0])
	if err != nil {
		return &outcome{err: err}
	}
	who := c.subject(ctx)
	if out := c.reuse(secrets, &who); out != nil && !c.host.closed.Load() {
		told.Cached, told.Reused = len(out.used) > 0, true
		return out
	}
	if err := c.host.enter(); err != nil {
		return &outcome{err: c.fail(StagePlugin, err)}
	}
	defer c.host.calls.Done()
	in := c.inputs(secrets, who, r)
	if body.kept != nil {
		in.BodySHA256 = body.kept.digest
	}
	found := map[tokencache.Key]tokencache.Entry[[]seal.Piece](nil)
	// Each round ends the call, finds one entry more, or keeps the body. A plugin asks for few entries.
	for range c.host.config.Limits.CachePerUser + 2 {
		call := hostfn.New(ctx, c.plan, in, hostfn.Inline)
		call.Found = found
		out, restart := c.call(ctx, call, told)
		if restart == nil {
			c.keep(secrets, who, call, out)
			return out
		}
		if !restart.Body {
			var entry *tokencache.Entry[[]seal.Piece]
			out, entry = c.elsewhere(ctx, in, *restart, told)
			switch {
			case entry != nil:
				if found == nil {
					found = map[tokencache.Key]tokencache.Entry[[]seal.Piece]{}
				}
				found[*restart.Key] = *entry
				continue
			case !out.body:
				return out
			}
		}
		if err := body.keep(ctx, r, cmp.Or(c.config.BodyBytes, c.host.config.Limits.BodyBytes)); err != nil {
			return &outcome{err: c.fail(StageBody, call.ScrubError(err))}
		}
		in.BodySHA256 = body.kept.digest
	}
	return &outcome{err: c.fail(StagePlugin, errors.New("the plugin asks the cache for more entries than one partition has"))}
}

// elsewhere ends a call that cannot end inline. It waits for the entry that the call missed, if another call fetches
// it, and returns the entry. Otherwise it runs the call apart from its caller, and returns the outcome.
func (c *Connector) elsewhere(ctx context.Context, in *hostfn.Inputs, missed hostfn.Restart, told *Call) (*outcome, *tokencache.Entry[[]seal.Piece]) {
	if missed.Key == nil {
		return c.apart(ctx, in, nil, told), nil
	}
	entry, hit, lease, holder := c.host.cache.entries.Acquire(*missed.Key)
	switch {
	case holder:
		return c.apart(ctx, in, lease, told), nil
	case hit:
		return nil, &entry
	}
	waited, err := lease.Wait(ctx)
	switch {
	case err != nil:
		return &outcome{err: c.fail(StageToken, fmt.Errorf("gave up waiting for another request's token: %w", err))}, nil
	case waited.Err != nil:
		return &outcome{err: waited.Err}, nil
	case !waited.Set:
		return c.apart(ctx, in, nil, told), nil
	}
	return nil, &waited.Entry
}

// apart runs the call on a goroutine of its own, with the caller's values but not its cancellation: a caller that goes
// away takes nobody's token with it (threats.md 31). When the outcome is that the call needs the body, the caller reads
// it and runs the call again. Then told is not complete, and nobody observes it yet.
func (c *Connector) apart(ctx context.Context, in *hostfn.Inputs, lease *hostfn.Lease, told *Call) *outcome {
	if in.Request != nil {
		in.Request = in.Request.Clone(context.WithoutCancel(ctx)) // the caller may change its own once it has returned
	}
	gaveUp := func() error {
		return c.fail(StageToken, fmt.Errorf("gave up waiting for a token: %w", context.Cause(ctx)))
	}
	done := make(chan *outcome) // a caller that has gone away receives nothing
	c.host.calls.Add(1)
	soFar := *told
	go func() {
		defer c.host.calls.Done()
		out := &outcome{err: c.fail(StagePlugin, errors.New("the call did not end well"))}
		defer func() { // once the lease has ended: a caller who tries again must not wait for it
			out.apart = !out.body
			select {
			case done <- out:
			case <-ctx.Done():
				if out.body {
					c.observe(context.WithoutCancel(ctx), soFar, gaveUp())
				}
			}
		}()
		if lease != nil {
			defer func() { lease.End(out.err) }()
		}
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.exchangeTime())
		defer cancel()
		defer func() {
			if !out.body {
				c.observe(detached, soFar, out.err)
			}
		}()
		select {
		case c.host.exchanging <- struct{}{}:
			defer func() { <-c.host.exchanging }()
		case <-detached.Done():
			out = &outcome{err: c.fail(StageToken, hostfn.Passing(errors.New("too many other calls wait for token endpoints")))}
			return
		}
		call := hostfn.New(detached, c.plan, in, hostfn.Exchanging)
		call.Lease = lease
		ended, restart := c.call(detached, call, &soFar)
		if restart != nil {
			ended = &outcome{body: true}
		}
		out = ended
	}()
	select {
	case out := <-done:
		*told = soFar
		return out
	case <-ctx.Done():
		return &outcome{err: gaveUp(), apart: true}
	}
}

// call runs the guest once, adds to what is told of the call, and applies the rules to what the guest puts out.
func (c *Connector) call(ctx context.Context, call *hostfn.Call, told *Call) (*outcome, *hostfn.Restart) {
	result, failure := run(ctx, c.plugin.guest, abi.ExportAuthenticate, call)
	told.Sandbox += result.Time
	told.Fuel += result.Fuel
	restart := call.Restart()
	if restart == nil || call.Exchanges() > 0 { // else the run counts for nothing, its log lines included
		call.Flush()
	}
	if restart != nil {
		told.Exchanges, told.Token = told.Exchanges+call.Exchanges(), told.Token+call.ExchangeTime()
		return nil, restart
	}
	out := &outcome{used: call.Used(), call: call}
	told.Exchanges, told.Token, told.Cached = told.Exchanges+call.Exchanges(), told.Token+call.ExchangeTime(), len(out.used) > 0
	if failure == nil {
		var err error
		if out.mutation, err = call.Mutation(result.Output); err != nil {
			errors.As(err, &failure)
		}
		out.putIn = call.PutIn()
	}
	if failure != nil {
		out.err = c.failure(failure)
	}
	return out, nil
}

func (c *Connector) observe(ctx context.Context, call Call, err error) {
	if observe := c.host.config.Observe; observe != nil {
		call.Connector, call.Type, call.Err = c.config.Name, c.config.Auth.Type, err
		observe(ctx, call)
	}
}

// inputs is everything that the connector's templates name.
func (c *Connector) inputs(secrets []string, who subject, r *http.Request) *hostfn.Inputs {
	return &hostfn.Inputs{
		Secrets: slices.Clone(secrets), Variables: c.host.config.Variables, User: who.user, TenantID: who.tenantID, Request: r,
	}
}
