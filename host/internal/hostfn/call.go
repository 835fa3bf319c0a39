package hostfn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/host/internal/tokencache"
)

// Mode is how a call runs.
type Mode uint8

// The modes.
const (
	Describing Mode = iota // no host function but the log
	Validating             // and literal configuration
	Inline                 // on the caller's goroutine, without effects: a cache miss, or what has an effect, asks for a restart
	Detached               // apart from the caller, with or without a lease: may wait for token endpoints
	Explaining             // for a person to read: no endpoint is asked, nothing is cached
)

// Call is one run of a guest. It implements abi.Env. It is for one goroutine, and for one run.
type Call struct {
	Lease *Lease                                            // of the entry that this call is to fill; may be nil
	Found map[tokencache.Key]tokencache.Entry[[]seal.Piece] // what leases that the caller waited for have given

	ctx    context.Context
	plan   *Plan
	inputs *Inputs
	mode   Mode
	sealed seal.Table

	rendered    []renderedField
	few         [4]renderedField // room for rendered
	failure     *Failure
	restart     *Restart
	lines       []line
	inputRead   bool
	uncacheable bool // it read what is of one request or moment, signed, or logged
	revealed    bool
	urls        []string // of the fields of kind url that were rendered, as the guest has them: with references
	putToUse    int      // sealed values that were opened for the mutation
	exchanges   int      // token requests that were sent
	// exchangeTime is how long token endpoints took.
	exchangeTime time.Duration
	// tokenRequests counts those that were asked for.
	tokenRequests int
	answer        *TokenError
	otherType     bool // the last token was of another type than bearer
	used          []*tokencache.Handle
	putIn         *seal.Origins // of what was put into the mutation, or revealed
}

// Restart asks for the call to be run again: once the host keeps the request's body, or else as Detached.
type Restart struct {
	Key  *tokencache.Key // of the entry that was missed; nil when a token was to be requested, or something to be stored
	Body bool            // the guest wants the digest of a body that can be read only once
}

// New makes a call. The context bounds what the host functions do.
func New(ctx context.Context, plan *Plan, inputs *Inputs, mode Mode) *Call {
	c := &Call{ctx: ctx, plan: plan, inputs: inputs, mode: mode}
	c.sealed.Init(plan.Random)
	c.rendered = c.few[:0]
	return c
}

// maxOpened bounds, in bytes, the texts that a call has sealed values put into, and likewise those that it has encoded or
// takes for keys. A document holds thousands of references, each of which may stand for much. Without the bound, how long a
// call takes would also tell how long a secret is.
const maxOpened = 2 << 20

// ended is the value with which a host function panics when it ends the call.
type ended struct{}

// Failure is why a host function ended the call, or nil.
func (c *Call) Failure() *Failure { return c.failure }

// Restart says that the call ended because it is to be run again, or is nil.
func (c *Call) Restart() *Restart { return c.restart }

// Exchanges counts the token requests that were sent.
func (c *Call) Exchanges() int { return c.exchanges }

// ExchangeTime is how long token endpoints took.
func (c *Call) ExchangeTime() time.Duration { return c.exchangeTime }

// TokenError is the last answer of a token endpoint when that was an error, or nil.
func (c *Call) TokenError() *TokenError { return c.answer }

// Cacheable reports whether another run would come to the same, as long as the configuration, the secrets, the user's
// fields and the cache entries that this one read are what they were.
func (c *Call) Cacheable() bool { return !c.uncacheable }

