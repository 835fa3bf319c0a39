package transform

import (
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/keywright/keywright/internal/exprscan"
)

// value compiles a name with whatever is behind it. optional tells that default replaces it when it is missing.
func (b *builder) value(n ast.Node, output, optional bool) ast.Node {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		if slices.Contains(b.locals, n.Value) {
			return n
		}
		return b.input(n, n.Value, optional)
	case *ast.MemberNode:
		if path, ok := b.path(n.Node); ok {
			return b.field(n, path, optional)
		}
		return call(n.Property, "$member", b.build(n.Node, false), b.build(n.Property, false),
			&ast.BoolNode{Value: n.Optional}, &ast.BoolNode{Value: output})
	}
	return b.problem(n, "this is not available here")
}

// path returns the name of a group (request) or family (request.query).
func (b *builder) path(n ast.Node) (path string, ok bool) {
	switch n := n.(type) {
	case *ast.IdentifierNode:
		return n.Value, isGroup(n.Value) && !slices.Contains(b.locals, n.Value)
	case *ast.MemberNode:
		group, inGroup := b.path(n.Node)
		field, literal := n.Property.(*ast.StringNode)
		if inGroup && literal {
			_, ok = allFamilies[group+"."+field.Value]
			return group + "." + field.Value, ok
		}
	}
	return "", false
}

// field compiles a value below a group or family.
func (b *builder) field(n *ast.MemberNode, above string, optional bool) ast.Node {
	name, literal := n.Property.(*ast.StringNode)
	if !literal {
		return b.problem(n, "%s takes a literal name", above)
	}
	f, isFamily := allFamilies[above]
	if !isFamily {
		return b.input(n, above+"."+name.Value, optional)
	}
	if f.where&b.where == 0 {
		return b.problem(n, "%s is not available here", above)
	}
	key := &ast.StringNode{Value: f.canonical(name.Value)}
	return call(n, "$"+above, key)
}

// input compiles a name that stands for a value of the run.
func (b *builder) input(n ast.Node, name string, optional bool) ast.Node {
	in, known := allInputs[name]
	group, field, dotted := strings.Cut(name, ".")
	_, isFunction := functions[name]
	_, isFamily := allFamilies[name]
	switch {
	case known && in.where&b.where == 0:
		return b.problem(n, "%s is not available here", name)
	case known:
		return call(n, "$"+name, &ast.BoolNode{Value: optional})
	case isFamily:
		return b.problem(n, "%s is no value: name one of them, as in %s['name']", name, name)
	case dotted && len(available(b.where, group)) == 0:
		return b.problem(n, "%s is not available here", group)
	case dotted:
		return b.problem(n, "unknown field %s of %s: %s", exprscan.Quote(field), group, suggest(field, available(b.where, group)))
	case isGroup(name):
		return b.problem(n, "%s is no value: name a field of it", name)
	case isFunction:
		return b.problem(n, "%s is a function: write %s(…)", name, name)
	}
	return b.problem(n, "unknown name %s: %s", exprscan.Quote(name), suggest(name, available(b.where, "")))
}
