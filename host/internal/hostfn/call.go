package hostfn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/host/internal/compose"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/internal/tokens"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/contract"
)

// Call is one run of a guest. It implements contract.Env. It serves one run, and is not safe for concurrent use.
//
// What it does is divided into groups, whose methods are those of the call. A group uses only itself and what it embeds.
type Call struct {
	core
	report
	rendering
	exchangeLog
	cacheUse
	keyUse
	grantUse
	exchanging
	repetition

	// bodyReads counts how often the body was opened.
	bodyReads int
	// composer is nil until the first call of compose.
	composer *compose.Composer
}

// New returns a call. The context bounds the work of the host functions.
func New(ctx context.Context, plan *Plan, inputs *Inputs, mode Mode) *Call {
	c := &Call{core: core{ctx: ctx, plan: plan, inputs: inputs, mode: mode}}
	c.impure = inputs.Answer != nil // the outcome depends on the API's answer to this request
	c.sealed.Init(plan.Random)
	c.rendered = c.renderedBuffer[:0]
	c.report.core, c.cacheUse.core, c.cacheUse.exchangeLog = &c.core, &c.core, &c.exchangeLog
	c.rendering.report = &c.report
	c.repetition.core = &c.core
	c.keyUse.rendering, c.grantUse.rendering = &c.rendering, &c.rendering
	c.exchanging.cacheUse, c.exchanging.grantUse = &c.cacheUse, &c.grantUse
	return c
}

// Size returns the approximate memory that the call retains, in bytes: its sealed values and the texts that they were
// put into, the secrets and URLs, and the handles of its cache entries.
func (c *Call) Size() int {
	size := c.sealed.Size() + c.sealed.Opened
	for _, secret := range c.inputs.secrets() {
		size += len(secret)
	}
	for _, url := range c.urls {
		size += len(url)
	}
	for _, entries := range [...][]*tokencache.Handle{c.Used, c.usedOrigins.Entries()} {
		for _, entry := range entries {
			size += len(entry.Key.Name) + handleBytes
		}
	}
	return size
}

// DropRequest releases everything that refers to the request. It may be called once the call has ended.
func (c *Call) DropRequest() {
	c.ctx, c.inputs.Request, c.inputs.Earlier = nil, nil, nil
	c.composer, c.viewed = nil, nil
	c.Found, c.rendered, c.renderedBuffer = nil, nil, [4]renderedField{}
}

// Mode is the way in which a call runs. It determines which host functions may be called, and what they do.
type Mode uint8

const (
	// Describing is the mode of describe. The guest may call Log. Input is empty, and any other function ends the call.
	Describing Mode = iota
	// Validating is the mode of validate. It is like Describing, but the guest may also call ConfigGet, which returns literal values only.
	Validating
	// Inline is the mode of a call on the caller's goroutine. It has no effects: a cache miss, or a function with an
	// effect, ends it with a Restart.
	Inline
	// Detached is the mode of a call that does not end with its caller. It may wait for token endpoints. It may hold a lease.
	Detached
	// Explaining is the mode of a call whose result a person reads. It asks no token endpoint and does not use the cache.
	Explaining
)

// Restart is a request to run the call again. If Body is set, the host must keep the request's body first. If Afresh is set,
// the call must run without Inputs.Answer. Otherwise it must run in mode Detached, or with the missing entry in Found.
type Restart struct {
	// Key is the cache entry that was missing. It is nil if the guest wanted to request a token or to store an entry.
	Key *tokencache.Key
	// Body is set if the guest wants the digest of a body that can be read only once.
	Body bool
	// Keys is set if the guest wants a key of the store of keys to be used.
	Keys bool
	// Floor is not nil if the request has to take the turn of the call's partition, with a number that is Floor at least.
	Floor *int64
	// Afresh is set if the call may not do what the guest wants while it knows the API's answer.
	Afresh bool
}

