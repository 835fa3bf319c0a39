package hostfn

import (
	"slices"
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/internal/printable"
)

type line struct {
	level abi.Level
	text  string
	// fromHost is set for a line of the host itself.
	fromHost bool
}

// maxLogLine is the maximum length of a log line, in bytes. A longer line is cut.
const maxLogLine = 4 << 10

// Log keeps a line for Flush. It is not written at once, because the lines of a run that is restarted must not appear.
func (c *Call) Log(level abi.Level, text string) {
	c.plain("a log line", text)
	if len(c.lines) >= c.plan.Limits.LogLines {
		c.endf(StagePlugin, "more than %d log lines in one call", c.plan.Limits.LogLines)
	}
	if c.revealed {
		text = c.Scrub(text)
	}
	c.uncacheable = true
	c.lines = append(c.lines, line{level, printable.Text(text, maxLogLine), false})
}

// warn keeps a warning of the host itself for Flush.
func (c *Call) warn(text string) {
	c.uncacheable = true
	c.lines = append(c.lines, line{abi.LevelWarn, text, true})
}

// Flush writes the lines to the log. It must not be called for a run that is restarted and has had no effect.
func (c *Call) Flush() {
	for _, l := range c.lines {
		switch {
		case l.fromHost:
			c.plan.Warn(c.ctx, l.text)
		case l.level == abi.LevelWarn:
			c.plan.GuestWarns(c.ctx, l.text)
		default:
			c.plan.Log(c.ctx, l.level, l.text)
		}
	}
	c.lines = nil
}

// FlushWarnings writes the warnings of the host to the log, and drops the lines of the plugin.
func (c *Call) FlushWarnings() {
	c.lines = slices.DeleteFunc(c.lines, func(l line) bool { return !l.fromHost })
	c.Flush()
}

// Dropped stands for a message of a guest that no error may have.
const Dropped = "its message held a sealed value or is not UTF-8, and was dropped"

// Message returns the text of error_set in a form that is safe for an error. A text with a sealed value is replaced as
// a whole.
func (c *Call) Message(text string) string {
	if !utf8.ValidString(text) || c.sealed.Plain(text) != nil {
		return Dropped
	}
	if c.revealed {
		text = c.Scrub(text)
	}
	return printable.Text(text, maxLogLine)
}
