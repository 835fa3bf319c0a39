package imports

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// MaxLine limits a command line.
const MaxLine = 1 << 20

// A word is a word of a command line, or another part of it, with its place for errors, such as "line 2".
type word struct{ text, where string }

// errorf returns an error with the place of a word. It never has the word itself, which may be a credential.
func (w word) errorf(format string, args ...any) error {
	return fmt.Errorf(w.where+" of the command line: "+format, args...)
}

// A shellText is a text of sh with one command of curl.
type shellText struct {
	text string
	// words are those of curl.
	words []word
	// rest has all that is in no word: comments, here-documents, assignments and other commands.
	rest []word
	// commands is true if rest has other commands.
	commands bool
}

// split returns what a text of sh has. It expands nothing.
func split(text string) (*shellText, error) {
	const maxOpen = 10_000 // limits the characters that nest commands, since the parser of sh calls itself for each
	switch {
	case len(text) > MaxLine:
		return nil, fmt.Errorf("the command line is longer than %d KiB", MaxLine>>10)
	case strings.Count(text, "(")+strings.Count(text, "`")+strings.Count(text, "${")+strings.Count(text, "<<") > maxOpen:
		return nil, errors.New("the command line is nested too deeply")
	}
	s := &shellText{text: text}
	file, err := syntax.NewParser(syntax.KeepComments(true)).Parse(strings.NewReader(text), "")
	var wrong syntax.ParseError
	switch {
	case errors.As(err, &wrong):
		return nil, wordAt(wrong.Pos).errorf("a quote is not closed, or it is not of sh: \\ continues a line, and neither ^ nor ` does")
	case err != nil:
		return nil, errors.New("the command line is not of sh")
	}
	for _, statement := range file.Stmts {
		if err := s.statement(statement, false); err != nil {
			return nil, err
		}
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		if c, ok := n.(*syntax.Comment); ok {
			s.leave(c)
		}
		return true
	})
	return s, s.check()
}

func wordAt(p syntax.Pos) word { return word{where: fmt.Sprintf("line %d", p.Line())} }

func (s *shellText) leave(n syntax.Node) {
	w := wordAt(n.Pos())
	w.text = s.text[min(n.Pos().Offset(), uint(len(s.text))):min(n.End().Offset(), uint(len(s.text)))]
	s.rest = append(s.rest, w)
}

// statement reads a statement. One behind a pipe reads what curl writes.
func (s *shellText) statement(n *syntax.Stmt, piped bool) error {
	for _, r := range n.Redirs {
		if r.Hdoc != nil {
			s.leave(r.Hdoc)
		}
		if r.Op == syntax.WordHdoc {
			s.leave(r.Word)
		}
	}
	switch c := n.Cmd.(type) {
	case *syntax.BinaryCmd:
		if err := s.statement(c.X, piped); err != nil {
			return err
		}
		return s.statement(c.Y, piped || c.Op == syntax.Pipe || c.Op == syntax.PipeAll)
	case *syntax.CallExpr:
		for _, a := range c.Assigns {
			s.leave(a)
		}
		words, err := literals(c.Args)
		if len(words) > 1 && words[0].text == "$" {
			words = words[1:] // the prompt of a documentation
		}
		if len(words) == 0 || !isCurl(words[0].text) {
			break
		}
		switch {
		case err != nil:
			return err
		case len(s.words) > 0:
			return words[0].errorf("a second command of curl: import each by itself")
		}
		s.words = words
		return nil
	}
	if n.Cmd != nil {
		s.leave(n)
		s.commands = true
	}
	return nil
}

// lostStart matches the beginning of what is the rest of a command of curl, whose line before does not go on.
var lostStart = regexp.MustCompile(`^([-\x{2010}-\x{2015}]|\S*://|['"“‘])`)

// check returns an error if there is no command of curl, or if a part of the text beside it belongs to it, or shows a credential.
func (s *shellText) check() error {
	if len(s.words) == 0 {
		return errNoCurl
	}
	for _, w := range s.rest {
		switch {
		case lostStart.MatchString(w.text):
			return w.errorf("it begins as the rest of a command of curl does, and is a command of its own: the line before has to end with \\, and a comment ends a command")
		case shows(w.text):
			return w.errorf("a credential shows outside of the command of curl: leave the line out, or put a word in place of the credential")
		}
	}
	return nil
}

// literals returns the words of a command, without quotes. Variables stay as they are. With an error, it returns those before it.
func literals(all []*syntax.Word) (words []word, err error) {
	config := &expand.Config{Env: expand.FuncEnviron(func(name string) string { return "$" + name })}
	for _, n := range all {
		w := wordAt(n.Pos())
		for _, part := range n.Parts {
			if lit, ok := part.(*syntax.Lit); ok && strings.ContainsAny(lit.Value, "^“”„‘’‚«»") {
				return words, w.errorf("a quote is typographic, or a ^ is there, as at the command prompt of Windows: write the quotes and the \\ of sh")
			}
		}
		if w.text, err = expand.Literal(config, n); err != nil {
			return words, w.errorf("another command runs, by $(…) or `…`: write what that puts out, or any text in its place")
		}
		words = append(words, w)
	}
	return words, nil
}

var (
	// behindName matches the name of a credential in front of a value, in a header, a form, JSON or an assignment.
	behindName = regexp.MustCompile(`(?i)(key|token|secret|passw(or)?d|pwd|authorization|signature|jwt|session(_?id)?)["'^\\]*\s*[:=]\s*["'^\\]*[^\s"'^\\,;&{}$]|\b(bearer|basic)\s+[^\s$"']{6}|://[^/\s@]*:[^/\s@]*@`)
	runs       = regexp.MustCompile(`[A-Za-z0-9]{16,}`)
)

// shows reports whether a text seems to have a credential: behind a name for one, or by its form.
func shows(text string) bool {
	return behindName.MatchString(text) || slices.ContainsFunc(runs.FindAllString(text, -1), looksSecret)
}

// Quote returns a word as it has to stand in a command line of a shell.
func Quote(word string) string {
	quoted, err := syntax.Quote(word, syntax.LangBash)
	if err != nil {
		return word // a NUL, which no argument can have
	}
	return quoted
}