// core has the parts that all groups of a call share: its inputs, its sealed values, and its end.
type core struct {
	// Right, if not nil, is the right to fetch the cache entry that the call has to fill. It is given up when the guest reads the
	// request. If the right is one ahead of the entry's end, the call has no request: CacheGet ignores that entry, and reading the
	// request ends the call with a Restart.
	Right *tokens.Right

	ctx    context.Context
	plan   *Plan
	inputs *Inputs
	mode   Mode
	sealed seal.Table

	// viewed is the result of view. It is nil until it is first needed, and for what has no earlier authentications.
	viewed *http.Request
	// Late is set for a guest that has taken too long, and that nothing else can stop. Its next host function ends the call.
	Late atomic.Bool
	// Failure is the reason why a host function ended the call, or nil.
	Failure *Failure
	// Restart is not nil if the call must be run again.
	Restart *Restart

	// RequestRead is set once the guest has read the request.
	RequestRead bool
	// hasNumber is set once the call has its number.
	hasNumber bool
	// impure is set once the call has read anything of its request, the clock or random bytes, or has signed or logged. volatile is set
	// once its configuration has, or a key of the store of keys was used: no step may hide that.
	impure, volatile bool
	// repeating is set for a call that repeats another one, whose sealed values have been checked for what does not depend on their texts.
	repeating bool
	revealed  bool
	// openedValues counts the values that unseal has put in, since the mutation begins.
	openedValues int
	// offset is the last result of ClockOffset, or nil.
	offset *int64
	// exchangeHost is the host that the exchange goes to, if the templates name a token that goes to listed hosts only, and unlisted is
	// the one that may not go there, or "".
	exchangeHost, unlisted string
}

// begin begins a host function. It ends the call if that is late.
func (c *core) begin() {
	if c.Late.Load() {
		panic(callEnd{})
	}
}

// callEnd is the value of the panic by which a host function ends the call.
type callEnd struct{}

// Inputs returns the inputs of the call.
func (c *core) Inputs() *Inputs { return c.inputs }

// Cacheable reports whether another run would have the same result, as long as the configuration, the secrets, the
// fields of the user and the cache entries that this call read stay the same.
func (c *Call) Cacheable() bool { return !c.impure && !c.volatile && c.steps == nil }

// end ends the call with a Failure. The stage of an error about a misused sealed value is StagePlugin, unless a key would have
// to leave its store.
func (c *core) end(stage string, err error) {
	switch misuse, ok := errors.AsType[*seal.Error](err); {
	case !ok:
	case misuse.Reason == seal.OnlySigns: // the configuration has chosen a key that the plugin cannot use
		stage = StageSign
	default:
		stage = StagePlugin
	}
	c.Failure = &Failure{Stage: stage, Err: err}
	panic(callEnd{})
}

func (c *core) endf(stage, format string, args ...any) {
	c.end(stage, fmt.Errorf(format, args...))
}

// endField ends the call because of a field of the configuration.
func (c *core) endField(stage, field, format string, args ...any) {
	c.end(stage, &view.FieldError{Field: field, Err: fmt.Errorf(format, args...)})
}

// try calls f outside of a guest. If f ends the call, try returns the Failure.
func (c *core) try(f func()) (failure *Failure) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case callEnd:
			failure = c.Failure
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// requireGroup ends the call unless both its mode and the plugin's description allow the host function.
func (c *core) requireGroup(function string) {
	c.begin()
	if c.mode == Describing || c.mode == Validating {
		c.endf(StagePlugin, "%s is not to be called by describe or validate", function)
	}
	if group := contract.GroupOf(function); group != "" && !c.plan.Uses[group] {
		c.endf(StagePlugin, "%s was called, but the plugin's description does not name %q in uses", function, group)
	}
}

// requireGrant ends the call unless the operator has granted the plugin the right.
func (c *core) requireGrant(function, grant string) {
	if !c.plan.Grants[grant] {
		c.endf(StagePlugin, "%s was called, but the operator has not granted %q to this plugin", function, grant)
	}
}

func (c *core) partition() [32]byte {
	if c.inputs.partition == nil {
		c.inputs.partition = new(c.plan.Partition(c.inputs))
	}
	return *c.inputs.partition
}

// ttl returns the time to live of an entry. If the templates name the user's token, no entry outlives that: then it is at most
// the time until the token expires, and 0 if that is not known.
func (c *core) ttl(ttl time.Duration) time.Duration {
	switch expires := c.inputs.TokenExpires; {
	case !c.plan.Names.UserToken():
		return ttl
	case expires.IsZero():
		return 0
	default:
		return max(0, min(ttl, expires.Sub(c.plan.Clock())))
	}
}

// afterRead reports whether the call knows the API's answer to an attempt that has read the request. That attempt may have
// provoked the answer, to say something about the request by it.
func (c *core) afterRead() bool { return c.inputs.Answer != nil && c.inputs.Answer.RequestRead }

// runAgain ends the run with a Restart.
func (c *core) runAgain(r Restart) {
	c.Restart = &r
	panic(callEnd{})
}

