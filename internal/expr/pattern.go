package expr

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
)

// Limits of the patterns of matches in one source.
const (
	MaxProgram = 4096    // instructions
	MaxReading = 1 << 16 // what it takes to parse them; see reading
)

// Limits of those in all sources that one Patterns counts. In memory, patterns take some 50 bytes for an instruction, and
// 20 for a unit of reading.
const (
	MaxPrograms = 128 * MaxProgram
	MaxReadings = 32 * MaxReading
)

// pattern is a regular expression that matches looks for.
type pattern struct {
	*regexp.Regexp
	size int // instructions, or some more
}

// Patterns bounds what the patterns of sources that are served together take. The zero value is ready for use. It is not safe for concurrent use.
type Patterns struct {
	program, reading int // of all sources, those with problems included
}

// Source counts what the patterns of a source take. It is known before anything is expanded: a pattern of some hundred
// bytes can mean a program of gigabytes.
type Source struct {
	all     *Patterns
	program int // instructions, up to MaxProgram
	reading int // units of reading, up to MaxReading
}

// Source returns the count for one more source.
func (all *Patterns) Source() *Source { return &Source{all: all} }

// compile compiles a pattern. The problem says what is wrong with it, without quoting it; it is empty when nothing is.
func (p *Source) compile(source string) (_ *pattern, problem string) {
	units := reading(source)
	p.reading += units
	switch p.all.reading += units; {
	case p.reading > MaxReading:
		return nil, "the patterns of matches take too long to read: shorten them, or the ranges of characters in those that ignore case"
	case p.all.reading > MaxReadings:
		return nil, "all patterns of matches together take too long to read: shorten them, or use fewer"
	}
	tree, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		what := "not understood"
		if e := (*syntax.Error)(nil); errors.As(err, &e) {
			what = e.Code.String()
		}
		return nil, "the pattern is no regular expression of RE2: " + what
	}
	size := programSize(tree) + 2 // match and fail
	p.program += size
	switch p.all.program += size; {
	case p.program > MaxProgram:
		return nil, "the patterns of matches are too large: repeat less in them, as in {0,30}"
	case p.all.program > MaxPrograms:
		return nil, "all patterns of matches together are too large: repeat less in them, or use fewer"
	}
	compiled, err := regexp.Compile(source)
	if err != nil { // it was parsed
		return nil, "the pattern cannot be compiled"
	}
	return &pattern{compiled, size}, ""
}

// reading estimates what it takes to parse a pattern. A unit is one character of a range in a pattern that ignores
// case: the parser looks at each of them for another one that differs in case.
func reading(source string) int {
	const each, class = 8, 1024    // of a byte, and of a class that has a name of Unicode's
	const mostFolded = 0x1e943 + 1 // no character above has another case
	units := each*len(source) + class*(strings.Count(source, `\p`)+strings.Count(source, `\P`))
	if !ignoresCase.MatchString(source) {
		return units
	}
	for rest := source; ; {
		_, after, found := strings.Cut(rest, "-")
		if !found {
			return units
		}
		rest = after
		end, _ := utf8.DecodeRuneInString(after)
		switch {
		case end == '\\' && len(after) > 1 && strings.IndexByte("x01234567", after[1]) >= 0:
			end = mostFolded
		case end == '\\':
			end = utf8.RuneSelf
		}
		units += min(int(end), mostFolded)
	}
}

// ignoresCase matches the flag. A (? that is only text counts as well.
var ignoresCase = regexp.MustCompile(`\(\?[msU-]*i`)

// programSize returns how many instructions a pattern has at most, without writing out its repetitions. The result is
// MaxProgram + 1 when there are more than MaxProgram.
func programSize(tree *syntax.Regexp) int {
	size := 0
	for _, part := range tree.Sub {
		size += programSize(part)
	}
	switch tree.Op {
	case syntax.OpLiteral:
		size = len(tree.Rune)
	case syntax.OpCapture, syntax.OpStar:
		size += 2
	case syntax.OpPlus, syntax.OpQuest:
		size++
	case syntax.OpAlternate:
		size += len(tree.Sub)
	case syntax.OpRepeat:
		if tree.Max < 0 {
			size = size*max(tree.Min, 1) + 2
		} else {
			size = size*tree.Max + tree.Max - tree.Min
		}
	}
	return min(max(size, 1), MaxProgram+1)
}

// direct is how many instructions, each over one byte, a match takes that nothing can end: some milliseconds.
const (
	direct   = 1 << 16
	stepWork = 16 // instructions of a pattern, each over one byte, in a step
)

func (b *builder) matches(n *ast.BinaryNode) operand {
	literal, ok := n.Right.(*ast.StringNode)
	if !ok {
		return b.fail(n.Right, "the pattern of matches must be a literal text, in quotes")
	}
	p, problem := b.patterns.compile(literal.Value)
	if problem != "" {
		return b.fail(literal, "%s", problem)
	}
	return apply(b.at(n), Boolean, func(r *Run, x, _ any) any { return r.matches(x, p) }, b.build(n.Left, false), constant(Null, nil))
}

// matches reports whether a text has what a pattern looks for. null has not.
func (r *Run) matches(value any, p *pattern) bool {
	if value == nil {
		return false
	}
	s := r.text(value)
	if work := (len(s) + 1) * p.size; work <= direct {
		r.take(work / stepWork)
		return p.MatchString(s)
	}
	in := &counted{Reader: strings.NewReader(s), run: r, each: p.size}
	found := p.MatchReader(in) // which must not be left by a panic
	r.must(in.err)
	return found
}

// counted is a text that takes steps as a pattern goes through it, and ends when there are no more.
type counted struct {
	*strings.Reader
	run  *Run
	each int // instructions for a byte
	work int // that no step has been taken for
	err  *Error
}

// ReadRune implements io.RuneReader, which a match reads until the first error.
func (c *counted) ReadRune() (rune, int, error) {
	char, size, err := c.Reader.ReadRune()
	if c.work += max(size, 1) * c.each; c.work >= direct/stepWork && c.err == nil {
		c.err = c.run.count(c.work / stepWork)
		c.work %= stepWork
	}
	if c.err != nil {
		return 0, 0, c.err
	}
	return char, size, err
}
