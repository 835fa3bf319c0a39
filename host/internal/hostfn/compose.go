package hostfn

import (
	"net/http"

	"github.com/keywright/keywright/host/internal/compose"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/printable"
)

// Compose returns a text of the outgoing request by a template. with is a contract.Composition, or empty.
func (c *Call) Compose(template string, with []byte) string {
	c.requireGroup(contract.UserCompose)
	if c.composer == nil {
		c.composer = compose.New(composing{c})
	}
	text, problem := c.composer.Compose(template, with)
	if problem != "" {
		c.endf(StagePlugin, "%s %s", c.templateName(template), printable.Text(problem, 1024))
	}
	return text
}

// composing is a call for package compose.
type composing struct{ *Call }

// Request implements compose.Call.
func (c composing) Request() *http.Request {
	c.needRequest(contract.UserCompose)
	return c.inputs.Request
}

// ContentLength implements compose.Call.
func (c composing) ContentLength() (n int64, ok bool) { return c.contentLength() }

// Sealer implements compose.Call.
func (c composing) Sealer(longest int) compose.Sealer { return c.sealer(longest) }

// RejectSealed implements compose.Call.
func (c composing) RejectSealed(where, text string) { c.rejectSealed(where, text) }

// Endf implements compose.Call.
func (c composing) Endf(format string, args ...any) { c.endf(StagePlugin, format, args...) }