// rejectAfterRead ends the call if the guest has read the request. rule says why it may not call the function any more.
func (c *core) rejectAfterRead(function, rule string) {
	if c.RequestRead {
		c.endf(StagePlugin, "%s was called after the request was read: %s", function, rule)
	}
}

// unmarshal decodes a document of the guest. where names it in the error.
func (c *core) unmarshal(document []byte, where string, v any) {
	if err := strictjson.Unmarshal(document, v); err != nil {
		c.endf(StagePlugin, "%s %w", where, err)
	}
}

func (c *core) marshal(v any) []byte {
	document, err := strictjson.Marshal(v)
	if err != nil {
		c.end(StagePlugin, err)
	}
	return document
}

// runAfresh ends the run with a Restart if afterRead. What the run wants to do would show later calls, or a token endpoint,
// what it knows. The call that runs in its place knows no more than that of another request.
func (c *core) runAfresh() {
	if c.afterRead() {
		c.runAgain(Restart{Afresh: true})
	}
}

// readsRequest records that the guest reads something of the request. From here on nothing can be stored, and the outcome of
// the call may depend on this request.
func (c *core) readsRequest() {
	c.RequestRead, c.impure = true, true
	c.Right.GiveUp()
}

// needRequest ends the call unless there is a request, and records that the guest reads it.
func (c *core) needRequest(function string) {
	c.endAhead()
	if c.inputs.Request == nil {
		c.endf(StagePlugin, "%s is for authenticate only", function)
	}
	c.readsRequest()
}

// endAhead ends a call that replaces an entry ahead of its end.
func (c *core) endAhead() {
	if c.Right.Ahead() {
		c.runAgain(Restart{})
	}
}

// detach ends an Inline run with a Restart, because it is about to do what only a Detached one may.
func (c *core) detach(r Restart) {
	if c.mode == Inline {
		c.runAgain(r)
	}
}

func (c *core) jitter() float64 {
	jitter, err := tokencache.Jitter(c.plan.Random)
	if err != nil {
		c.end(StageToken, err)
	}
	return jitter
}

// contentLength returns the length of the request's body, and whether it is known.
func (c *core) contentLength() (n int64, ok bool) {
	r := c.inputs.Request
	if c.inputs.Body != nil && len(r.Trailer) == 0 { // a kept body is sent with its length, whatever the caller knew
		return c.inputs.BodySize, true
	}
	if r.Body == nil || r.Body == http.NoBody {
		return 0, true
	}
	return r.ContentLength, r.ContentLength > 0
}

// TimeNow returns the host's time in Unix seconds.
func (c *core) TimeNow() int64 {
	c.requireGroup(contract.UserTimeNow)
	c.impure = true
	return c.plan.Clock().Unix()
}

// TimeMillis returns the host's time in Unix milliseconds.
func (c *core) TimeMillis() int64 {
	c.requireGroup(contract.UserTimeMillis)
	c.impure = true
	return c.plan.Clock().UnixMilli()
}

// ClockOffset returns the seconds that the clock of the API, or of the token endpoint, is ahead of the host's.
func (c *core) ClockOffset() int64 {
	c.requireGroup(contract.UserClockOffset)
	c.impure = true
	offset := c.plan.ServerOffset(c.inputs.TenantID).Seconds()
	c.offset = &offset
	return offset
}

// Counter returns a number that only rises in the partition. If the request does not have the turn of the partition yet, Counter ends the
// run with a Restart. Once the host has taken the turn, outside of the sandbox, that lasts until the request is over.
func (c *core) Counter(floor int64) int64 {
	c.requireGroup(contract.UserCounter)
	c.endAhead()
	c.rejectAfterRead(contract.UserCounter, "take the number first, nothing of one request may reach another")
	switch {
	case c.inputs.Request == nil:
		c.endf(StagePlugin, "counter is for authenticate only")
	case c.hasNumber:
		c.endf(StagePlugin, "counter was called twice: an attempt of a request has one number")
	}
	c.hasNumber, c.impure = true, true
	switch {
	case c.mode == Explaining:
		return max(floor, 1)
	case c.inputs.Number == 0:
		c.runAfresh()
		c.runAgain(Restart{Floor: &floor})
	}
	return c.inputs.Number
}

// answerMadeUp reports whether an explained call gets made-up answers of the API. It does so to show the request as most are
// sent, such as one with a nonce.
func (c *core) answerMadeUp() bool {
	return c.mode == Explaining && len(c.plan.Challenge.Statuses) > 0 && len(c.plan.Challenge.Answers) > 0 && !c.inputs.Unanswered
}
