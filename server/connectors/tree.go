package connectors

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/keywright/keywright/internal/problem"
)

const (
	maxNesting = 100
	// maxValues limits the texts, numbers, lists and objects of a file. A value counts again each time an alias repeats it.
	maxValues = 50_000
)

// A node is a value of the file with its place. Aliases of the file share nodes.
type node struct {
	problem.Place
	kind kind
	// value is the value of a scalar: a string, json.Number, bool or nil.
	value   any
	members []member
	items   []*node
	// indexes maps names to indexes in members.
	indexes map[string]int

	// size is the number of values in this one, including itself and the repetitions of aliases.
	size int
	// bytes is the size of the texts and names in this value, including the repetitions of aliases.
	bytes int
	// depth is the number of levels of lists and objects, including this one. It is 0 for a scalar.
	depth int
}

type kind string

const (
	scalar kind = "scalar"
	object kind = "object"
	list   kind = "list"
)

type member struct {
	name  string
	key   problem.Place
	value *node
}

// get returns the member with a name, or nil.
func (n *node) get(name string) *member {
	if n == nil {
		return nil
	}
	if i, ok := n.indexes[name]; ok {
		return &n.members[i]
	}
	return nil
}

// add adds a member that the object does not have yet, and its size.
func (n *node) add(m member) {
	if n.indexes == nil {
		n.indexes = map[string]int{}
	}
	n.indexes[m.name] = len(n.members)
	n.members = append(n.members, m)
	n.contain(m.name, m.value)
}

func (n *node) isNull() bool { return n.kind == scalar && n.value == nil }

// describe returns the kind of a value in words, without the value.
func (n *node) describe() string {
	switch n.value.(type) {
	case string:
		return "text"
	case bool:
		return "true or false"
	case json.Number:
		return "a number"
	}
	return map[kind]string{object: "an object", list: "a list", scalar: "null"}[n.kind]
}

// walk calls do for n, which has a path, and for each value in it. It leaves out what is in a value for which do returns false.
func (n *node) walk(path string, do func(n *node, path string) bool) {
	if !do(n, path) {
		return
	}
	for _, m := range n.members {
		m.value.walk(problem.Join(path, m.name), do)
	}
	for i, item := range n.items {
		item.walk(fmt.Sprintf("%s[%d]", path, i), do)
	}
}

// decoded returns the value of a node as encoding/json decodes it, with numbers as json.Number.
func (n *node) decoded() any {
	switch n.kind {
	case object:
		value := make(map[string]any, len(n.members))
		for _, m := range n.members {
			value[m.name] = m.value.decoded()
		}
		return value
	case list:
		value := make([]any, 0, len(n.items))
		for _, item := range n.items {
			value = append(value, item.decoded())
		}
		return value
	}
	return n.value
}

// jsonNumber matches a number of JSON (RFC 8259 section 6).
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// A grower limits the number, size and depth of the nodes of a file.
type grower struct {
	*problems
	values int
	// repeated counts the bytes that aliases repeat, because a long text costs its length each time.
	repeated int
	// full is true once a limit is exceeded. Nothing more is read then.
	full bool
}

// grow counts a value inside of depth lists and objects, or again for an alias, and reports whether reading may continue.
func (g *grower) grow(where problem.Place, depth int, n *node) bool {
	g.values += n.size
	g.repeated += n.bytes
	switch {
	case g.full:
	case g.values > maxValues:
		g.full = true
		g.report(where, "", "makes the file, with what its aliases repeat, more than %d values: use several gateways", maxValues)
	case g.repeated > maxFile:
		g.full = true
		g.report(where, "", "makes what the aliases of the file repeat more than %d MiB: use several gateways", maxFile>>20)
	case depth+n.depth > maxNesting:
		g.full = true
		g.report(where, "", "is nested deeper than %d", maxNesting)
	}
	return !g.full
}

// contain adds v to the size, bytes and depth of a list, or of an object in which v has a name.
func (n *node) contain(name string, v *node) {
	n.size += v.size
	n.bytes += len(name) + v.bytes
	n.depth = max(n.depth, v.depth+1)
}

// locate returns the node at a path within n, such as auth.config.claims.roles[0], and its place. If there is none, found is
// false, and target and where are those of the innermost member on the path that exists.
func (n *node) locate(path string) (target *node, where problem.Place, found bool) {
	where = n.Place
	for path != "" {
		name, index, rest := step(path)
		next := (*node)(nil)
		if m := n.get(name); index < 0 && m != nil {
			next, where = m.value, m.key
		} else if index >= 0 && index < len(n.items) {
			next = n.items[index]
			where = next.Place
		}
		if next == nil {
			return n, where, false
		}
		n, path = next, rest
	}
	return n, where, true
}

