package hostfn

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
)

type line struct {
	level abi.Level
	text  string
	ours  bool // it is the host's own
}

// maxLogLine is how many bytes a line of the log may have. What is longer is cut.
const maxLogLine = 4 << 10

// Log keeps a line until the run ends: a run that is started again has not happened.
func (c *Call) Log(level abi.Level, text string) {
	c.plain("a log line", text)
	if len(c.lines) >= c.plan.Limits.LogLines {
		c.endf(StagePlugin, "more than %d log lines in one call", c.plan.Limits.LogLines)
	}
	if c.revealed {
		text = c.Scrub(text)
	}
	c.uncacheable = true
	c.lines = append(c.lines, line{level, Printable(text, maxLogLine), false})
}

// warn is a warning of the host itself.
func (c *Call) warn(text string) {
	c.uncacheable = true
	c.lines = append(c.lines, line{abi.LevelWarn, text, true})
}

// Flush writes the lines of a run that counts.
func (c *Call) Flush() {
	for _, l := range c.lines {
		switch {
		case l.ours:
			c.plan.Warn(c.ctx, l.text)
		case l.level == abi.LevelWarn:
			c.plan.GuestWarns(c.ctx, l.text)
		default:
			c.plan.Log(c.ctx, l.level, l.text)
		}
	}
	c.lines = nil
}

// Printable makes a text of a guest fit for logs and errors: valid UTF-8, no control characters, which would forge lines
// or talk to a terminal (threats.md 21), and of bounded length.
func Printable(text string, limit int) string {
	if len(text) > limit {
		text = text[:limit] + "…"
	}
	text = strings.ToValidUTF8(text, "�")
	clean := true
	for _, r := range text {
		if !unicode.IsPrint(r) {
			clean = false
			break
		}
	}
	if clean {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// Message makes what a guest put into error_set fit for an error.
func (c *Call) Message(text string) string {
	if !utf8.ValidString(text) || c.sealed.Plain(text) != nil {
		return "its message held a sealed value or is not UTF-8, and was dropped"
	}
	if c.revealed {
		text = c.Scrub(text)
	}
	return Printable(text, maxLogLine)
}
