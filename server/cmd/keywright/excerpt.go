package main

import (
	"fmt"
	"os"
	"strings"
	"unicode"

	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/terminal"
)

// An excerpts shows the lines of a file that have problems, to the person at a terminal who wrote it. Elsewhere it shows nothing: a
// line may hold a credential, and logs are kept.
type excerpts struct {
	style terminal.Style
	width int
	lines []string
}

// excerptsFor returns the excerpts of a file. There are none if the command does not write to a terminal, or if the file cannot be
// read again.
func (a *app) excerptsFor(file string) excerpts {
	e := excerpts{style: terminal.StyleOf(a.out, a.env), width: terminal.Columns(a.out)}
	if e.width == 0 {
		return e
	}
	text, err := os.ReadFile(file)
	if err == nil {
		e.lines = strings.Split(string(text), "\n")
	}
	return e
}

// of returns the line of a problem with its number, and a caret below the character, or "". If the line is wider than the terminal, of
// returns the part of it around the character.
func (e excerpts) of(p connectors.Problem) string {
	lines := e.lines
	if p.File != "" && e.width > 0 {
		text, _ := os.ReadFile(p.File) // without it, there is no line
		lines = strings.Split(string(text), "\n")
	}
	if p.Line < 1 || p.Line > len(lines) || p.Column < 1 {
		return ""
	}
	line := []rune(strings.Map(visible, strings.TrimRight(lines[p.Line-1], "\r")))
	before := fmt.Sprintf("%5d | ", p.Line)
	room := max(20, e.width-len(before))
	at := min(p.Column-1, len(line))
	if from := min(at-room/2, len(line)-room); from > 0 {
		line, at = line[from:], at-from
	}
	line = line[:min(room, len(line))]
	under := fmt.Sprintf("%*s | ", len(before)-3, "")
	return e.style.Dim(before) + string(line) + "\n" + e.style.Dim(under) + strings.Repeat(" ", at) + e.style.Red("^") + "\n"
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
