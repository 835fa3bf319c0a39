package hostfn

import (
	"context"

	"github.com/keywright/keywright/host/internal/compose"
	"github.com/keywright/keywright/host/internal/tokencache"
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
	c.keyUse.rendering, c.grantUse.rendering = &c.rendering, &c.rendering
	c.exchanging.cacheUse, c.exchanging.grantUse = &c.cacheUse, &c.grantUse
	return c
}

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
	for _, entries := range [...][]*tokencache.Handle{c.Used, c.usedOrigins.Entries()} {
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
