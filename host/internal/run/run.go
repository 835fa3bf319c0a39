// Package run authenticates a request: it reads what the templates of the connector name, and uses the outcome of an earlier call or runs
// the plugin. It waits for tokens outside of the sandbox, so that no guest waits.
package run

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/host/internal/connect"
	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/inputs"
	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/internal/request"
	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/host/internal/tokens"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/fairqueue"
)

// Shared is shared by the runners of a host.
type Shared struct {
	Gate   Gate
	Tokens *tokens.Store
	Turns  *lease.Serials
	Reuse  *Reuse
	// NoReuse is set if no outcome is used again.
	NoReuse bool
	// Exchanges limits the calls that may wait for token endpoints, because a guest that waits keeps its memory, and the metadata
	// of issuers that is read. Ahead limits the calls that replace tokens ahead of their end.
	Exchanges, Ahead *fairqueue.Queue
	// Keys limits the calls of connectors with a key of the store of keys that may wait for the store or for token endpoints.
	// They are apart, because such a call may be made for each request, and a slow store must not keep others from their tokens.
	Keys *fairqueue.Queue
	// MaxEntries is the number of entries that a partition of the token cache may have.
	MaxEntries int
}

// Runner authenticates the requests of one connector.
type Runner struct {
	*Shared
	Plan   *connect.Plan
	Reader *inputs.Reader
	Events *event.Stream
	// Run calls an export of the plugin. The output is valid only if there is no failure.
	Run func(ctx context.Context, export string, call *hostfn.Call) (sandbox.Result, *hostfn.Failure)
	// Deterministic is set if calls of the plugin can differ only by the results of host functions.
	Deterministic bool
	// RefreshAhead is the time before the end of an entry at which it is replaced.
	RefreshAhead time.Duration
	// If not nil, GrantName returns the name of the grant of the context's user.
	GrantName func(context.Context) (string, error)
	// Fail returns the error of a stage. OverTime returns the error of an exchange whose time may have been over.
	Fail     func(stage string, err error) error
	OverTime func(error) error
	// Seldom logs a warning once in a while.
	Seldom func(ctx context.Context, text string)
	// If not nil, Explain is called with each call that counts.
	Explain func(call *hostfn.Call, output []byte, err error)

	// lastMutation is the last mutation that can be used again, or nil if the templates name something of the user: see Reuse.
	lastMutation atomic.Pointer[cachedMutation]
	// usesLater is set once a call has composed with Later.
	usesLater atomic.Bool
}

func (rn *Runner) failed(f *hostfn.Failure) error { return rn.Fail(f.Stage, f.Err) }

// Authenticate returns the outcome of a request's call, behind that of the authentications whose mutations the request has: earlier, or
// nil. It calls Observe, unless the detached call does.
func (rn *Runner) Authenticate(
	ctx context.Context, r *http.Request, h request.Headers, body *request.Body, answer *hostfn.APIAnswer, earlier *Outcome,
) *Outcome {
	stats := rn.Events.Attempt()
	if rn.Events.HasSpans() { // a Span is large, and few hosts have a Tracer
		ctx = stats.Begin(ctx, event.Span{Name: event.Authenticate, Second: body.Second})
	}
	out := rn.find(ctx, r, body, answer, earlier, &stats)
	detached := out.detached
	if out.Err == nil && !out.Mutation.Pass {
		own, err := out.Mutation, error(nil)
		if earlier != nil { // first, since Check says what the path holds (threats.md 490)
			out, err = earlier.and(out)
		}
		if err == nil {
			err = request.Check(r, h, own)
		}
		if err != nil {
			out, stats.Failure = &Outcome{Err: rn.Fail(hostfn.StageMutation, err)}, FailureAnswer
		}
	}
	stats.End(out.Err)
	if !detached {
		stats.Observe(ctx, out.Err)
	}
	return out
}

// find returns the outcome of an earlier call if it is valid for this request, and otherwise runs the plugin. It always runs
// the plugin if answer, the API's answer to an earlier attempt, is not nil. It adds to stats.
func (rn *Runner) find(
	ctx context.Context, r *http.Request, body *request.Body, answer *hostfn.APIAnswer, earlier *Outcome, stats *event.Attempt,
) *Outcome {
	if rn.Gate.Closed() {
		return &Outcome{Err: rn.Fail(hostfn.StagePlugin, ErrClosed)}
	}
	var buffer [4]string
	subject := rn.Reader.Subject(ctx)
	values, failure := rn.Reader.Read(ctx, &subject, buffer[:0], stats)
	if failure != nil {
		return &Outcome{Err: rn.failed(failure)}
	}
	if rn.GrantName != nil {
		var err error
		if subject.Grant, err = rn.GrantName(ctx); err != nil {
			return &Outcome{Err: err}
		}
	}
	earlierCall := rn.lookup(values, &subject)
	if out := earlierCall; out != nil && out.pattern == nil && answer == nil && !rn.Gate.Closed() {
		stats.Cached, stats.Reused, stats.Expires = len(out.used) > 0, true, out.expires
		rn.refreshAhead(ctx, out, values, &subject)
		return out
	}
	if err := rn.Gate.Enter(); err != nil {
		return &Outcome{Err: rn.Fail(hostfn.StagePlugin, err)}
	}
	defer rn.Gate.Leave()
	in := rn.Reader.Inputs(values, subject, r)
	if in.Answer = answer; earlier != nil {
		in.Earlier = earlier.Mutation
	}
	if body.Kept() {
		in.Body, in.BodySize = body.Reader()
	}
	if answer != nil || earlier != nil {
		earlierCall = nil
	}
	call, out := rn.rounds(ctx, r, body, in, earlierCall, stats)
	if call == nil {
		return out
	}
	rn.store(values, subject, call, out)
	rn.refreshAhead(ctx, out, values, &subject)
	return out
}

