package hostfn

import (
	"context"
	"errors"
	"fmt"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/seal"
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

// core has the parts that all groups of a call share: its inputs, its sealed values, and its end.
type core struct {
	// If not nil, Lease is the lease of the cache entry that the call has to fill. It ends when the guest reads the request.
	Lease *Lease
	// Old, if not nil, marks a refresh: the call replaces this entry and has no request. CacheGet ignores Old; reading the request
	// ends the call with a Restart.
	Old *tokencache.Handle

	ctx    context.Context
	plan   *Plan
	inputs *Inputs
	mode   Mode
	sealed seal.Table

	failure   *Failure
	restart   *Restart
	inputRead bool
	// uncacheable is set once the call has read anything of its request, the clock or random bytes, or has signed or
	// logged.
	uncacheable bool
	revealed    bool
	// openedValues counts the sealed values that were opened for the mutation.
	openedValues int
	// offset is the last result of ClockOffset, or nil.
	offset *int64
	// asked is the host that the exchange goes to, if the templates name user.token.
	asked string
}

// maxOpened bounds the total size, in bytes, of the texts that sealed values are put into in a call, and separately of
// those that it encodes or uses as keys. A document can contain thousands of references, each to a long value. Without
// the bound, the time of a call would also show the length of a secret.
const maxOpened = 2 << 20

// ended is the value of the panic by which a host function ends the call.
type ended struct{}

// Failure returns the reason why a host function ended the call, or nil.
func (c *core) Failure() *Failure { return c.failure }

// Restart returns a Restart if the call must be run again, or nil.
func (c *core) Restart() *Restart { return c.restart }

// Inputs returns the inputs of the call.
func (c *core) Inputs() *Inputs { return c.inputs }

// Cacheable reports whether another run would have the same result, as long as the configuration, the secrets, the
// fields of the user and the cache entries that this call read stay the same.
func (c *core) Cacheable() bool { return !c.uncacheable }

// end ends the call with a Failure. The stage of an error about a misused sealed value is StagePlugin, unless a key would have
// to leave its store.
func (c *core) end(stage string, err error) {
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

func (c *core) endf(stage, format string, args ...any) {
	c.end(stage, fmt.Errorf(format, args...))
}

// endField ends the call because of a field of the configuration.
func (c *core) endField(stage, field, format string, args ...any) {
	c.end(stage, &FieldError{field, fmt.Errorf(format, args...)})
}

// try calls f outside of a guest. If f ends the call, try returns the Failure.
func (c *core) try(f func()) (failure *Failure) {
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
func (c *core) need(function string) {
	if c.mode == Describing || c.mode == Validating {
		c.endf(StagePlugin, "%s is not to be called by describe or validate", function)
	}
	if group := abi.GroupOf(function); group != "" && !c.plan.Uses[group] {
		c.endf(StagePlugin, "%s was called, but the plugin's description does not name %q in uses", function, group)
	}
}

// grant ends the call unless the operator has granted the plugin the right.
func (c *core) grant(function, grant string) {
	if !c.plan.Grants[grant] {
		c.endf(StagePlugin, "%s was called, but the operator has not granted %q to this plugin", function, grant)
	}
}

// plain ends the call if text, in a place that takes no sealed values, contains one.
func (c *core) plain(where, text string) {
	if err := c.sealed.Plain(text); err != nil {
		c.endf(StagePlugin, "%s: %w", where, err)
	}
}

// open returns text with its sealed values put in, and their number. It ends the call if they may not go to sink.
func (c *core) open(where, text string, sink seal.Sinks) (string, int) {
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

func (c *core) seal(v seal.Value) string {
	reference, err := c.sealed.Seal(v)
	if err != nil {
		c.end(StagePlugin, err)
	}
	return reference
}

// combine returns text as one value, for a function that makes something from the text and seals that. It reports
// whether text contains a sealed value.
func (c *core) combine(where, text string) (seal.Value, bool) {
	v, sealed, err := c.sealed.Combine(text)
	if err != nil {
		c.endf(StagePlugin, "%s: %w", where, err)
	}
	c.boundMade(where)
	return v, sealed
}

// boundMade ends the call if what it has made of sealed values counts as too many bytes.
func (c *core) boundMade(where string) {
	if c.sealed.Made() > maxOpened {
		c.endf(StagePlugin, "%s: what a call makes of sealed values counts as more than %d bytes in all", where, maxOpened)
	}
}

func (c *core) now() int64 {
	c.uncacheable = true
	return c.plan.Clock().Unix()
}

// sealAnswers seals the values of a list that are sealed, and returns all of them as the guest gets them.
func (c *core) sealAnswers(list []answer.Part, found map[string]string) map[string]string {
	for i := range list {
		a := &list[i]
		value, ok := found[a.Name]
		if ok && a.Kind == abi.AnswerSealed {
			found[a.Name] = c.seal(a.Value(value))
		}
	}
	return found
}
