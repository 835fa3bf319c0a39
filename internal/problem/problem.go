// Package problem collects all problems of a document, so that its author can fix them at once.
package problem

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Problem is one error in a document. Packages define their own type with these fields for the problems that they return.
type Problem struct {
	// Line and Column are the position in a file, from 1. If Line is 0, Column is the position in a text, or 0.
	Line, Column int
	// Path is the path of the value that is wrong.
	Path string
	// Message says what is wrong and what to do.
	Message string
	// Code is "", or names the kind of the problem.
	Code string
}

// String returns a problem as one line. It is meant to follow the name of a file and a colon.
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

// Place is a line and a column, in characters, from 1. The zero value means that the place is not known.
type Place struct{ Line, Column int }

// Advance returns the place after a text that begins at p. The text may begin and end in the middle of a character.
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

// Problem returns a problem at p.
func (p Place) Problem(path, format string, args ...any) Problem {
	return Problem{Line: p.Line, Column: p.Column, Path: path, Message: fmt.Sprintf(format, args...)}
}

// Collector collects problems. The zero value collects any number.
type Collector struct {
	// Max is the maximum number of problems to keep. 0 means no limit.
	Max int
	// Problems are the problems that were kept, in the order in which they were found.
	Problems []Problem
	// More is the number of problems that were not kept.
	More int
}

// Skip reports whether the collector is full. If it is, Skip counts one more problem. Callers use it to avoid the cost of a
// text that would not be kept.
func (c *Collector) Skip() bool {
	full := c.Max > 0 && len(c.Problems) >= c.Max
	if full {
		c.More++
	}
	return full
}

// At adds a problem at a place, and returns it. If the collector is full, the problem is that of nobody.
func (c *Collector) At(where Place, path, format string, args ...any) *Problem {
	if c.Skip() {
		return &Problem{}
	}
	c.Problems = append(c.Problems, where.Problem(path, format, args...))
	return &c.Problems[len(c.Problems)-1]
}

// Wrong adds a problem of the value at path, without a place, and returns it like At.
func (c *Collector) Wrong(path, format string, args ...any) *Problem {
	return c.At(Place{}, path, format, args...)
}

// Path is the path from the root of a document to a value. A nil *Path is the root. A Path is cheap to make; only String,
// which is called for problems, builds the text.
type Path struct {
	above *Path
	name  string
	// If index is negative, the path ends with the member name. Otherwise it ends with an element of a list.
	index int
}

// Member returns the path of a member of the value at p.
func (p *Path) Member(name string) *Path { return &Path{p, name, -1} }

// Item returns the path of an element of the list at p. Indexes count from 0.
func (p *Path) Item(index int) *Path { return &Path{p, "", index} }

// String returns a path such as claims.roles[0].
func (p *Path) String() string {
	switch {
	case p == nil:
		return ""
	case p.index >= 0:
		return fmt.Sprintf("%s[%d]", p.above, p.index)
	}
	return Join(p.above.String(), p.name)
}

// plainName matches the names that a path shows without quotes, if they have at most maxPlainName bytes. A counted
// repetition in the expression would take most of the time that a program needs to start.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

const maxPlainName = 100

// Join returns the path of a member below another path: a.b, or a["b c"] if the name has other characters than letters,
// digits, _ and -. [Quote] shortens long names.
func Join(path, name string) string {
	switch {
	case len(name) > maxPlainName || !plainName.MatchString(name):
		return path + "[" + Quote(name) + "]"
	case path == "":
		return name
	}
	return path + "." + name
}

// Quote returns a name in quotes. If it has more than 40 characters, Quote returns the first 40 and an ellipsis.
func Quote(name string) string {
	const longest = 40
	if runes := []rune(name); len(runes) > longest {
		return strconv.Quote(string(runes[:longest])) + "…"
	}
	return strconv.Quote(name)
}

