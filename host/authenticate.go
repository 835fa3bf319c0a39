package host

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/internal/abi"
)

// outcome is what a call has come to.
type outcome struct {
	mutation *hostfn.Mutation
	used     []*tokencache.Handle // what the call read
	putIn    []*tokencache.Handle // what the mutation has of it
	call     *hostfn.Call         // whose ScrubError is for what others say once they have seen the credential
	err      error
	apart    bool                   // the call runs on, or has run, on a goroutine of its own, which tells Observe
	echoes   atomic.Pointer[echoes] // once they were needed, and if they are not large
}

// fail makes the host's error of a failure.
func (c *Connector) fail(stage Stage, err error) error {
	return &Error{Connector: c.Name, Type: c.Auth.Type, Stage: stage, Err: err}
}

func (c *Connector) failure(f *hostfn.Failure) error {
	return c.fail(Stage(f.Stage), f.Err)
}

// authenticate finds what is to be changed of a request, and tells Observe.
func (c *Connector) authenticate(ctx context.Context, r *http.Request) *outcome {
	told := Call{}
	out := c.find(ctx, r, &told)
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
func (c *Connector) find(ctx context.Context, r *http.Request, told *Call) *outcome {
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
	found := map[tokencache.Key]tokencache.Entry[[]seal.Piece](nil)
	// Each round ends the call, or finds one entry more. A plugin asks for few.
	for range c.host.config.Limits.CachePerUser + 1 {
		call := hostfn.New(ctx, c.plan, in, hostfn.Inline)
		call.Found = found
		out, restart := c.call(ctx, call, told)
		if restart == nil {
			c.keep(secrets, who, call, out)
			return out
		}
		if restart.Key == nil {
			return c.apart(ctx, in, nil, *told)
		}
		entry, hit, lease, holder := c.host.cache.entries.Acquire(*restart.Key)
		switch {
		case holder:
			return c.apart(ctx, in, lease, *told)
		case !hit:
			waited, err := lease.Wait(ctx)
			switch {
			case err != nil:
				return &outcome{err: c.fail(StageToken, fmt.Errorf("gave up waiting for another request's token: %w", err))}
			case waited.Err != nil:
				return &outcome{err: waited.Err}
			case !waited.Set:
				return c.apart(ctx, in, nil, *told)
			}
			entry = waited.Entry
		}
		if found == nil {
			found = map[tokencache.Key]tokencache.Entry[[]seal.Piece]{}
		}
		found[*restart.Key] = entry
	}
	return &outcome{err: c.fail(StagePlugin, errors.New("the plugin asks the cache for more entries than one partition has"))}
}

// apart runs the call on a goroutine of its own, with the caller's values but not its cancellation: a caller that goes
// away takes nobody's token with it (threats.md 31).
func (c *Connector) apart(ctx context.Context, in *hostfn.Inputs, lease *hostfn.Lease, told Call) *outcome {
	if in.Request != nil {
		in.Request = in.Request.Clone(context.WithoutCancel(ctx)) // the caller may change its own once it has returned
	}
	done := make(chan *outcome, 1)
	c.host.calls.Add(1)
	go func() {
		defer c.host.calls.Done()
		out := &outcome{err: c.fail(StagePlugin, errors.New("the call did not end well"))}
		defer func() {
			out.apart = true
			done <- out
		}() // once the lease has ended: a caller who tries again must not wait for it
		if lease != nil {
			defer func() { lease.End(out.err) }()
		}
		detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.exchangeTime())
		defer cancel()
		defer func() { c.observe(detached, told, out.err) }()
		select {
		case c.host.exchanging <- struct{}{}:
			defer func() { <-c.host.exchanging }()
		case <-detached.Done():
			out = &outcome{err: c.fail(StageToken, errors.New("too many other calls wait for token endpoints"))}
			return
		}
		call := hostfn.New(detached, c.plan, in, hostfn.Exchanging)
		call.Lease = lease
		out, _ = c.call(detached, call, &told)
	}()
	select {
	case out := <-done:
		return out
	case <-ctx.Done():
		return &outcome{err: c.fail(StageToken, fmt.Errorf("gave up waiting for a token: %w", context.Cause(ctx))), apart: true}
	}
}

// call runs the guest once, adds to what is told of the call, and applies the rules to what the guest puts out.
func (c *Connector) call(ctx context.Context, call *hostfn.Call, told *Call) (*outcome, *hostfn.Restart) {
	result, failure := run(ctx, c.plugin.guest, abi.ExportAuthenticate, call)
	told.Sandbox += result.Time
	told.Fuel += result.Fuel
	if restart := call.Restart(); restart != nil {
		return nil, restart
	}
	call.Flush()
	out := &outcome{used: call.Used(), call: call}
	told.Exchanges, told.Token, told.Cached = call.Exchanges(), call.ExchangeTime(), len(out.used) > 0
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
		call.Connector, call.Type, call.Err = c.Name, c.Auth.Type, err
		observe(ctx, call)
	}
}

// inputs is everything that the connector's templates name.
func (c *Connector) inputs(secrets []string, who subject, r *http.Request) *hostfn.Inputs {
	return &hostfn.Inputs{
		Secrets: slices.Clone(secrets), Variables: c.host.config.Variables, User: who.user, TenantID: who.tenantID, Request: r,
	}
}
