package imports

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v4"
)

// MaxBytes limits a document in JSON. One in YAML is limited to maxYAML.
const MaxBytes = 64 << 20

const (
	// maxYAML and maxMarks limit a document in YAML, because its parser makes a tree of all of it.
	maxYAML  = 8 << 20
	maxMarks = 600_000
	// maxNodes limits the values that are kept of a document. A value counts again each time an alias repeats it.
	maxNodes = 200_000
	// maxDepth limits the nesting of what is kept.
	maxDepth = 32
)

// A node is a value of a document: an object, a list, or a text, as which all other values count.
type node struct {
	kind nodeKind
	text string
	// names has the names of the members of an object, and values their values, or the items of a list.
	names  []string
	values []*node
}

type nodeKind int

const (
	isText nodeKind = iota
	isObject
	isList
	isNull
)

func (n *node) get(names ...string) *node {
	for _, name := range names {
		i := slices.Index(n.members(), name)
		if i < 0 {
			return nil
		}
		n = n.values[i]
	}
	return n
}

func (n *node) string(names ...string) string {
	if m := n.get(names...); m != nil && m.kind == isText {
		return strings.TrimSpace(m.text)
	}
	return ""
}

// items returns the items of a list, or the values of an object.
func (n *node) items() []*node {
	if n == nil {
		return nil
	}
	return n.values
}

// keep reports whether a member of a document is read. Most of a document describes operations and their data.
func keep(path []string, name string) bool {
	if isParameter(path) {
		return name == "in" || name == "name" || name == "$ref"
	}
	switch len(path) {
	case 0:
		return slices.Contains([]string{"openapi", "swagger", "info", "servers", "host", "basePath", "schemes", "security", "securityDefinitions", "components", "paths", "parameters"}, name)
	case 1:
		return path[0] != "components" && (path[0] != "info" || name == "title") || name == "securitySchemes" || name == "parameters"
	case 2:
		return path[0] != "paths" || name == "parameters" || slices.Contains(verbs, name)
	case 3:
		return path[0] != "paths" && name != "description" || name == "security" || name == "parameters"
	}
	return name != "description"
}

var verbs = []string{"get", "put", "post", "delete", "options", "head", "patch", "trace"}

// isParameter reports whether a path is that of a parameter of an operation, or of one that operations refer to.
func isParameter(path []string) bool {
	n := len(path)
	return n > 1 && path[n-2] == "parameters" && (path[0] == "paths" && path[n-1] == "[]" || n == 3 && path[0] == "components" || n == 2)
}

var (
	errDeep = errors.New("the document is nested too deeply where it says how to authenticate")
	errMany = fmt.Errorf("the document has more than %d values where it says how to authenticate", maxNodes)
)

// A reader reads the parts of a document that keep names.
type reader struct {
	// remaining counts the values that may still be kept, and work those that may be read.
	remaining, work int
	path            []string
	decoder         *jsontext.Decoder
	// err is the first error. Nothing more is read then.
	err error
}

// count counts a value, and reports whether it may be read: there may be too many, or it may be too deep.
func (r *reader) count() bool {
	r.remaining--
	r.work--
	switch {
	case r.err != nil:
	case r.remaining < 0 || r.work < 0:
		r.err = errMany
	case len(r.path) > maxDepth:
		r.err = errDeep
	}
	return r.err == nil
}

func parse(text []byte) (*node, error) {
	text = bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
	switch r := (&reader{remaining: maxNodes, work: 50 * maxNodes}); {
	case len(text) > MaxBytes:
		return nil, fmt.Errorf("the document is larger than %d MiB", MaxBytes>>20)
	case len(bytes.TrimSpace(text)) == 0:
		return nil, errors.New("the document is empty")
	case bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")):
		return r.json(text)
	default:
		return r.yaml(text)
	}
}

