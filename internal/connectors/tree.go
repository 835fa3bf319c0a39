package connectors

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

const (
	maxNesting = 100     // of lists and objects
	maxValues  = 100_000 // of a file, what aliases repeat counted as often as it is repeated
)

// node is a value of the file with its place. Nodes are shared where the file has aliases.
type node struct {
	place
	kind    kind
	value   any // of a scalar: string, json.Number, bool or nil
	members []member
	items   []*node
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
	key   place
	value *node
}

// get gives the member of a name, or nil.
func (n *node) get(name string) *member {
	if n == nil {
		return nil
	}
	for i := range n.members {
		if n.members[i].name == name {
			return &n.members[i]
		}
	}
	return nil
}

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

// reader turns the parser's tree into nodes, and complains of what YAML has and connectors have no use for.
type reader struct {
	*problems
	anchors map[string]ast.Node
	done    map[ast.Node]*node // what anchors name, once it is read; nil while it is being read
}

// Visit finds the anchors. It implements ast.Visitor.
func (r *reader) Visit(n ast.Node) ast.Visitor {
	anchor, ok := n.(*ast.AnchorNode)
	if !ok {
		return r
	}
	name := anchor.Name.GetToken().Value
	if _, twice := r.anchors[name]; twice {
		r.at(placeOf(n), "", "the anchor &%s is there twice: give one of them another name", name)
	}
	r.anchors[name] = anchor.Value
	return r
}

func placeOf(n ast.Node) place {
	position := n.GetToken().Position
	return place{position.Line, position.Column}
}

// jsonNumber is RFC 8259 section 6.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// read never gives nil: what cannot be read has been complained of, and is null.
func (r *reader) read(n ast.Node, path string) *node {
	if n == nil {
		return &node{kind: scalar}
	}
	result := &node{place: placeOf(n), kind: scalar}
	switch n := n.(type) {
	case *ast.NullNode:
	case *ast.BoolNode:
		result.value = n.Value
	case *ast.StringNode:
		result.value = n.Value
		// The parser takes 1e3, and integers of more than 64 bits, for text.
		if n.Token.Type == token.StringType && jsonNumber.MatchString(n.Value) {
			result.value = json.Number(n.Value)
		}
	case *ast.LiteralNode:
		result.value = n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode:
		text := n.GetToken().Value
		if !jsonNumber.MatchString(text) {
			text = "1"
			r.at(result.place, path, "is a number as JSON has none: write plain decimal digits, or put it in quotes if text is meant")
		}
		result.value = json.Number(text)
	case *ast.InfinityNode, *ast.NanNode:
		r.at(result.place, path, "is not a number that JSON has: put it in quotes if text is meant")
	case *ast.SequenceNode:
		result.kind = list
		for i, item := range n.Values {
			result.items = append(result.items, r.read(item, fmt.Sprintf("%s[%d]", path, i)))
		}
	case *ast.MappingNode:
		result.kind = object
		r.members(result, n.Values, path)
	case *ast.MappingValueNode:
		result.kind = object
		r.members(result, []*ast.MappingValueNode{n}, path)
	case *ast.AnchorNode:
		return r.named(n.Value, path)
	case *ast.AliasNode:
		return r.alias(n, path)
	case *ast.TagNode:
		r.at(result.place, path, "has the tag %s: tags are not used here, remove it; text goes in quotes", n.GetToken().Value)
	default:
		r.at(result.place, path, "is nothing that a connector has a use for: text, numbers, lists and objects are")
	}
	return result
}

// named reads what an anchor names, once.
func (r *reader) named(n ast.Node, path string) *node {
	if known, ok := r.done[n]; ok {
		return known
	}
	r.done[n] = nil
	r.done[n] = r.read(n, path)
	return r.done[n]
}

func (r *reader) alias(n *ast.AliasNode, path string) *node {
	name := n.Value.GetToken().Value
	if target, ok := r.anchors[name]; !ok {
		r.at(placeOf(n), path, "there is no anchor &%s", name)
	} else if named := r.named(target, path); named != nil {
		return named
	} else {
		r.at(placeOf(n), path, "the alias *%s stands inside of what it repeats", name)
	}
	return &node{place: placeOf(n), kind: scalar}
}

func (r *reader) members(to *node, values []*ast.MappingValueNode, path string) {
	var merged []*node
	for _, v := range values {
		if _, ok := v.Key.(*ast.MergeKeyNode); ok {
			merged = append(merged, r.merge(v, path)...)
			continue
		}
		key, ok := v.Key.(*ast.StringNode)
		if !ok {
			r.at(placeOf(v.Key), path, "has a member whose name is not text: put the name in quotes")
			continue
		}
		name, at := key.Value, keyPath(path, key.Value)
		if first := to.get(name); first != nil {
			r.at(placeOf(key), at, "is there twice, first on line %d: remove one", first.key.line)
			continue
		}
		to.members = append(to.members, member{name, placeOf(key), r.read(v.Value, at)})
	}
	if len(to.members) > 0 && to.members[0].key.before(to.place) {
		to.place = to.members[0].key // the parser puts an object without braces at its first colon
	}
	for _, from := range merged { // what an object has itself wins over what it takes from others
		for _, m := range from.members {
			if to.get(m.name) == nil {
				to.members = append(to.members, m)
			}
		}
	}
}

// merge gives the objects that << takes in.
func (r *reader) merge(v *ast.MappingValueNode, path string) []*node {
	n := r.read(v.Value, path)
	sources := n.items
	if n.kind == object {
		sources = []*node{n}
	}
	for _, source := range sources {
		if source.kind != object {
			sources = nil
			break
		}
	}
	if len(sources) == 0 {
		r.at(placeOf(v.Key), path, "<< takes an alias of an object, or a list of them")
	}
	return sources
}

func (p place) before(q place) bool {
	return p.line < q.line || p.line == q.line && p.column < q.column
}

var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// keyPath is the path of a member, as the host writes paths.
func keyPath(path, name string) string {
	switch {
	case !plainName.MatchString(name):
		return fmt.Sprintf("%s[%q]", path, name)
	case path == "":
		return name
	}
	return path + "." + name
}

// plain gives a node as what decoding JSON gives, with numbers as json.Number. The budget bounds what aliases can make
// of a small file.
func (n *node) plain(budget *int) any {
	if *budget--; *budget < 0 {
		return nil
	}
	switch n.kind {
	case object:
		value := make(map[string]any, len(n.members))
		for _, m := range n.members {
			value[m.name] = m.value.plain(budget)
		}
		return value
	case list:
		value := make([]any, 0, len(n.items))
		for _, item := range n.items {
			value = append(value, item.plain(budget))
		}
		return value
	}
	return n.value
}

// nestsDeeply finds the line from which on a file nests deeper than any connector has to, and 0 when there is none. It is
// for the parser, whose time grows with the square of the depth, so it looks at the bare text: at brackets that stay
// open, and at what a line begins with.
func nestsDeeply(text string) int {
	open, line := 0, 0
	for l := range strings.Lines(text) {
		line++
		for _, c := range []byte(l) {
			switch c {
			case '[', '{':
				open++
			case ']', '}':
				open = max(open-1, 0)
			}
			if open > maxNesting {
				return line
			}
		}
		if start := len(l) - len(strings.TrimLeft(l, " -?:\t&*!|>")); start > 4*maxNesting {
			return line
		}
	}
	return 0
}