// run runs the guest once and checks its output. The outcome has a Restart if the call must run again. It adds to stats.
func (rn *Runner) run(ctx context.Context, call *hostfn.Call, stats *event.Attempt) *Outcome {
	result, failure := rn.Count(ctx, contract.ExportAuthenticate, call, stats, nil)
	restart := call.Restart
	if restart == nil || call.Exchanges > 0 { // the log lines of a run without effect are dropped
		call.Flush()
	}
	if restart != nil {
		return &Outcome{restart: restart}
	}
	out := &Outcome{runner: rn, used: call.Used, Call: call}
	stats.Cached = len(out.used) > 0
	if failure == nil {
		out.Mutation, failure = call.Mutation(result.Output)
		out.Entries = call.UsedOrigins(false)
		if rn.Plan.Uses[contract.GroupToken] { // others cache what is no token, such as a signing key
			out.expires = out.ends()
		}
		stats.Expires = out.expires
	}
	if failure != nil {
		out.Err, stats.Failure = rn.failed(failure), FailureOf(failure)
	}
	if rn.Explain != nil {
		rn.Explain(call, result.Output, out.Err)
	}
	return out
}

// Count runs an export, calls next with its output unless it has failed or next is nil, ends the turn of the call's grant, and adds
// to stats.
func (rn *Runner) Count(
	ctx context.Context, export string, call *hostfn.Call, stats *event.Attempt, next func(*hostfn.Call, []byte) *hostfn.Failure,
) (sandbox.Result, *hostfn.Failure) {
	result, failure := rn.Run(ctx, export, call)
	if failure == nil && call.Restart == nil && next != nil {
		failure = next(call, result.Output)
	}
	call.EndTurn()
	stats.Runs, stats.SandboxTime = stats.Runs+1, stats.SandboxTime+result.Time
	stats.Fuel, stats.MostFuel = stats.Fuel+result.Fuel, max(stats.MostFuel, result.Fuel)
	stats.KeyRequests, stats.KeyTime = stats.KeyRequests+call.KeyRequests, stats.KeyTime+call.KeyTime
	stats.Exchanges, stats.TokenTime = stats.Exchanges+call.Exchanges, stats.TokenTime+call.ExchangeTime
	if call.Exchanges > 0 {
		stats.Endpoint = call.Endpoint
	}
	return result, failure
}

var (
	// ErrBusy means that a call was not made, because so many others wait.
	ErrBusy = lease.ErrBusy
	// ErrClosed means that the gate is closed.
	ErrClosed = errors.New("the host is closed")
)

// Gate counts the calls of a host, and lets none in once it is closed.
type Gate struct {
	// mu makes the check of closed and the addition to calls one step.
	mu     sync.Mutex
	closed atomic.Bool
	calls  sync.WaitGroup
}

// Enter begins a call, or returns ErrClosed. The caller must call Leave at the end of the call.
func (g *Gate) Enter() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed.Load() {
		return ErrClosed
	}
	g.calls.Add(1)
	return nil
}

// Leave ends a call.
func (g *Gate) Leave() { g.calls.Done() }

// Join begins a call within another one, which may end before it.
func (g *Gate) Join() { g.calls.Add(1) }

// Closed reports whether the gate is closed.
func (g *Gate) Closed() bool { return g.closed.Load() }

// Go runs a task on a goroutine of its own, for which Close waits. After Close it returns ErrClosed.
func (g *Gate) Go(task func()) error {
	if err := g.Enter(); err != nil {
		return err
	}
	defer g.Leave()
	g.calls.Go(task)
	return nil
}

// Close lets no further call in, and waits for those inside. If ctx ends first, Close returns its error.
func (g *Gate) Close(ctx context.Context) error {
	g.mu.Lock()
	g.closed.Store(true)
	g.mu.Unlock()
	done := make(chan struct{})
	go func() {
		g.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// The ways in which a plugin fails, see host.PluginFailure, but for the limits of the sandbox, which have names there.
const (
	FailureTrap   = "trap"
	FailureAnswer = "answer"
)

// FailureOf returns the way in which the plugin has failed, or "".
func FailureOf(f *hostfn.Failure) string {
	var stopped *sandbox.Error
	switch {
	case !errors.As(f.Err, &stopped):
		if !f.Guest && (f.Stage == hostfn.StagePlugin || f.Stage == hostfn.StageMutation) {
			return FailureAnswer
		}
		return ""
	case stopped.Limit != "":
		return stopped.Limit
	case stopped.Kind == sandbox.ErrTrap, stopped.Kind == sandbox.ErrExit:
		return FailureTrap
	case stopped.Kind == sandbox.ErrLimit, stopped.Kind == sandbox.ErrUse:
		return FailureAnswer
	}
	return "" // the caller has gone away, or a bug of the host
}
