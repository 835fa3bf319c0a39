package hostfn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/compose"
	"github.com/keywright/keywright/host/internal/mask"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/host/internal/tokencache"
)

// Mode is the way in which a call runs. It determines which host functions may be called, and what they do.
type Mode uint8

// The modes.
const (
	// Describing is the mode of describe. The guest may call Log. Input is empty, and any other function ends the call.
	Describing Mode = iota
	// Validating is the mode of validate. It is like Describing, but the guest may also call ConfigGet, which returns
	// literal values only.
	Validating
	// Inline is the mode of a call on the caller's goroutine. It has no effects: a cache miss, or a function with an
	// effect, ends it with a Restart.
	Inline
	// Detached is the mode of a call that does not end with its caller. It may wait for token endpoints. It may hold a
	// lease.
	Detached
	// Explaining is the mode of a call whose result a person reads. It asks no token endpoint and does not use the cache.
	Explaining
)

// Call is one run of a guest. It implements abi.Env. It serves one run, and is not safe for concurrent use.
type Call struct {
	// If not nil, Lease is the lease of the cache entry that the call has to fill.
	Lease *Lease
	// If not nil, Shared stores the entry of Lease for all nodes.
	Shared Shared
	// If not nil, Old is the entry that the call replaces ahead of its end. Then the call has no request. CacheGet does not
	// find Old, and the call ends with a Restart when the guest reads the request: there is nothing to do for one.
	Old *tokencache.Handle
	// Found holds the cache entries that the caller has already acquired for this call, for example from a lease it
	// waited for.
	Found map[tokencache.Key]tokencache.Entry[[]seal.Piece]
	// If not nil, Trace is called with a function that returns an exchange, masked by the Masker of the trace, with the endpoint's
	// error_description if descriptions is set.
	Trace func(exchange func(m *mask.Masker, descriptions bool) mask.Exchange)
	// AskAnew asks token endpoints although refusals of them are remembered.
	AskAnew bool

	ctx    context.Context
	plan   *Plan
	inputs *Inputs
	mode   Mode
	sealed seal.Table

	rendered []renderedField
	// renderedBuffer is the array of rendered while that is short. It saves an allocation.
	renderedBuffer [4]renderedField
	// compared counts the work of comparing texts with patterns.
	compared  int
	failure   *Failure
	restart   *Restart
	lines     []line
	inputRead bool
	// offset is the last result of ClockOffset, or nil.
	offset *int64
	// bodyReads counts how often the body was opened.
	bodyReads int
	// uncacheable is set once the call has read anything of its request, the clock or random bytes, or has signed or
	// logged.
	uncacheable bool
	revealed    bool
	// urls holds the rendered fields of kind url as the guest sees them, with references.
	urls []string
	// asked is the host that the exchange goes to, if the templates name user.token.
	asked string
	// openedValues counts the sealed values that were opened for the mutation.
	openedValues int
	// urlReference is the URL of the last exchange as the guest has it, with references, and urlField the field that it is from.
	urlReference, urlField string
	// place is the place of the last exchange, see placeOf.
	place string
	// exchanges counts the token requests that were sent.
	exchanges int
	// endpoint is the origin of the last one, or "" if a sealed value is a part of its host.
	endpoint string
	// exchangeTime is the time that token endpoints took.
	exchangeTime time.Duration
	// tokenRequests counts the calls of TokenRequest, whether or not a request was sent.
	tokenRequests int
	keys          keyUse
	// answer is the last answer of a token endpoint if that was an error, and nil otherwise.
	answer *TokenError
	// fetched is the last entry that the call has stored after an exchange, or nil.
	fetched *tokencache.Handle
	// otherType is set if the type of the last token was not bearer.
	otherType bool
	used      []*tokencache.Handle
	// steps holds the steps of an explained call.
	steps []mask.Step
	held  heldGrant
	// composer is nil until the first call of compose.
	composer *compose.Composer
	// putIn holds the origins of the values that were revealed or put into the mutation.
	putIn *seal.Origins
}

// Restart is a request to run the call again. If Body is set, the host must keep the request's body first. If Afresh is set,
// the call must run without Inputs.Answer. Otherwise it must run in mode Detached, or with the missing entry in Found.
type Restart struct {
	// Key is the cache entry that was missing. It is nil if the guest wanted to request a token or to store an entry.
	Key *tokencache.Key
	// Body is set if the guest wants the digest of a body that can be read only once.
	Body bool
	// Keys is set if the guest wants a key of the store of keys to be used.
	Keys bool
	// Afresh is set if the call may not do what the guest wants while it knows the API's answer.
	Afresh bool
}

