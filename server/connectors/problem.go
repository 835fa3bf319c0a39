package connectors

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	Line    int    `json:"line,omitempty"`   // from 1; 0 when the file as a whole is meant
	Column  int    `json:"column,omitempty"` // in characters, from 1
	Path    string `json:"path,omitempty"`   // of the member, such as connectors.crm.auth.config.token_url
	Message string `json:"message"`          // what is wrong and what to do
}

// Error lists everything that is wrong with a file, in the order of the places.
type Error struct {
	File     string
	Problems []Problem

	PluginFiles []string // that it names, as in [Set]: what is wrong may be one of them
}

// Error has a line for each problem, in the form that editors and compilers share: file:line:column: what.
func (e *Error) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = e.File + ":" + p.String()
	}
	return strings.Join(lines, "\n")
}

func (p Problem) String() string { return problem.Problem(p).String() }

// maxProblems is how many problems of a file are listed.
const maxProblems = 100

// problems collects what is wrong with a file: all of it, or the first hundred and how many more there are.
type problems struct{ problem.Collector }

// at adds a problem, once. The text is made printable: parts of it come from the file.
func (p *problems) at(where problem.Place, path, format string, args ...any) {
	p.Max = maxProblems
	if p.Skip() {
		return
	}
	found := where.Problem(host.Printable(path), "%s", host.Printable(fmt.Sprintf(format, args...)))
	if !slices.Contains(p.Problems, found) {
		p.Problems = append(p.Problems, found)
	}
}

// rename returns problems that were found before the permalink was known the path that the others have.
func (p *problems) rename(from, to string) {
	for i := range p.Problems {
		if rest, ok := strings.CutPrefix(p.Problems[i].Path, from); ok && (rest == "" || rest[0] == '.') {
			p.Problems[i].Path = to + rest
		}
	}
}

// sorted returns the problems in the order of their places. Those of one place are in the order in which they were found.
// The last one says how many more there are, if any.
func (p *problems) sorted() []Problem {
	all := make([]Problem, len(p.Problems))
	for i, found := range p.Problems {
		all[i] = Problem(found)
	}
	slices.SortStableFunc(all, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	if p.More > 0 {
		all = append(all, Problem{Message: fmt.Sprintf("and %d more problems: mend these first", p.More)})
	}
	return all
}
