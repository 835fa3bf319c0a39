// Package problem collects all problems of a document, so that its author can fix them at once.
package problem

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Problem is one error in a document. Packages define their own type with these fields for the problems that they return.
type Problem struct {
	// Line and Column are the position in a file, from 1. If Line is 0, Column is the position in a text, or 0.
	Line, Column int
	// Path is the path of the value that is wrong.
	Path string
	// Message says what is wrong and what to do.
	Message string
	// Code is "", or names the kind of the problem.
	Code string
}

// String returns a problem as one line. It is meant to follow the name of a file and a colon.
func (p Problem) String() string {
	var b strings.Builder
	if p.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", p.Line, p.Column)
	}
	if p.Path != "" {
		b.WriteString(" " + p.Path + ":")
	}
	return b.String() + " " + p.Message
}

// Place is a line and a column, in characters, from 1. The zero value means that the place is not known.
type Place struct{ Line, Column int }

// Advance returns the place after a text that begins at p. The text may begin and end in the middle of a character.
func (p Place) Advance(text []byte) Place {
	if lines := bytes.Count(text, []byte("\n")); lines > 0 {
		p = Place{p.Line + lines, 1}
		text = text[bytes.LastIndexByte(text, '\n')+1:]
	}
	for _, c := range text {
		if utf8.RuneStart(c) {
			p.Column++
		}
	}
	return p
}

// Problem returns a problem at p.
func (p Place) Problem(path, format string, args ...any) Problem {
	return Problem{Line: p.Line, Column: p.Column, Path: path, Message: fmt.Sprintf(format, args...)}
}

// Collector collects problems. The zero value collects any number.
type Collector struct {
	// Max is the maximum number of problems to keep. 0 means no limit.
	Max int
	// Problems are the problems that were kept, in the order in which they were found.
	Problems []Problem
	// More is the number of problems that were not kept.
	More int
}

// Skip reports whether the collector is full. If it is, Skip counts one more problem. Callers use it to avoid the cost of a
// text that would not be kept.
func (c *Collector) Skip() bool {
	full := c.Max > 0 && len(c.Problems) >= c.Max
	if full {
		c.More++
	}
	return full
}

// At adds a problem at a place, and returns it. If the collector is full, the problem is that of nobody.
func (c *Collector) At(where Place, path, format string, args ...any) *Problem {
	if c.Skip() {
		return &Problem{}
	}
	c.Problems = append(c.Problems, where.Problem(path, format, args...))
	return &c.Problems[len(c.Problems)-1]
}

// Wrong adds a problem of the value at path, without a place, and returns it like At.
func (c *Collector) Wrong(path, format string, args ...any) *Problem {
	return c.At(Place{}, path, format, args...)
}

// Path is the path from the root of a document to a value. A nil *Path is the root. A Path is cheap to make; only String,
// which is called for problems, builds the text.
type Path struct {
	above *Path
	name  string
	// If index is negative, the path ends with the member name. Otherwise it ends with an element of a list.
	index int
}

// Member returns the path of a member of the value at p.
func (p *Path) Member(name string) *Path { return &Path{p, name, -1} }

// Item returns the path of an element of the list at p. Indexes count from 0.
func (p *Path) Item(index int) *Path { return &Path{p, "", index} }

// String returns a path such as claims.roles[0].
func (p *Path) String() string {
	switch {
	case p == nil:
		return ""
	case p.index >= 0:
		return fmt.Sprintf("%s[%d]", p.above, p.index)
	}
	return Join(p.above.String(), p.name)
}

// plainName matches the names that a path shows without quotes, if they have at most maxPlainName bytes. A counted
// repetition in the expression would take most of the time that a program needs to start.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

const maxPlainName = 100

// Join returns the path of a member below another path: a.b, or a["b c"] if the name has other characters than letters,
// digits, _ and -. [Quote] shortens long names.
func Join(path, name string) string {
	switch {
	case len(name) > maxPlainName || !plainName.MatchString(name):
		return path + "[" + Quote(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

// Quote returns a name in quotes. If it has more than 40 characters, Quote returns the first 40 and an ellipsis.
func Quote(name string) string {
	const longest = 40
	if runes := []rune(name); len(runes) > longest {
		return strconv.Quote(string(runes[:longest])) + "…"
	}
	return strconv.Quote(name)
}
