package connectors

import (
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/keywright/keywright/internal/problem"
)

const (
	// maxNesting limits the nesting of lists and objects.
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

// A member is a member of an object.
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

// add adds a member that the object does not have yet.
func (n *node) add(m member) {
	if n.indexes == nil {
		n.indexes = map[string]int{}
	}
	n.indexes[m.name] = len(n.members)
	n.members = append(n.members, m)
}

func (n *node) isNull() bool { return n.kind == scalar && n.value == nil }

// describe returns the kind of a value in words, without the value.
func (n *node) describe() string {
	switch {
	case n.kind == object:
		return "an object"
	case n.kind == list:
		return "a list"
	case n.value == nil:
		return "null"
	}
	switch n.value.(type) {
	case string:
		return "text"
	case bool:
		return "true or false"
	}
	return "a number"
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
	// values counts the values so far.
	values int
	// repeated counts the bytes that aliases repeat, because a long text costs its length each time.
	repeated int
	// full is true once a limit is exceeded. Nothing more is read then.
	full bool
}

// grow counts a value inside of depth lists and objects, and reports whether reading may continue.
func (g *grower) grow(where problem.Place, depth int) bool {
	return g.repeat(where, depth, &node{size: 1})
}

// repeat is like grow for a value n that an alias repeats.
func (g *grower) repeat(where problem.Place, depth int, n *node) bool {
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

// number sets the value of a scalar to the number in text. It reports whether text is a number of JSON.
func (n *node) number(text string) bool {
	if !jsonNumber.MatchString(text) {
		return false
	}
	n.value = json.Number(text)
	return true
}
