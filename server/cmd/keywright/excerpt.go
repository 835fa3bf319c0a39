package main

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/terminal"
)

// An excerpts shows the lines of a file that have problems, to the person at a terminal who wrote it. Elsewhere it shows nothing: a
// line may hold a credential, and logs are kept.
type excerpts struct {
	style terminal.Style
	width int
	// lines has the lines of each file, without the credentials that the warnings found.
	lines map[string][][]rune
	// unread has the files that are no YAML, so that nobody knows which of their texts are credentials.
	unread map[string]bool
}

// excerptsFor returns the excerpts of a file and those that it names, with stars in place of the credentials that warnings found
// (threats.md 250), and in place of those that a line shows by itself (threats.md 280). The lines of a file that is no YAML have no values.
// There are none if the command does not write to a terminal, if the file cannot be read again, or if there are more warnings than are listed.
func (a *app) excerptsFor(file string, problems, warnings []connectors.Problem) excerpts {
	e := excerpts{terminal.StyleOf(a.out, a.env), terminal.Columns(a.out), map[string][][]rune{}, map[string]bool{}}
	cut := slices.ContainsFunc(warnings, func(p connectors.Problem) bool { return p.Line == 0 })
	if e.width == 0 || cut {
		return e
	}
	for _, p := range slices.Concat(problems, warnings) {
		if p.Path == "" && p.Line > 0 { // a problem of the text, and not of a member
			e.unread[p.File] = true
		}
		if _, known := e.lines[p.File]; known {
			continue
		}
		text, _ := os.ReadFile(cmp.Or(p.File, file)) // without it, there is no line
		e.lines[p.File] = nil
		for line := range strings.SplitSeq(strings.TrimPrefix(string(text), "\ufeff"), "\n") {
			e.lines[p.File] = append(e.lines[p.File], []rune(strings.Map(visible, connectors.Conceal(strings.TrimRight(line, "\r")))))
		}
	}
	for _, p := range warnings {
		e.hide(p)
	}
	return e
}

// hide puts stars in place of the credential that a warning has found.
func (e excerpts) hide(p connectors.Problem) {
	lines, from, hidden := e.lines[p.File], max(p.Column-1, 0), p.Hidden
	for at := max(p.Line-1, 0); hidden > 0 && at < len(lines); at++ {
		for i := from; i < min(from+hidden, len(lines[at])); i++ {
			lines[at][i] = '*'
		}
		hidden -= max(len(lines[at])-from, 0) + 1 // and the end of the line
		from = 0
	}
}

// of returns the line of a problem with its number, and a caret below the character, or "". If the line is wider than the terminal, of
// returns the part of it around the character.
func (e excerpts) of(p connectors.Problem, caret string) string {
	lines := e.lines[p.File]
	if p.Line < 1 || p.Line > len(lines) || p.Column < 1 {
		return ""
	}
	line, column := lines[p.Line-1], p.Column-1
	if e.unread[p.File] {
		shape, where := problem.WithoutValues(string(line), column)
		line, column = []rune(shape), where
	}
	before := fmt.Sprintf("%5d | ", p.Line)
	room := max(20, e.width-len(before))
	at := min(column, len(line))
	if from := min(at-room/2, len(line)-room); from > 0 {
		line, at = line[from:], at-from
	}
	line = line[:min(room, len(line))]
	under := fmt.Sprintf("%*s | ", len(before)-3, "")
	return e.style.Dim(before) + string(line) + "\n" + e.style.Dim(under) + strings.Repeat(" ", at) + caret + "\n"
}

// visible returns a character of one column, for characters that would move the cursor or that fonts do not show.
func visible(r rune) rune {
	switch {
	case unicode.IsSpace(r):
		return ' '
	case !unicode.IsPrint(r):
		return '\ufffd'
	}
	return r
}
