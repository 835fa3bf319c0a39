package importer

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// Problem is something that is wrong with what is imported. It never quotes more of it than a name.
type Problem struct {
	File    string // as it was named to [Import]
	Line    int    // from 1
	Column  int    // from 1, in characters
	Path    string // in the record, such as author.reputation.likesReceived; "" is the record itself
	Message string // what is wrong, and what to do
}

// String is the problem in a line: file:line:column: path: message.
func (p Problem) String() string {
	where := fmt.Sprintf("%s:%d:%d: ", p.File, p.Line, p.Column)
	if p.Path != "" {
		where += p.Path + ": "
	}
	return where + p.Message
}

// flaw is the error of an input that is no record.
type flaw struct {
	Problem
	record bool // it is one record that is lost
}

func (f *flaw) Error() string { return f.String() }

// position is where in the input something is.
type position struct{ line, column int }

// advance returns the position after a text.
func (p position) advance(text []byte) position {
	if lines := bytes.Count(text, []byte("\n")); lines > 0 {
		p.line += lines
		p.column = 1
		text = text[bytes.LastIndexByte(text, '\n')+1:]
	}
	p.column += characters(text)
	return p
}

// characters counts the characters that begin in a text, which may begin in the middle of one.
func characters(text []byte) int {
	n := 0
	for _, c := range text {
		if utf8.RuneStart(c) {
			n++
		}
	}
	return n
}

func (p position) problem(path, format string, args ...any) Problem {
	return Problem{Line: p.line, Column: p.column, Path: path, Message: fmt.Sprintf(format, args...)}
}

// quote shows a name of the input, cut if it is none that anybody would give to something.
func quote(name string) string {
	const longest = 40
	cut := ""
	if utf8.RuneCountInString(name) > longest {
		name, cut = string([]rune(name)[:longest]), "…"
	}
	return fmt.Sprintf("%q", name+cut)
}