// DidYouMean returns the end of an error message for an unknown name: the nearest known name, or all of them if none is near.
func DidYouMean(name string, names []string) string {
	if suggestion, ok := Nearest(name, names); ok {
		return fmt.Sprintf("; did you mean %q?", suggestion)
	}
	return "; there are " + strings.Join(names, ", ")
}

// Nearest returns the known name that was probably meant, if there is one. Such a name differs only in case, is the plural or
// the singular of name, or is at most two typing errors away (one, if name has less than six letters).
func Nearest(name string, names []string) (string, bool) {
	best, distance := "", 1+min(2, max(1, len(name)/3))
	for _, k := range names {
		if strings.EqualFold(name, k) || singular(name) == singular(k) {
			return k, true
		}
		if max(len(name)-len(k), len(k)-len(name)) >= distance {
			continue // each extra or missing letter is a typing error
		}
		if d := slips(name, k); d < distance {
			best, distance = k, d
		}
	}
	return best, best != ""
}

// singular returns the singular of an English noun: proxy for proxies.
func singular(name string) string {
	if stem, ok := strings.CutSuffix(name, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(name, "s")
}

// slips returns the number of typing errors between two names: extra, missing and wrong letters, and swapped neighbours. It
// is the restricted Damerau–Levenshtein distance.
func slips(a, b string) int {
	const longest = 64
	if len(a) > longest || len(b) > longest {
		return longest
	}
	var previous, last []int // the last two rows of the table of distances between prefixes of a and b
	for i := range len(a) + 1 {
		row := make([]int, len(b)+1)
		for j := range row {
			if i == 0 || j == 0 {
				row[j] = i + j
				continue
			}
			wrong := 1
			if a[i-1] == b[j-1] {
				wrong = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+wrong)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], previous[j-2]+1)
			}
		}
		previous, last = last, row
	}
	return last[len(b)]
}

// memberName matches the name of a member at the beginning of a text, with what separates it from its value.
var memberName = regexp.MustCompile(`^[a-z][a-z_]{0,39}:(?:\s|$)`)

// maxShape is the maximum number of characters of a line that is shown.
const maxShape = 160

// WithoutValues returns a line of YAML with names of members and brackets, and an ellipsis in place of everything else, because a value may
// be a credential. The line need not be valid. start is the number of characters before a place in the line, and where is the same for the
// result.
func WithoutValues(line string, start int) (shape string, where int) {
	rest, done, depth := []rune(strings.TrimRight(line, "\r")), 0, 0
	var b []rune
	where = -1
	for name := true; len(rest) > 0; { // name is set where a name may be next
		c, size, text := rest[0], 1, rest[:1]
		switch {
		case unicode.IsSpace(c):
			text = []rune{' '}
		case c == '{' || c == '[':
			depth, name = depth+1, true
		case depth > 0 && (c == '}' || c == ']'):
			depth--
		case depth > 0 && c == ',':
			name = true
		case name && c == '-' && (len(rest) == 1 || unicode.IsSpace(rest[1])):
		case name && memberName.MatchString(string(rest[:min(len(rest), 48)])):
			name, size = false, slices.Index(rest, ':')+1
			text = rest[:size]
		default:
			name, size, text = false, valueLength(rest, depth), []rune{'…'}
		}
		if where < 0 && done+size > start {
			where = len(b) + min(start-done, len(text)-1)
		}
		b, rest, done = append(b, text...), rest[size:], done+size
	}
	if where < 0 {
		where = len(b)
	}
	if len(b) > maxShape && where < maxShape {
		b = append(b[:maxShape], '…')
	}
	return strings.TrimRight(string(b), " "), where
}

// valueLength returns the length of the value at the beginning of a line's rest: outside of brackets it is all of the rest, and inside it
// ends before the next comma or bracket that is not in quotes.
func valueLength(rest []rune, depth int) int {
	if depth == 0 {
		return len(rest)
	}
	var quote rune
	for i, c := range rest {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case i > 0 && (c == ',' || c == '}' || c == ']'):
			return i
		}
	}
	return len(rest)
}
