package connectors

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/keywright/keywright/internal/problem"
)

// A Problem is an error in a file, or something in it that is probably a mistake.
type Problem struct {
	// File is the path of the file if it is another one than that of the [Error]: one of connectors_dir.
	File string `json:"file,omitempty"`
	// Line counts from 1. It is 0 if the problem concerns the file as a whole.
	Line int `json:"line,omitempty"`
	// Column counts characters from 1. It is 0 if Line is 0.
	Column int `json:"column,omitempty"`
	// Path names the member, such as connectors.crm.auth.config.token_url. It may be empty.
	Path string `json:"path,omitempty"`
	// Message says what is wrong and how to correct it.
	Message string `json:"message"`
	// Hidden is the number of characters from Column on that are a credential, which no output may show. They may go on in the next
	// lines, of which each counts one character more. It is 0 for most problems.
	Hidden int `json:"-"`
}

// An Error lists the problems of a file, in the order of their places: up to 100, and then one with the number of the others.
type Error struct {
	File     string
	Problems []Problem
	// Warnings are like those of a [Set].
	Warnings []Problem

	// Files holds the paths of the files that the file names, as in [Set], because a problem may be due to one of these.
	Files []string
}

// Error returns a line for each problem in the usual form of compilers: file:line:column: message.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		place, text := p.Parts(e.File)
		lines[i] = place + " " + text
	}
	return strings.Join(lines, "\n")
}

// String returns a problem as one line. It begins with File and a colon, or is meant to follow them.
func (p Problem) String() string {
	place, text := p.Parts("")
	return strings.TrimPrefix(place, ":") + " " + text
}

// Parts returns the place of a problem as in file:line:column:, and its text. file is that of the [Error] or the [Set].
func (p Problem) Parts(file string) (place, text string) {
	text = problem.Problem{Path: p.Path, Message: p.Message}.String()
	place = cmp.Or(p.File, file) + ":"
	if p.Line > 0 {
		place += fmt.Sprintf("%d:%d:", p.Line, p.Column)
	}
	return place, strings.TrimSpace(text)
}

// maxProblems limits the problems that are listed for a file.
const maxProblems = 100

// problems collects the first hundred problems or warnings of a file, and counts the others.
type problems struct {
	all  []Problem
	more int
}

// skip reports whether there are too many problems already. If so, skip counts one more.
func (p *problems) skip() bool {
	full := len(p.all) >= maxProblems
	if full {
		p.more++
	}
	return full
}

// report adds a problem unless it was added before. It makes the text printable, because parts of it come from the file.
func (p *problems) report(where problem.Place, path, format string, args ...any) {
	if p.skip() {
		return
	}
	found := problemAt(where, path, format, args...)
	if !slices.Contains(p.all, found) {
		p.all = append(p.all, found)
	}
}

// problemAt returns a problem at a place in the whole text.
func problemAt(where problem.Place, path, format string, args ...any) Problem {
	return Problem{Line: where.Line, Column: where.Column, Path: printable(path), Message: printable(fmt.Sprintf(format, args...))}
}

// rename replaces the path from in the problems that were found before the permalink was known.
func (p *problems) rename(from, to string) {
	for i := range p.all {
		if rest, ok := strings.CutPrefix(p.all[i].Path, from); ok && (rest == "" || rest[0] == '.') {
			p.all[i].Path = to + rest
		}
	}
}

// sorted returns the problems in the order of their places in the whole text, each with its file and its line there. Problems with
// the same place keep the order in which they were added. If there are more, the last one says so with their number.
func (p *problems) sorted(parts []part, more string) []Problem {
	all := slices.Clone(p.all)
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	for i := range all {
		all[i].File, all[i].Line = locatePart(parts, all[i].Line)
	}
	if p.more > 0 {
		all = append(all, Problem{Message: fmt.Sprintf(more, p.more)})
	}
	return all
}

// Ends of the lists of problems and warnings.
const (
	moreProblems = "and %d more problems: mend these first"
	moreWarnings = "and %d more warnings"
)
