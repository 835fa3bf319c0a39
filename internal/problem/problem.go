// Package problem collects everything that is wrong with what somebody wrote, so that all of it can be mended in one go.
package problem

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Problem is one thing that is wrong. Packages have types of their own for what they return, with these fields.
type Problem struct {
	// Line and Column are its place in a file, from 1. A Column without a Line is that in a text.
	Line, Column int
	// Path is that of the member.
	Path string
	// Message says what is wrong and what to do.
	Message string
}

// String returns a problem in a line, as it follows the name of a file and a colon.
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

// Place is a line and a column, in characters, from 1. The zero value is no place.
type Place struct{ Line, Column int }

// Advance returns the place behind a text that begins here. The text may begin and end in the middle of a character.
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

// Problem returns what is wrong at the place.
func (p Place) Problem(path, format string, args ...any) Problem {
	return Problem{p.Line, p.Column, path, fmt.Sprintf(format, args...)}
}

// Collector collects problems. The zero value collects any number.
type Collector struct {
	// Max is how many are kept. 0 means all.
	Max int
	// Problems are in the order in which they were found.
	Problems []Problem
	// More counts those that are not kept.
	More int
}

// Skip reports whether one more problem would not be kept, and counts it then. To ask first saves the cost of its text.
func (c *Collector) Skip() bool {
	full := c.Max > 0 && len(c.Problems) >= c.Max
	if full {
		c.More++
	}
	return full
}

// At adds what is wrong at a place.
func (c *Collector) At(where Place, path, format string, args ...any) {
	if !c.Skip() {
		c.Problems = append(c.Problems, where.Problem(path, format, args...))
	}
}

// Wrong adds what is wrong with a member.
func (c *Collector) Wrong(path, format string, args ...any) { c.At(Place{}, path, format, args...) }
