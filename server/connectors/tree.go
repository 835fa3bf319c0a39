package connectors

import (
	"encoding/json"
	"regexp"

	"github.com/keywright/keywright/internal/problem"
)

const (
	maxNesting = 100    // of lists and objects
	maxValues  = 50_000 // of a file: texts, numbers, lists, objects; what aliases repeat counts as often as it is repeated
)

// node is a value of the file with its place. Nodes are shared where the file has aliases.
type node struct {
	problem.Place
	kind    kind
	value   any // of a scalar: string, json.Number, bool or nil
	members []member
	items   []*node
	named   map[string]int // index of each member, of an object with many

	size  int // values, this one included, what aliases repeat counted again
	bytes int // of texts and names, likewise
	depth int // levels of lists and objects, this one included; 0 of a scalar
}

type kind string

const (
	scalar kind = "scalar"
	object kind = "object"
	list   kind = "list"
)

// member of an object.
type member struct {
	name  string
	key   problem.Place
	value *node
}

// few is how many members of an object are looked through, rather than found in a map.
const few = 16

// get returns the member of a name, or nil.
func (n *node) get(name string) *member {
	if n == nil {
		return nil
	}
	if len(n.members) > few {
		if i, ok := n.named[name]; ok {
			return &n.members[i]
		}
		return nil
	}
	for i := range n.members {
		if n.members[i].name == name {
			return &n.members[i]
		}
	}
	return nil
}

// add adds a member that the object does not have yet.
func (n *node) add(m member) {
	n.members = append(n.members, m)
	switch {
	case len(n.members) == few+1:
		n.named = make(map[string]int, 2*few)
		for i, m := range n.members {
			n.named[m.name] = i
		}
	case len(n.members) > few:
		n.named[m.name] = len(n.members) - 1
	}
}

func (n *node) isNull() bool { return n.kind == scalar && n.value == nil }

// describe says what a value is, without showing it.
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

// decoded returns a node as what decoding JSON returns, with numbers as json.Number.
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

// jsonNumber is RFC 8259 section 6.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// grower makes the nodes of a file, and stops when they are too many or too deep.
type grower struct {
	*problems
	values, repeated int  // bytes are repeated by aliases: a long text costs its length wherever it stands
	full             bool // a limit was exceeded: nothing more is read
}

// grow counts a value that stands inside of depth lists and objects, and reports whether reading goes on.
func (g *grower) grow(where problem.Place, depth int) bool {
	return g.repeat(where, depth, &node{size: 1})
}

// repeat is grow for what an alias repeats.
func (g *grower) repeat(where problem.Place, depth int, n *node) bool {
	g.values += n.size
	g.repeated += n.bytes
	switch {
	case g.full:
	case g.values > maxValues:
		g.full = true
		g.at(where, "", "makes the file, with what its aliases repeat, more than %d values: split it", maxValues)
	case g.repeated > maxFile:
		g.full = true
		g.at(where, "", "makes what the aliases of the file repeat more than %d MiB: split it", maxFile>>20)
	case depth+n.depth > maxNesting:
		g.full = true
		g.at(where, "", "is nested deeper than %d", maxNesting)
	}
	return !g.full
}

// contain adds to what a list, or an object with a name for the value, knows of its contents.
func (n *node) contain(name string, v *node) {
	n.size += v.size
	n.bytes += len(name) + v.bytes
	n.depth = max(n.depth, v.depth+1)
}

// number makes a scalar the number that a text is, and reports whether it is one.
func (n *node) number(text string) bool {
	if !jsonNumber.MatchString(text) {
		return false
	}
	n.value = json.Number(text)
	return true
}