// New returns a call. The context bounds the work of the host functions.
func New(ctx context.Context, plan *Plan, inputs *Inputs, mode Mode) *Call {
	c := &Call{ctx: ctx, plan: plan, inputs: inputs, mode: mode}
	c.uncacheable = inputs.Answer != nil // the outcome depends on the API's answer to this request
	c.sealed.Init(plan.Random)
	c.rendered = c.renderedBuffer[:0]
	return c
}

// maxOpened bounds the total size, in bytes, of the texts that sealed values are put into in a call, and separately of
// those that it encodes or uses as keys. A document can contain thousands of references, each to a long value. Without
// the bound, the time of a call would also show the length of a secret.
const maxOpened = 2 << 20

// ended is the value of the panic by which a host function ends the call.
type ended struct{}

// Failure returns the reason why a host function ended the call, or nil.
func (c *Call) Failure() *Failure { return c.failure }

// Restart returns a Restart if the call must be run again, or nil.
func (c *Call) Restart() *Restart { return c.restart }

// Inputs returns the inputs of the call.
func (c *Call) Inputs() *Inputs { return c.inputs }

// Exchanges returns the number of token requests that were sent.
func (c *Call) Exchanges() int { return c.exchanges }

// Endpoint returns the origin to which the last token request was sent. It returns "" if none was, or if a sealed value is a part of the host.
func (c *Call) Endpoint() string { return c.endpoint }

// ExchangeTime returns the time that token endpoints took.
func (c *Call) ExchangeTime() time.Duration { return c.exchangeTime }

// TokenError returns the last answer of a token endpoint if that was an error, or nil.
func (c *Call) TokenError() *TokenError { return c.answer }

// Cacheable reports whether another run would have the same result, as long as the configuration, the secrets, the
// fields of the user and the cache entries that this call read stay the same.
func (c *Call) Cacheable() bool { return !c.uncacheable }

// Size returns the approximate memory that the call retains, in bytes: its sealed values and the texts that they were
// put into, the secrets and URLs, and the handles of its cache entries.
func (c *Call) Size() int {
	size := c.sealed.Size() + c.sealed.Opened()
	for _, secret := range c.inputs.secrets() {
		size += len(secret)
	}
	for _, url := range c.urls {
		size += len(url)
	}
	for _, entries := range [...][]*tokencache.Handle{c.used, c.putIn.Entries()} {
		for _, entry := range entries {
			size += len(entry.Key.Name) + handleBytes
		}
	}
	return size
}

// handleBytes is the approximate memory of a handle without its name, in bytes.
const handleBytes = 150

// DropRequest releases everything that refers to the request. It may be called once the call has ended.
func (c *Call) DropRequest() {
	c.ctx, c.inputs.Request = nil, nil
	c.composer = nil
	c.Found, c.rendered, c.renderedBuffer = nil, nil, [4]renderedField{}
}

// OtherType reports whether the type of the last token from a token endpoint was not bearer (RFC 6749 section 7.1).
func (c *Call) OtherType() bool { return c.otherType }

// Used returns the cache entries that the call read, each once.
func (c *Call) Used() []*tokencache.Handle { return c.used }

// PutIn returns the cache entries that a 401 drops: those whose sealed values went into the mutation, directly or
// through other values and entries. The origins of a revealed value are included.
//
// If the call has read its request, the request may have determined which values were put in. A later call could then
// learn about the request from the entries that are missing (threats.md 15c). So PutIn returns all entries that such a
// call read, or none.
func (c *Call) PutIn() []*tokencache.Handle {
	if c.putIn == nil || !c.inputRead {
		return c.putIn.Entries()
	}
	all := seal.From(c.used...)
	for v := range c.sealed.Values() {
		all = all.And(v.From)
	}
	return all.Entries()
}

// Fetched returns the entry of the cache that the call has fetched, or nil.
func (c *Call) Fetched() *tokencache.Handle { return c.fetched }

// end ends the call with a Failure. The stage of an error about a misused sealed value is StagePlugin, unless a key would have
// to leave its store.
func (c *Call) end(stage string, err error) {
	var misuse *seal.Error
	switch {
	case !errors.As(err, &misuse):
	case misuse.Reason == seal.OnlySigns: // the configuration has chosen a key that the plugin cannot use
		stage = StageSign
	default:
		stage = StagePlugin
	}
	c.failure = &Failure{Stage: stage, Err: err}
	panic(ended{})
}

