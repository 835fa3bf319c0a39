package hostfn

import (
	"io"
	"slices"
	"strings"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/compose"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/signing"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/internal/contract"
)

// repetition holds what the host repeats for the next request in place of the guest. A guest that has only got references to what is new in
// each request would call the same functions with the same texts.
type repetition struct {
	*core
	// Repeatable is set if the call may be repeated. UsesLater is set once it has composed with Later: only then it is.
	Repeatable, UsesLater bool
	steps                 []step
	// unique is set once the call has made what another call would not make by its steps.
	unique bool
	// stepBytes is the approximate memory of the steps.
	stepBytes int
	// Pattern holds what later calls repeat. It is nil if the guest has to run for each of them, and for a call of which nothing is new in the
	// next request.
	Pattern *Pattern
}

// step is a call of a host function whose result depends on the request or the clock.
type step struct {
	// compute returns the result for the request of another call, with the values of secrets in place.
	compute func(*repeating) string
	// result is the index of the value that the guest has got a reference to, with Later. If it is negative, the guest has seen text.
	result int
	text   string
}

// Pattern holds what Repeat needs of a call. Its steps have the places of the values, and the values themselves have the sinks that the host
// functions have checked: these depend on the functions, and not on the request.
type Pattern struct {
	values   *seal.Values
	steps    []step
	document contract.Mutation
	used     []*tokencache.Handle
	// forms are the forms of secrets that the guest would not see in a request.
	forms []string
	// Size is the approximate memory of the pattern, in bytes.
	Size int
}

// keepPattern keeps the pattern of a call whose output is the document.
func (c *Call) keepPattern(document contract.Mutation) {
	isLater := func(s step) bool { return s.result >= 0 }
	if c.impure || c.volatile || c.unique || c.revealed || c.sealed.Escaped || len(c.steps) > maxSteps || !slices.ContainsFunc(c.steps, isLater) {
		return
	}
	forms := c.sealer(seal.MaxText).forms
	c.Pattern = &Pattern{c.sealed.Keep(), c.steps, document, c.Used, forms, c.Size() + c.stepBytes + len(strings.Join(forms, ""))}
}

// maxSteps bounds what a repeated call costs, which no fuel does. A step reads and makes a text of [seal.MaxText] bytes at most.
const maxSteps = 64

// stepSize is the approximate memory of a step without its texts, in bytes.
const stepSize = 512

// do calls a host function of size bytes, and keeps the call as a step if the result is a value with Later, or if the guest sees a text that
// depends on the request or the clock. compute is nil if it cannot be repeated.
func (c *repetition) do(size int, function func() string, compute func(*repeating) string) string {
	impure, values := c.impure, c.sealed.Len()
	c.impure, c.sealed.InStep = false, true
	text := function()
	c.sealed.InStep = false
	isNew := c.sealed.Len() > values
	result := c.sealed.LaterAt(text)
	switch {
	case compute != nil && (isNew && result >= 0 || !isNew && c.impure && c.sealed.Plain(text) == nil): // no guest may compare references
		c.steps, c.stepBytes, c.impure = append(c.steps, step{compute, result, text}), c.stepBytes+stepSize+size+len(text), impure
	default:
		c.impure, c.unique = c.impure || impure, c.unique || isNew
	}
	return text
}

// repeats reports whether a function of text is a step.
func (c *repetition) repeats(text string) bool {
	return c.Repeatable && !c.sealed.InStep && c.sealed.Later(text)
}

// repeating is a call that repeats another one. It implements compose.Call and compose.Sealer for texts with the values of secrets.
type repeating struct {
	composing
	*Pattern
	// body is the reference to the body, if it was read.
	body string
}

// Repeat does what the call of a pattern has done, and returns the mutation. It is nil if the guest has to run: if it would see another
// text, if a function would fail, or if the call has a Restart.
func (c *Call) Repeat(p *Pattern) (m *Mutation) {
	r := &repeating{composing: composing{c}, Pattern: p}
	_ = c.try(func() {
		c.sealed.Reuse(p.values)
		c.composer, c.Used, c.repeating = compose.New(r), p.used, true
		for i := range p.steps {
			s := &p.steps[i]
			text := s.compute(r)
			switch {
			case s.result < 0 && text != s.text, len(text) > seal.MaxText:
				return
			case s.result >= 0:
				c.sealed.SetText(s.result, text)
			}
		}
		m = c.change(p.document)
	})
	c.impure = true // this call is not kept
	return m
}

// stop ends the repetition: the guest has to run.
func (r *repeating) stop() { r.runAgain(Restart{}) }

func (r *repeating) Body() string {
	if n, ok := r.contentLength(); n == 0 && ok {
		r.requireGroup(contract.UserBody)
		r.needRequest(contract.UserBody)
		return ""
	}
	r.body = r.composing.Body()
	return r.body
}

func (r *repeating) Digest(algorithm, data string) string {
	if r.body != "" && data == r.body {
		return r.report.Digest(algorithm, data)
	}
	h := hashes[algorithm]()
	_, _ = io.WriteString(h, data)
	return string(h.Sum(nil))
}

func (r *repeating) Encode(format, text string) string { return compose.Formats[format].Encode(text) }
func (r *repeating) Plain(string) bool                 { return true }
func (r *repeating) Sealer(int) compose.Sealer         { return r }

func (r *repeating) Part(text string, from, to int) string {
	r.Text(text)
	return text[from:to]
}

