package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/problem"
)

const maxDepth = 64 // of nested arrays and objects in an Object

// Object is a compiled JSON object whose strings, at any depth, are templates, and whose names are not. It is safe for concurrent use.
type Object struct {
	// members are those of the object. A value is a []strictjson.Member, a []any of values, a *leaf, a string without expressions, a
	// json.Number, a bool or nil.
	members []strictjson.Member
	names   Names
}

// leaf is a string with expressions.
type leaf struct {
	path     *problem.Path
	template *Template
}

// CompileObject compiles a decoded JSON object. v is a map[string]any of string, bool, nil, []any, map[string]any and
// json.Number. The errors have paths in the object. They are in the order of the members' names. Strings are compiled with
// special, see [CompileEscaped].
func CompileObject(v any, special string) (*Object, []*Error) {
	object, ok := v.(map[string]any)
	if !ok {
		return nil, []*Error{{Message: "an object is wanted"}}
	}
	c := &objectCompiler{object: &Object{}, special: special}
	c.object.members = c.members(object, nil, 0)
	if len(c.errs) > 0 {
		return nil, c.errs
	}
	c.object.names = expr.Merged(c.names...)
	return c.object, nil
}

// Names returns the names that the object's expressions use.
func (o *Object) Names() Names { return expr.Merged(o.names) }

// AppendJSON renders every string, and appends the object to dst as JSON, with the members in the order of their names. It
// calls text with the parts of each string that has an expression, and writes the returned text in their place. text must
// not keep the parts. Numbers keep their text. The error is an *Error with a path.
func (o *Object) AppendJSON(dst []byte, v Values, text func([]Part) (string, error)) ([]byte, error) {
	r := &rendering{Run: expr.NewRun(v, limits)}
	return strictjson.AppendTree(dst, o.members, func(dst []byte, value any) ([]byte, error) { return value.(*leaf).append(dst, r, text) })
}

type objectCompiler struct {
	object  *Object
	special string
	names   []Names
	errs    []*Error
}

func (c *objectCompiler) fail(path *problem.Path, message string) any {
	c.errs = append(c.errs, &Error{Path: path.String(), Message: message})
	return nil
}

func (c *objectCompiler) compile(v any, path *problem.Path, depth int) any {
	if depth > maxDepth {
		return c.fail(path, fmt.Sprintf("nested deeper than %d", maxDepth))
	}
	switch v := v.(type) {
	case map[string]any:
		return c.members(v, path, depth)
	case []any:
		compiled := make([]any, len(v))
		for i, element := range v {
			compiled[i] = c.compile(element, path.Item(i), depth+1)
		}
		return compiled
	case string:
		return c.template(v, path)
	case json.Number:
		if jsonNumber.MatchString(string(v)) {
			return v
		}
	case bool, nil:
		return v
	}
	return c.fail(path, fmt.Sprintf("not a JSON value (%T)", v))
}

func (c *objectCompiler) members(object map[string]any, path *problem.Path, depth int) []strictjson.Member {
	compiled := make([]strictjson.Member, 0, len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		compiled = append(compiled, strictjson.Member{Name: name, Value: c.compile(object[name], path.Member(name), depth+1)})
	}
	return compiled
}

func (c *objectCompiler) template(source string, path *problem.Path) any {
	t, errs := CompileEscaped(source, c.special)
	for _, e := range errs {
		e.Path = path.String()
	}
	if c.errs = append(c.errs, errs...); len(errs) > 0 {
		return nil
	}
	if t.Key() != nil {
		return c.fail(path, NoKey)
	}
	c.names = append(c.names, t.names)
	if literal, ok := t.Literal(); ok {
		return literal
	}
	return &leaf{path, t}
}

// jsonNumber matches a number of JSON, RFC 8259 section 6.
var jsonNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

func (l *leaf) append(dst []byte, r *rendering, text func([]Part) (string, error)) ([]byte, error) {
	parts, err := l.template.render(&r.Run, r.first[:0], nil)
	if e := (*Error)(nil); errors.As(err, &e) {
		e.Path = l.path.String()
		return nil, e
	}
	rendered, err := text(parts)
	if err == nil {
		dst, err = strictjson.AppendString(dst, rendered)
	}
	if err != nil {
		return nil, &Error{Path: l.path.String(), Err: err}
	}
	return dst, nil
}