func (c *Call) endf(stage, format string, args ...any) {
	c.end(stage, fmt.Errorf(format, args...))
}

// endField ends the call because of a field of the configuration.
func (c *Call) endField(stage, field, format string, args ...any) {
	c.end(stage, &FieldError{field, fmt.Errorf(format, args...)})
}

// try calls f outside of a guest. If f ends the call, try returns the Failure.
func (c *Call) try(f func()) (failure *Failure) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case ended:
			failure = c.failure
		default:
			panic(r)
		}
	}()
	f()
	return nil
}

// need ends the call unless both its mode and the plugin's description allow the host function.
func (c *Call) need(function string) {
	if c.mode == Describing || c.mode == Validating {
		c.endf(StagePlugin, "%s is not to be called by describe or validate", function)
	}
	if group := abi.GroupOf(function); group != "" && !c.plan.Uses[group] {
		c.endf(StagePlugin, "%s was called, but the plugin's description does not name %q in uses", function, group)
	}
}

// grant ends the call unless the operator has granted the plugin the right.
func (c *Call) grant(function, grant string) {
	if !c.plan.Grants[grant] {
		c.endf(StagePlugin, "%s was called, but the operator has not granted %q to this plugin", function, grant)
	}
}

// plain ends the call if text, in a place that takes no sealed values, contains one.
func (c *Call) plain(where, text string) {
	if err := c.sealed.Plain(text); err != nil {
		c.endf(StagePlugin, "%s: %w", where, err)
	}
}

// open returns text with its sealed values put in, and their number. It ends the call if they may not go to sink.
func (c *Call) open(where, text string, sink seal.Sinks) (string, int) {
	out, opened, err := c.sealed.Open(text, sink)
	if err != nil {
		c.notListed(err)
		c.endf(StagePlugin, "%s: %w", where, err)
	}
	if c.sealed.Opened() > maxOpened {
		c.endf(StagePlugin, "%s: the sealed values of a call stand for more than %d bytes in all", where, maxOpened)
	}
	return out, opened
}

func (c *Call) seal(v seal.Value) string {
	reference, err := c.sealed.Seal(v)
	if err != nil {
		c.end(StagePlugin, err)
	}
	return reference
}

// combine returns text as one value, for a function that makes something from the text and seals that. It reports
// whether text contains a sealed value.
func (c *Call) combine(where, text string) (seal.Value, bool) {
	v, sealed, err := c.sealed.Combine(text)
	if err != nil {
		c.endf(StagePlugin, "%s: %w", where, err)
	}
	c.boundMade(where)
	return v, sealed
}

// boundMade ends the call if what it has made of sealed values counts as too many bytes.
func (c *Call) boundMade(where string) {
	if c.sealed.Made() > maxOpened {
		c.endf(StagePlugin, "%s: what a call makes of sealed values counts as more than %d bytes in all", where, maxOpened)
	}
}

// Values returns the values for rendering a template that is not a field's.
func (c *Call) Values() template.Values { return (*values)(c) }

// values implements template.Values for a call.
type values Call

func (v *values) Secret(name string) (string, error) {
	if value, ok := v.inputs.secret(v.plan, name); ok {
		return value, nil
	}
	return "", fmt.Errorf("secret %q was not read", name)
}

func (v *values) Discovered(d template.Discovery) (string, error) {
	i := slices.Index(v.plan.Names.Discovered, d)
	if i < 0 || i >= len(v.inputs.Discovered) {
		return "", errors.New("the metadata was not read")
	}
	(*Call)(v).explainDiscovery(d, v.inputs.Discovered[i])
	return v.inputs.Discovered[i], nil
}

func (v *values) Variable(name string) (string, bool) {
	value, ok := v.inputs.Variables[name]
	return value, ok
}

func (v *values) User() *template.User { return &v.inputs.User }

func (v *values) TenantID() string { return v.inputs.TenantID }

func (v *values) Now() int64 { return (*Call)(v).now() }

func (v *values) UUID() (string, error) {
	v.uncacheable = true
	return newUUID(v.plan.Random)
}

func (c *Call) now() int64 {
	c.uncacheable = true
	return c.plan.Clock().Unix()
}