// Text ends the repetition if text has a secret, or what may be a reference: that of a pattern outlives its call (threats.md 561).
func (r *repeating) Text(text string) string {
	if strings.Contains(text, contract.SealedPrefix) || slices.ContainsFunc(r.forms, func(form string) bool { return strings.Contains(text, form) }) {
		r.stop()
	}
	return text
}

func (r *repeating) ConfigGet(name string) (string, bool) {
	value, ok := r.composing.ConfigGet(name)
	return r.fill(r.sealed.Divide(value)), ok
}

// fill returns the text of parts.
func (r *repeating) fill(parts seal.Parts) string {
	text, ok := r.sealed.Fill(parts)
	if !ok {
		r.stop()
	}
	return text
}

// Compose returns a text of the outgoing request by a template. with is a contract.Composition, or empty.
func (c *Call) Compose(template string, with []byte) string {
	c.requireGroup(contract.UserCompose)
	var composition contract.Composition
	if len(with) > 0 {
		composition = c.composition(with)
	}
	c.UsesLater = c.UsesLater || composition.Later
	if !c.Repeatable {
		return c.composeText(template, &composition)
	}
	function := func() string { return c.composeText(template, &composition) }
	return c.do(len(template)+len(with), function, c.composeAgain(template, &composition))
}

// composeText returns a text, or a reference to it.
func (c *Call) composeText(template string, with *contract.Composition) string {
	text := c.compose(template, with)
	if with.Later {
		text = c.sealLater(text)
	}
	return text
}

// composeAgain returns a step that composes with the values of secrets. It is nil if it could compose another text than with references.
func (c *repetition) composeAgain(template string, with *contract.Composition) func(*repeating) string {
	var values []seal.Parts
	sealed := false
	for _, list := range [...][]abi.Pair{with.Headers, with.Query, with.Form, with.Values} {
		for _, p := range list {
			if c.sealed.Plain(p.Name) != nil {
				return nil
			}
			values, sealed = append(values, c.sealed.Divide(p.Value)), sealed || c.sealed.Plain(p.Value) != nil
		}
	}
	if c.sealed.Plain(template) != nil || len(with.Query) > 0 && strings.Contains(template, "{query_param:") { // which encodes in another way
		return nil
	}
	return func(r *repeating) string {
		changes := with
		if sealed {
			changes = r.filled(with, values)
		}
		text := r.compose(template, changes)
		if r.body != "" && strings.Contains(text, r.body) {
			r.stop()
		}
		return text
	}
}

// filled returns a composition with the values in the parts of its texts.
func (r *repeating) filled(with *contract.Composition, values []seal.Parts) *contract.Composition {
	pairs := make([]abi.Pair, 0, len(values))
	fill := func(list []abi.Pair) []abi.Pair {
		from := len(pairs)
		for _, p := range list {
			pairs = append(pairs, abi.Pair{Name: p.Name, Value: r.fill(values[len(pairs)])})
		}
		return pairs[from:]
	}
	filled := &contract.Composition{Headers: fill(with.Headers), Query: fill(with.Query), Form: fill(with.Form), Values: fill(with.Values)}
	for i, p := range filled.Headers {
		if p.Value != with.Headers[i].Value && compose.CollapseSpace(p.Value) != p.Value { // of a reference, compose leaves the spaces
			r.stop()
		}
	}
	return filled
}

// publicSinks are the places of a composed text without secrets. As the key of a MAC it would make no credential, and as a URL it would be
// the plugin's.
const publicSinks = seal.All &^ (seal.Sign | seal.URL)

// sealLater returns a reference to a composed text.
func (c *repetition) sealLater(text string) string {
	v, sealed := c.concat("what is composed later", text)
	if !sealed {
		v.Sinks, v.Derived, v.Public = publicSinks, publicSinks, true
	}
	v.Later, v.Size = true, max(v.Size, len(v.Text), 1)
	return c.seal(v)
}

// Digest implements [contract.Env].
func (c *Call) Digest(algorithm, data string) string {
	if !c.repeats(data) {
		return c.report.Digest(algorithm, data)
	}
	return c.textStep(algorithm, data, c.report.Digest, (*repeating).Digest)
}

// Encode implements [contract.Env].
func (c *Call) Encode(format, text string) string {
	if !c.repeats(text) {
		return c.core.Encode(format, text)
	}
	return c.textStep(format, text, c.core.Encode, (*repeating).Encode)
}

// textStep calls a function of a name and a text as a step.
func (c *repetition) textStep(name, text string, function func(name, text string) string, compute func(r *repeating, name, text string) string) string {
	parts := c.sealed.Divide(text)
	return c.do(len(text), func() string { return function(name, text) }, func(r *repeating) string { return compute(r, name, r.fill(parts)) })
}

// MAC implements [contract.Env].
func (c *Call) MAC(algorithm, key, data string) string {
	if !c.repeats(data) {
		return c.keyUse.MAC(algorithm, key, data)
	}
	keyParts, parts := c.sealed.Divide(key), c.sealed.Divide(data)
	return c.do(len(key)+len(data), func() string { return c.keyUse.MAC(algorithm, key, data) }, func(r *repeating) string {
		mac, err := signing.NewMAC(algorithm, []byte(r.fill(keyParts)))
		if err != nil {
			r.stop()
		}
		_, _ = io.WriteString(mac, r.fill(parts))
		return string(mac.Sum(nil))
	})
}