func (r *reader) json(text []byte) (*node, error) {
	r.decoder = jsontext.NewDecoder(bytes.NewReader(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	root := r.jsonValue()
	if r.err == nil {
		if r.token(); errors.Is(r.err, io.EOF) {
			return root, nil
		}
	}
	if errors.Is(r.err, errDeep) || errors.Is(r.err, errMany) {
		return nil, r.err
	}
	return nil, fmt.Errorf("the document is not well-formed JSON, at byte %d", r.decoder.InputOffset())
}

func (r *reader) token() jsontext.Token {
	token, err := r.decoder.ReadToken()
	r.err = cmp.Or(r.err, err)
	return token
}

func (r *reader) jsonValue() *node {
	if !r.count() {
		return nil
	}
	switch token := r.token(); token.Kind() {
	case '{':
		n := &node{kind: isObject}
		for r.err == nil && r.decoder.PeekKind() != '}' {
			if name := r.token().String(); keep(r.path, name) {
				r.add(n, name, r.jsonValue)
			} else {
				r.err = cmp.Or(r.err, r.decoder.SkipValue())
			}
		}
		r.token()
		return n
	case '[':
		n := &node{kind: isList}
		for r.err == nil && r.decoder.PeekKind() != ']' {
			r.add(n, "[]", r.jsonValue)
		}
		r.token()
		return n
	case 'n':
		return &node{kind: isNull}
	default:
		return &node{text: token.String()}
	}
}

// add reads a member of an object, or an item of a list as []. A parameter that is no credential is not kept, and does not count.
func (r *reader) add(n *node, name string, read func() *node) {
	r.path = append(r.path, name)
	remaining := r.remaining
	value := read()
	const few = 4
	switch {
	case r.err != nil:
	case name == "[]" && isParameter(r.path) && remaining-r.remaining <= few && value.get("$ref") == nil && placeOf(value) == "":
		r.remaining = remaining
	default:
		if n.kind == isObject {
			n.names = append(n.names, name)
		}
		n.values = append(n.values, value)
	}
	r.path = r.path[:len(r.path)-1]
}

func (r *reader) yaml(text []byte) (root *node, err error) {
	defer func() {
		if recover() != nil {
			root, err = nil, errors.New("the document is not well-formed YAML: the parser gives up on it")
		}
	}()
	marks := bytes.Count(text, []byte("\n")) + bytes.Count(text, []byte(",")) + bytes.Count(text, []byte("[")) + bytes.Count(text, []byte("{")) + bytes.Count(text, []byte("- "))
	if len(text) > maxYAML || marks > maxMarks {
		return nil, fmt.Errorf("the document is too large for YAML (%d MiB, %d lines, commas and the like): convert it to JSON, which may have %d MiB", maxYAML>>20, maxMarks, MaxBytes>>20)
	}
	var document yaml.Node
	loader, err := yaml.NewLoader(bytes.NewReader(text), yaml.WithUniqueKeys(false))
	if err == nil {
		err = loader.Load(&document)
	}
	if err != nil {
		where := ""
		if located, ok := errors.AsType[*yaml.LoadError](err); ok && located.Mark.Line > 0 {
			where = fmt.Sprintf(", at line %d", located.Mark.Line)
		}
		return nil, errors.New("the document is neither JSON nor well-formed YAML" + where)
	}
	from := &document
	if document.Kind == yaml.DocumentNode && len(document.Content) > 0 {
		from = document.Content[0]
	}
	return r.yamlValue(from), r.err
}

func (r *reader) yamlValue(y *yaml.Node) *node {
	if !r.count() {
		return nil
	}
	switch y.Kind {
	case yaml.AliasNode:
		return r.yamlValue(y.Alias)
	case yaml.SequenceNode:
		n := &node{kind: isList}
		for _, item := range y.Content {
			r.add(n, "[]", func() *node { return r.yamlValue(item) })
		}
		return n
	case yaml.MappingNode:
		return r.yamlObject(y)
	}
	if y.ShortTag() == "!!null" {
		return &node{kind: isNull}
	}
	return &node{text: y.Value}
}

// yamlObject reads an object, with the members of those that << merges, which count less than its own.
func (r *reader) yamlObject(y *yaml.Node) *node {
	n := &node{kind: isObject}
	var merged []*node
	for i := 0; i+1 < len(y.Content) && r.err == nil; i += 2 {
		switch key, from := y.Content[i], y.Content[i+1]; {
		case key.ShortTag() == "!!merge":
			all := []*yaml.Node{from}
			if from.Kind == yaml.SequenceNode {
				all = from.Content
			}
			for _, item := range all {
				merged = append(merged, r.yamlValue(item))
			}
		case keep(r.path, key.Value):
			r.add(n, key.Value, func() *node { return r.yamlValue(from) })
		}
	}
	for _, from := range merged {
		for i, name := range from.members() {
			if n.get(name) == nil {
				n.names, n.values = append(n.names, name), append(n.values, from.values[i])
			}
		}
	}
	return n
}