// Size returns the approximate memory that it takes to keep the call, in bytes: its sealed values and the texts that they were
// put into, the secrets and URLs, and which entries of the cache it read.
func (c *Call) Size() int {
	size := c.sealed.Size() + c.sealed.Opened()
	for _, secret := range c.inputs.Secrets {
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

// handleBytes is about how many bytes a handle takes beside its name.
const handleBytes = 150

// DropRequest drops what the call has of its request, once it has ended.
func (c *Call) DropRequest() {
	c.ctx, c.inputs.Request = nil, nil
	c.Found, c.rendered, c.few = nil, nil, [4]renderedField{}
}

// OtherType reports whether the last token of a token endpoint was of another type than bearer, RFC 6749 section 7.1.
func (c *Call) OtherType() bool { return c.otherType }

// Used lists the cache entries that the call read, each once.
func (c *Call) Used() []*tokencache.Handle { return c.used }

// PutIn lists the cache entries whose sealed values went into the mutation, also by way of other values and other
// entries: those that a 401 is about. A value that was revealed counts as one of them.
//
// When a call has read its request, the request may choose what it puts in. If that choice decided which entries are
// dropped, a later call could learn of the request by what is missing (threats.md 15c). So PutIn lists all that such a
// call read, or nothing.
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

// end ends the call.
func (c *Call) end(stage string, err error) {
	var misuse *seal.Error
	if errors.As(err, &misuse) {
		stage = StagePlugin
	}
	c.failure = &Failure{Stage: stage, Err: err}
	panic(ended{})
}

func (c *Call) endf(stage, format string, args ...any) {
	c.end(stage, fmt.Errorf(format, args...))
}

// need ends the call unless the guest may use a host function now.
func (c *Call) need(function string) {
	if c.mode == Describing || c.mode == Validating {
		c.endf(StagePlugin, "%s is not to be called by describe or validate", function)
	}
	if group := abi.GroupOf(function); group != "" && !c.plan.Uses[group] {
		c.endf(StagePlugin, "%s was called, but the plugin's description does not name %q in uses", function, group)
	}
}

func (c *Call) grant(function, grant string) {
	if !c.plan.Grants[grant] {
		c.endf(StagePlugin, "%s was called, but the operator has not granted %q to this plugin", function, grant)
	}
}

// plain ends the call when text holds a sealed value, where none may stand.
func (c *Call) plain(where, text string) {
	if err := c.sealed.Plain(text); err != nil {
		c.endf(StagePlugin, "%s: %w", where, err)
	}
}

func (c *Call) open(where, text string, sink seal.Sinks) (string, int) {
	out, opened, err := c.sealed.Open(text, sink)
	if err != nil {
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

// combine is for what the host makes from a text and seals again.
func (c *Call) combine(where, text string) (seal.Value, bool) {
	v, sealed, err := c.sealed.Combine(text)
	if err != nil {
		c.endf(StagePlugin, "%s: %w", where, err)
	}
	if c.sealed.Made() > maxOpened {
		c.endf(StagePlugin, "%s: what a call makes of sealed values counts as more than %d bytes in all", where, maxOpened)
	}
	return v, sealed
}

// Values returns the values for templates that are not of a field.
func (c *Call) Values() template.Values { return (*values)(c) }

// values implements template.Values for a call.
type values Call

func (v *values) Secret(name string) (string, error) {
	if value, ok := v.inputs.secret(v.plan, name); ok {
		return value, nil
	}
	return "", fmt.Errorf("secret %q was not read", name)
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

// scrubbable is how many bytes of a text may be cut out of another one without a trace. Shorter ones are there by chance,
// too, and what is missing around the cut would tell what they are.
const scrubbable = 8

// Scrub replaces whatever a text holds of the call's secrets and sealed values: for the texts of others (an HTTP client's
// errors, a guest that may reveal) that reach errors and logs. A text that holds a short one is dropped as a whole.
func (c *Call) Scrub(text string) string {
	var pairs []string
	for _, form := range c.secretForms() {
		switch {
		case !strings.Contains(text, form):
		case len(form) < scrubbable:
			return "<a text that may hold a secret>"
		default:
			pairs = append(pairs, form, "<sealed>")
		}
	}
	if pairs == nil {
		return text
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// secretForms are all that a call must not show, in every form that it may have in the texts of others, the longest first.
func (c *Call) secretForms() []string {
	all := map[string]bool{}
	add := func(secret string) {
		for _, form := range forms(secret) {
			all[form] = true
		}
	}
	for v := range c.sealed.Values() {
		add(v.Text)
	}
	for _, secret := range c.inputs.Secrets {
		add(secret)
	}
	delete(all, "") // an expression with a secret in it may come to nothing
	return slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b))
	})
}
