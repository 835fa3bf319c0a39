package hostfn

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/host/internal/mask"
	"github.com/keywright/keywright/host/internal/template"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/printable"
)

// report has the log lines and the steps of a call.
type report struct {
	*core
	// Trace records the exchanges. It may be nil.
	Trace *event.Trace
	lines []line
	// Steps holds what an explained call did, in order.
	Steps []view.Step
}

type line struct {
	level contract.Level
	text  string
	// field is the field of a warning of the host itself. It is "" for a line of the guest.
	field string
}

// Log keeps a line for Flush. It is not written at once, because the lines of a run that is restarted must not appear.
func (c *report) Log(level contract.Level, text string) {
	c.begin()
	c.rejectSealed("a log line", text)
	if len(c.lines) >= c.plan.Limits.LogLines {
		c.endf(StagePlugin, "more than %d log lines in one call", c.plan.Limits.LogLines)
	}
	if c.revealed {
		text = c.Scrub(text)
	}
	c.impure = true
	c.lines = append(c.lines, line{level, printable.Text(text, maxLogLine), ""})
}

// warning keeps a warning of the host itself for Flush, unless it is empty. It is about a field.
func (c *report) warning(field, text string) {
	if text != "" {
		c.impure = true
		c.lines = append(c.lines, line{contract.LevelWarn, text, field})
	}
}

// Flush writes the lines to the log. It must not be called for a run that is restarted and has had no effect.
func (c *report) Flush() {
	for _, l := range c.lines {
		switch {
		case l.field != "":
			c.plan.Warn(c.ctx, l.field, l.text)
		case l.level == contract.LevelWarn:
			c.plan.GuestWarns(c.ctx, l.text)
		default:
			c.plan.Log(c.ctx, l.level, l.text)
		}
	}
	c.lines = nil
}

// FlushWarnings writes the warnings of the host to the log, and drops the lines of the plugin.
func (c *report) FlushWarnings() {
	c.lines = slices.DeleteFunc(c.lines, func(l line) bool { return l.field == "" })
	c.Flush()
}

// ErrDropped stands for a message of a guest that no error may have.
var ErrDropped = errors.New("its message held a sealed value or is not UTF-8, and was dropped")

// Message returns the text of error_set as an error, in a form that is safe for one. A text with a sealed value is replaced
// by ErrDropped as a whole.
func (c *core) Message(text string) error {
	if !utf8.ValidString(text) || c.sealed.Plain(text) != nil {
		return ErrDropped
	}
	if c.revealed {
		text = c.Scrub(text)
	}
	return errors.New(printable.Text(text, maxLogLine))
}

// explains reports whether the call records its steps.
func (c *report) explains() bool { return c.mode == Explaining || c.plan.Explains || c.Trace != nil }

// explainSigned records a text that is signed, if the call is explained.
func (c *report) explainSigned(function, data string) {
	if c.explains() {
		c.Steps = append(c.Steps, view.Step{Signed: c.masked(data), By: function})
	}
}

// explainDiscovery records what was discovered, once, if the call is explained.
func (c *report) explainDiscovery(d template.Discovery, url string) {
	matches := func(s view.Step) bool {
		return s.Discovery != nil && s.Discovery.Issuer == d.Issuer && s.Discovery.Endpoint == d.Member
	}
	if c.explains() && !slices.ContainsFunc(c.Steps, matches) {
		c.Steps = append(c.Steps, view.Step{Discovery: &view.Discovery{Issuer: d.Issuer, Endpoint: d.Member, URL: url}})
	}
}

func (c *report) traced(a *answer.Reply, took time.Duration, err error) {
	c.Trace.Exchange(func(m *mask.Masker, descriptions bool) (e view.Exchange) {
		for _, step := range slices.Backward(c.Steps) {
			if step.Exchange != nil {
				e = *step.Exchange
				break
			}
		}
		masked := m.Answer(c.plan.Answers, a.Status, a.Header, a.Body)
		mask.Took(&masked, took, err)
		if descriptions {
			masked.Description = mask.Description(a, func(text string) bool {
				return c.Scrub(text) != text || leakscan.New(c.secretForms()).HoldsFolded(text)
			})
		}
		e.Answer = &masked
		return e
	})
}

// exchangeLog has the outcomes of a call's token requests.
type exchangeLog struct {
	// Exchanges counts the token requests that were sent.
	Exchanges int
	// Endpoint is the origin of the last one. It is "" if none was sent, or if a sealed value is a part of the host.
	Endpoint string
	// ExchangeTime is the time that token endpoints took.
	ExchangeTime time.Duration
	// TokenError is the last answer of a token endpoint if that was an error, and nil otherwise.
	TokenError *view.TokenError
	// OtherType is set if the type of the last token from a token endpoint was not bearer (RFC 6749 section 7.1).
	OtherType bool
}

// Stages of a request at which a call can fail. The host's errors name them.
const (
	StageConfig   = "config"   // the configuration, or a rendered value of it, is wrong
	StageTemplate = "template" // a template could not be rendered: a secret, variable or user field is missing
	StagePlugin   = "plugin"   // the guest failed, or broke the contract or a limit
	StageIdentity = "identity" // there is no token of an identity of the process
	StageToken    = "token"    // the token endpoint failed
	StageSign     = "sign"     // a key is wrong, or signing failed
	StageMutation = "mutation" // the changes that the guest wants cannot be applied
	StageOrigin   = "origin"   // the request is for an origin that is not the connector's
	StageBody     = "body"     // the request's body cannot be read or kept
)

// Failure is the reason why a call ended.
type Failure struct {
	Stage string
	Err   error
	// Guest is set if the guest itself has returned Err.
	Guest bool
	// TokenRequests is set if the call has made more token requests than it may.
	TokenRequests bool
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// FieldErrorf returns an error about a field.
func FieldErrorf(field, format string, args ...any) error {
	return &view.FieldError{Field: field, Err: fmt.Errorf(format, args...)}
}

// Reworded returns an error that wraps err, with another text in place of old in its text.
func Reworded(err error, old, replacement string) error { return &reworded{err, old, replacement} }

type reworded struct {
	error
	old, replacement string
}

func (r *reworded) Error() string { return strings.ReplaceAll(r.error.Error(), r.old, r.replacement) }
func (r *reworded) Unwrap() error { return r.error }

// passing is a temporary error: the same call may succeed later, with nothing changed.
type passing struct{ error }

func (p passing) Unwrap() error { return p.error }

// Passing returns err, marked as temporary. The text stays the same.
func Passing(err error) error { return passing{err} }

// IsPassing reports whether err, or an error that it wraps, is marked as temporary.
func IsPassing(err error) bool { return errors.As(err, new(passing)) }