// place returns the place of the text at a path within n, which may stand in place of a list, or of the innermost member that exists.
func (n *node) place(path string) problem.Place {
	target, where, found := n.locate(path)
	if target.kind == scalar && (found || strings.HasSuffix(path, "]")) {
		return target.Place
	}
	return where
}

// step cuts the first step off a path: a member's name, plain or in quotes and brackets, or an index. For a name, index is -1.
func step(path string) (name string, index int, rest string) {
	if !strings.HasPrefix(path, "[") {
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			return path, -1, ""
		}
		return path[:end], -1, strings.TrimPrefix(path[end:], ".")
	}
	if quoted, err := strconv.QuotedPrefix(path[1:]); err == nil {
		name, _ = strconv.Unquote(quoted)
		_, rest, _ = strings.Cut(path[1+len(quoted):], "]")
		return name, -1, strings.TrimPrefix(rest, ".")
	}
	number, rest, _ := strings.Cut(path[1:], "]")
	index, err := strconv.Atoi(number)
	if err != nil || index < 0 {
		return path, -1, "" // an invalid path
	}
	return "", index, strings.TrimPrefix(rest, ".")
}

// A source finds characters in the text of a file. It remembers the last place, because a long line may have many problems.
type source struct {
	text string
	// lines holds the offset of each line. It is filled on first use.
	lines []int
	// last is the place that was found last, and offset its position in text.
	last   problem.Place
	offset int
}

// rest returns the text from a place to the end of its line, or "" if there is no such place.
func (s *source) rest(place problem.Place) string {
	if s.lines == nil {
		offset := 0
		for line := range strings.Lines(s.text) {
			s.lines = append(s.lines, offset)
			offset += len(line)
		}
	}
	if place.Line < 1 || place.Line > len(s.lines) || place.Column < 1 {
		return ""
	}
	if place.Line != s.last.Line || place.Column < s.last.Column {
		s.last, s.offset = problem.Place{Line: place.Line, Column: 1}, s.lines[place.Line-1]
	}
	end := len(s.text)
	if place.Line < len(s.lines) {
		end = s.lines[place.Line]
	}
	line := strings.TrimRight(s.text[s.offset:end], "\r\n")
	i := 0
	for ; s.last.Column < place.Column && i < len(line); s.last.Column++ {
		_, size := utf8.DecodeRuneInString(line[i:])
		i += size
	}
	s.offset += i
	return line[i:]
}

// character returns the place of a character of a scalar's text. Characters are counted from 1. It returns false if the text
// spans several lines of the file, because these are not the lines of the value.
func (s *source) character(n *node, number int) (problem.Place, bool) {
	text, ok := n.value.(string)
	rest, column := s.rest(n.Place), n.Column
	if strings.HasPrefix(rest, "&") { // an anchor before the text
		name := rest[:len(rest)-len(strings.TrimLeft(rest[strings.IndexAny(rest+" ", " \t"):], " \t"))]
		rest, column = rest[len(name):], column+utf8.RuneCountInString(name)
	}
	if !ok || rest == "" {
		return n.Place, false
	}
	quote := rest[0]
	switch {
	case quote == '"' || quote == '\'':
		rest, column = rest[1:], column+1
	case !strings.HasPrefix(rest, text):
		return n.Place, false
	}
	for range number - 1 {
		if rest == "" {
			return n.Place, false
		}
		size := min(width(rest, quote), len(rest))
		column += utf8.RuneCountInString(rest[:size])
		rest = rest[size:]
	}
	return problem.Place{Line: n.Line, Column: column}, true
}

// width returns the size of the next character of a text in the file that begins with quote, if that is one. A surrogate pair is one, too.
func width(rest string, quote byte) int {
	switch _, size := utf8.DecodeRuneInString(rest); {
	case quote == '\'' && strings.HasPrefix(rest, "''"):
		return 2
	case quote != '"' || rest[0] != '\\' || len(rest) < 2:
		return size
	}
	code, err := strconv.ParseUint(rest[2:min(6, len(rest))], 16, 32)
	if rest[1] == 'u' && err == nil && code >= 0xd800 && code < 0xdc00 {
		return 12
	}
	return max(2, map[byte]int{'x': 4, 'u': 6, 'U': 10}[rest[1]])
}
