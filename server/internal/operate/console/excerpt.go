package console

import (
	"os"
	"strings"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/problem"
	"github.com/keywright/keywright/server/connectors"
)

// Problem is something that is wrong with a file.
type Problem struct {
	// Text has the place and the message.
	Text string
	// Line is the line of the file, in which an ellipsis stands for each value, because a value may be a credential. Indent has as many
	// blanks as there are characters before the place. Both are "" if there is no line to show.
	Line, Indent string
}

// ProblemsOf returns the problems of the file with a name for the page, with its lines as they are now.
func ProblemsOf(name string, all []connectors.Problem) (problems []Problem) {
	lines := map[string][]string{}
	for _, p := range all {
		found := Problem{Text: strings.TrimSpace(p.String())}
		file := name
		if p.File != "" {
			file = p.File
		}
		if _, ok := lines[file]; !ok {
			text, _ := os.ReadFile(file) // without it, there is no line
			lines[file] = strings.Split(string(text), "\n")
		}
		if p.Line >= 1 && p.Line <= len(lines[file]) && p.Column >= 1 {
			line, offset := problem.WithoutValues(lines[file][p.Line-1], p.Column-1)
			found.Line, found.Indent = host.Printable(line), strings.Repeat(" ", offset)
		}
		problems = append(problems, found)
	}
	return problems
}
