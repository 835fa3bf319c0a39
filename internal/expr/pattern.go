package expr

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/ast"
)

// Limits of the patterns in one source: those of matches in a text with expressions, or those of the fields of a plugin.
const (
	MaxProgram = 4096    // instructions of the compiled patterns
	MaxReading = 1 << 16 // units of parsing, see reading
)

// Limits of the patterns in all sources of one Patterns. An instruction takes some 50 bytes of memory, and a unit of parsing 20.
const (
	MaxPrograms = 128 * MaxProgram
	MaxReadings = 32 * MaxReading
)

// pattern is the regular expression of an operator matches.
type pattern struct {
	*regexp.Regexp
	// size is an upper bound for the number of instructions.
	size int
}

// Patterns limits the costs of the patterns of all sources that are served together. The zero value is ready for use. It is
// not safe for concurrent use.
type Patterns struct {
	// program and reading are the costs of all sources, including those with errors.
	program, reading int
}

// Source limits the costs of the patterns of one source. It computes them before a pattern is expanded, because a pattern of
// some hundred bytes can expand to a program of gigabytes.
type Source struct {
	all *Patterns
	// program is the number of instructions, limited by MaxProgram.
	program int
	// reading is the number of units of parsing, limited by MaxReading.
	reading int
}

// Source returns a Source whose costs also count against those of all sources.
func (all *Patterns) Source() *Source { return &Source{all: all} }

// compile compiles a pattern. If it fails, problem is an error message that does not quote the pattern.
func (p *Source) compile(source string) (_ *pattern, problem string) {
	units := reading(source)
	p.reading += units
	switch p.all.reading += units; {
	case p.reading > MaxReading:
		return nil, "the patterns take too long to read: shorten them, or the ranges of characters in those that ignore case"
	case p.all.reading > MaxReadings:
		return nil, "all patterns together take too long to read: shorten them, or use fewer"
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
		return nil, "the patterns are too large: repeat less in them, as in {0,30}"
	case p.all.program > MaxPrograms:
		return nil, "all patterns together are too large: repeat less in them, or use fewer"
	}
	return &pattern{regexp.MustCompile(source), size}, "" // it has been parsed
}

// reading estimates the cost of parsing a pattern. A unit is one character of a range in a pattern that ignores case: for
// each of them the parser looks up the characters that differ in case only.
func reading(source string) int {
	const each, class = 8, 1024    // units for a byte, and for a Unicode class such as \pL
	const mostFolded = 0x1e943 + 1 // no character from here on has another case
	units := each*len(source) + class*(strings.Count(source, `\p`)+strings.Count(source, `\P`))
	if !ignoresCase.MatchString(source) {
		return units
	}
	for rest := source; ; {
		_, suffix, _ := strings.Cut(rest, "-")
		if suffix == "" { // also a - at the end, which has no range behind it
			return units
		}
		rest = suffix
		end, _ := utf8.DecodeRuneInString(suffix)
		switch {
		case end == '\\' && len(suffix) > 1 && strings.IndexByte("x01234567", suffix[1]) >= 0:
			end = mostFolded
		case end == '\\':
			end = utf8.RuneSelf
		}
		units += min(int(end), mostFolded)
	}
}

// ignoresCase matches the flag i. It also matches a (? that is literal text.
var ignoresCase = regexp.MustCompile(`\(\?[msU-]*i`)

// programSize returns an upper bound for the number of instructions of a pattern, without expanding its repetitions. The
// result is at most MaxProgram + 1.
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

// Work of a match is counted in instructions for one byte of text.
const (
	direct   = 1 << 16 // the maximum work of a match that cannot be interrupted: some milliseconds
	stepWork = 16      // the work in one step
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
	return apply(b.columnOf(n), Boolean, func(r *Run, x, _ any) any { return r.matches(x, p) }, b.build(n.Left, false), constant(Null, nil))
}

// A Matcher compares texts with a pattern that is in no expression. It is safe for concurrent use.
type Matcher struct{ anchored *pattern }

// Matcher compiles a pattern that whole texts must match. If it fails, problem is an error message that does not quote the pattern.
func (p *Source) Matcher(source string) (_ *Matcher, problem string) {
	one, problem := p.compile(source)
	if problem != "" {
		return nil, problem
	}
	const anchors = 2
	return &Matcher{&pattern{regexp.MustCompile(`\A(?:` + source + `)\z`), one.size + anchors}}, ""
}

// ofMatchers limits the work of one comparison of a Matcher: some 70 milliseconds.
var ofMatchers = &Limits{Steps: 1 << 18, TooManySteps: "is too long to be compared with the pattern of the field"}

// Work returns the work of comparing a text, in instructions for one byte.
func (m *Matcher) Work(text string) int { return (len(text) + 1) * m.anchored.size }

// Match reports whether the whole text matches. The error says that the text is too long for so large a pattern.
func (m *Matcher) Match(text string) (matches bool, err *Error) {
	defer catch(&err)
	r := NewRun(nil, ofMatchers)
	return r.matches(text, m.anchored), nil
}

// matches reports whether a text matches a pattern. For null it returns false.
func (r *Run) matches(value any, p *pattern) bool {
	if value == nil {
		return false
	}
	s := r.text(value)
	if work := (len(s) + 1) * p.size; work <= direct {
		r.take(work / stepWork)
		return p.MatchString(s)
	}
	in := &counter{Reader: strings.NewReader(s), run: r, each: p.size}
	found := p.MatchReader(in) // in returns errors, because a panic must not pass through package regexp
	r.must(in.err)
	return found
}

// counter is a reader of a text. It takes steps while a pattern is matched, and returns an error when they are used up.
type counter struct {
	*strings.Reader
	run *Run
	// each is the work for one byte.
	each int
	// work is the work for which no step has been taken yet.
	work int
	err  *Error
}

// ReadRune implements io.RuneReader. MatchReader calls it until the first error.
func (c *counter) ReadRune() (rune, int, error) {
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
