package problem

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

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
	name := true // whether a name may be next
	put := func(read int, text ...rune) {
		if where < 0 && done+read > start {
			where = len(b) + min(start-done, max(0, len(text)-1))
		}
		b, rest, done = append(b, text...), rest[read:], done+read
	}
	for len(rest) > 0 {
		switch c := rest[0]; {
		case unicode.IsSpace(c):
			put(1, ' ')
		case c == '{' || c == '[':
			depth++
			name = true
			put(1, c)
		case depth > 0 && (c == '}' || c == ']'):
			depth--
			put(1, c)
		case depth > 0 && c == ',':
			name = true
			put(1, c)
		case name && c == '-' && (len(rest) == 1 || unicode.IsSpace(rest[1])):
			put(1, c)
		case name && memberName.MatchString(string(rest[:min(len(rest), 48)])):
			name = false
			length := slices.Index(rest, ':') + 1
			put(length, rest[:length]...)
		default:
			name = false
			put(valueLength(rest, depth), '…')
		}
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
