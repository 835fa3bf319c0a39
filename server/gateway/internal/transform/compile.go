package transform

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/compiler"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/vm"

	"github.com/keywright/keywright/internal/exprscan"
)

// expression is a program of the virtual machine. It is safe for concurrent use.
type expression struct {
	program *vm.Program
	kind    reflect.Kind // of the value, Interface when it depends
	column  int          // of the first rune
	start   int          // column of the first token
	encodes bool         // it may make JSON of what it was given
}

// builder turns what the parser gives into what the virtual machine runs, and collects what is wrong with it.
type builder struct {
	where    place
	column   int // of the first rune
	encodes  bool
	seen     map[ast.Node]bool
	locals   []string // names that let gave
	made     int      // names that the builder itself gave
	patterns *patterns
	problems []Problem
}

// compile compiles an expression. The value goes to JSON or text when output is set. patterns are those of the source
// so far.
func compile(p exprscan.Piece, where place, output bool, patterns *patterns) (*expression, []Problem) {
	config := conf.CreateNew()
	config.WithEnv(struct{}{})
	config.Functions = engine
	config.Optimize = false // it is not needed, and makes 1 in ['a'] an error
	tree, problem := p.Parse(config)
	if problem != nil {
		switch problem.Near {
		case "=":
			problem.Message += ": == is for comparing"
		case ":":
			problem.Message += ": an object that map makes stands in parentheses, as in map(list, ({name: .name}))"
		}
		return nil, []Problem{{problem.Column, problem.Message}}
	}
	b := &builder{where: where, column: p.Column, seen: map[ast.Node]bool{}, patterns: patterns}
	if tree.Node = b.build(tree.Node, output); len(b.problems) > 0 {
		return nil, b.problems
	}
	kind, err := checker.Check(tree, config)
	if err != nil {
		problem := Problem{p.Column, "the kinds of the values do not fit"}
		if e := (*file.Error)(nil); errors.As(err, &e) {
			problem = Problem{p.Column + e.From, plain(e.Message)}
		}
		return nil, []Problem{problem}
	}
	program, err := compiler.Compile(tree, config)
	if err != nil {
		return nil, []Problem{{p.Column, "this cannot be compiled"}} // the error has a stack trace
	}
	return &expression{program, kind.Kind(), p.Column, p.FirstToken(), b.encodes}, nil
}

// from returns the place of a node in the expression. The parser puts a.b at its b.
func from(n ast.Node) int {
	switch n := n.(type) {
	case *ast.MemberNode:
		return from(n.Node)
	case *ast.ChainNode:
		return from(n.Node)
	case *ast.ConditionalNode: // has no place of its own when it is an if
		return from(n.Cond)
	}
	return n.Location().From
}

func (b *builder) problem(n ast.Node, format string, arguments ...any) ast.Node {
	b.problems = append(b.problems, Problem{b.column + from(n), fmt.Sprintf(format, arguments...)})
	return n
}

// call makes the call of one of this package's functions, which gets the run as its first argument.
func call(n ast.Node, name string, arguments ...ast.Node) ast.Node {
	location := file.Location{From: from(n)}
	identifier := func(name string) ast.Node {
		i := &ast.IdentifierNode{Value: name}
		i.SetLocation(location)
		return i
	}
	c := &ast.CallNode{Callee: identifier(name), Arguments: append([]ast.Node{identifier("$env")}, arguments...)}
	c.SetLocation(location)
	return c
}

// build is the allow-list of the language: what has no case here is refused. output tells that the value goes straight
// to JSON or text, so that numbers are to keep their text.
func (b *builder) build(n ast.Node, output bool) ast.Node {
	// The parser turns a < b < c and a ?: b into trees in which a node stands twice. Nested, they grow exponentially
	// for whoever walks them.
	if b.seen[n] {
		return b.problem(n, "comparisons in a chain and ?: are not available")
	}
	b.seen[n] = true

	switch n := n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.NilNode, *ast.PointerNode:
		return n
	case *ast.IdentifierNode, *ast.MemberNode:
		return b.value(n, output, false)
	case *ast.ChainNode: // a?.b
		return call(n, "$chain", b.build(n.Node, output))
	case *ast.SliceNode:
		return b.slice(n)
	case *ast.CallNode:
		return b.call(n, output)
	case *ast.BuiltinNode:
		return b.builtin(n, output)
	case *ast.PredicateNode:
		before := len(b.seen)
		value := b.build(n.Node, output)
		n.Node = call(n, "$step", value, &ast.IntegerNode{Value: (len(b.seen) - before) / stepNodes})
		return n
	case *ast.UnaryNode:
		n.Node = b.build(n.Node, false)
		return n
	case *ast.BinaryNode:
		return b.binary(n, output)
	case *ast.ConditionalNode:
		if !n.Ternary {
			return b.problem(n, "if is not available: write condition ? one : other")
		}
		n.SetLocation(file.Location{From: from(n)}) // the parser's is the end
		n.Cond, n.Exp1, n.Exp2 = b.build(n.Cond, false), b.build(n.Exp1, output), b.build(n.Exp2, output)
		return n
	case *ast.VariableDeclaratorNode:
		return b.let(n, output)
	case *ast.ArrayNode:
		for i := range n.Nodes {
			n.Nodes[i] = b.build(n.Nodes[i], output)
		}
		return call(n, "$made", n)
	case *ast.MapNode:
		return b.object(n, output)
	}
	return b.problem(n, "this is not available here")
}

func (b *builder) let(n *ast.VariableDeclaratorNode, output bool) ast.Node {
	_, isFunction := functions[n.Name]
	if isFunction || slices.Contains(b.locals, n.Name) || slices.Contains(available(everywhere, ""), n.Name) || n.Name[0] == '$' {
		return b.problem(n, "%s has a meaning already: give the value another name", exprscan.Quote(n.Name))
	}
	n.Value = b.build(n.Value, false)
	b.locals = append(b.locals, n.Name)
	n.Expr = b.build(n.Expr, output)
	b.locals = b.locals[:len(b.locals)-1]
	return n
}

// slice compiles a[from:to], either of which may be left out.
func (b *builder) slice(n *ast.SliceNode) ast.Node {
	bounds := []ast.Node{n.From, n.To}
	for i, bound := range bounds {
		if bounds[i] = ast.Node(&ast.NilNode{}); bound != nil {
			bounds[i] = b.build(bound, false)
		}
	}
	return call(n, "$slice", b.build(n.Node, false), bounds[0], bounds[1])
}

func (b *builder) binary(n *ast.BinaryNode, output bool) ast.Node {
	switch n.Operator {
	case "??":
		n.Left, n.Right = b.build(n.Left, output), b.build(n.Right, output)
		return n
	case "..":
		return b.problem(n, "ranges are not available")
	case "matches":
		pattern, ok := n.Right.(*ast.StringNode)
		if !ok {
			return b.problem(n.Right, "the pattern of matches must be a literal text, in quotes")
		}
		compiled, problem := b.patterns.compile(pattern.Value)
		if problem != "" {
			return b.problem(pattern, "%s", problem)
		}
		return call(n, "$matches", b.build(n.Left, false), &ast.ConstantNode{Value: compiled})
	}
	n.Left, n.Right = b.build(n.Left, false), b.build(n.Right, false)
	if _, ours := engine["$"+n.Operator]; ours {
		return call(n, "$"+n.Operator, n.Left, n.Right)
	}
	return n
}

func (b *builder) object(n *ast.MapNode, output bool) ast.Node {
	names := make([]string, 0, len(n.Pairs))
	values := make([]ast.Node, 0, len(n.Pairs)+1)
	values = append(values, nil)
	for _, node := range n.Pairs {
		pair, ok := node.(*ast.PairNode)
		if !ok {
			return b.problem(node, "not a member of an object")
		}
		key, ok := pair.Key.(*ast.StringNode)
		switch {
		case !ok:
			return b.problem(pair.Key, "the names in an object must be literal texts")
		case slices.Contains(names, key.Value):
			return b.problem(key, "the object has this name twice")
		}
		names = append(names, key.Value)
		values = append(values, b.build(pair.Value, output))
	}
	values[0] = &ast.ConstantNode{Value: names}
	return call(n, "$object", values...)
}

// builtin allows what the virtual machine goes through lists with, and a few functions on numbers.
func (b *builder) builtin(n *ast.BuiltinNode, output bool) ast.Node {
	overLists, known := builtins[n.Name]
	if !known {
		return b.unknownFunction(n, n.Name)
	}
	for i, argument := range n.Arguments {
		n.Arguments[i] = b.build(argument, output && n.Name == "map" && i == 1)
	}
	if overLists {
		list := "$list"
		if makes := []string{"map", "filter", "sortBy"}; slices.Contains(makes, n.Name) {
			list = "$made"
		}
		n.Arguments[0] = call(n.Arguments[0], list, n.Arguments[0])
	}
	switch {
	case n.Name == "sortBy":
		return b.sortBy(n)
	case overLists && len(n.Arguments) == 1: // sum(list) is sum(list, #), whose rounds are counted
		n.Arguments = append(n.Arguments, b.build(&ast.PredicateNode{Node: &ast.PointerNode{}}, false))
	}
	return n
}

// sortBy compiles sortBy(list, key) as let name = list; $sort(name, map(name, key), false).
func (b *builder) sortBy(n *ast.BuiltinNode) ast.Node {
	descending := false
	if len(n.Arguments) == 3 {
		order, ok := n.Arguments[2].(*ast.StringNode)
		if !ok || order.Value != "asc" && order.Value != "desc" {
			return b.problem(n.Arguments[2], "the order must be 'asc' or 'desc'")
		}
		descending = order.Value == "desc"
	}
	return b.bind(n.Arguments[0], func(list func() ast.Node) ast.Node {
		keys := &ast.BuiltinNode{Name: "map", Arguments: []ast.Node{list(), n.Arguments[1]}}
		keys.SetLocation(n.Location())
		return call(n, "$sort", list(), keys, &ast.BoolNode{Value: descending})
	})
}

// bind evaluates a value once for an expression that needs it more than once.
func (b *builder) bind(value ast.Node, in func(found func() ast.Node) ast.Node) ast.Node {
	b.made++
	name := "$" + strconv.Itoa(b.made)
	return &ast.VariableDeclaratorNode{Name: name, Value: value, Expr: in(func() ast.Node { return &ast.IdentifierNode{Value: name} })}
}

func (b *builder) unknownFunction(n ast.Node, name string) ast.Node {
	return b.problem(n, "unknown function %s: %s", exprscan.Quote(name), suggest(name, functionNames()))
}

func (b *builder) call(n *ast.CallNode, output bool) ast.Node {
	callee, ok := n.Callee.(*ast.IdentifierNode)
	if !ok {
		return b.problem(n, "values have no methods")
	}
	switch callee.Value {
	case "get_secret":
		return b.problem(n, "get_secret is not available here: a secret in request or response would reach the caller; put it into auth, headers or query")
	case "get_variable":
		return b.variable(n, false)
	case "default":
		return b.defaultValue(n, output)
	}
	f, known := functions[callee.Value]
	switch {
	case !known:
		return b.unknownFunction(n, callee.Value)
	case len(n.Arguments) < f.least || len(n.Arguments) > f.most:
		return b.problem(n, "%s takes %s", callee.Value, f.takes)
	}
	b.encodes = b.encodes || f.encodes
	for i := range n.Arguments {
		n.Arguments[i] = b.build(n.Arguments[i], f.encodes)
	}
	return call(n, callee.Value, n.Arguments...)
}

// variable compiles get_variable. A wrong name is not quoted.
func (b *builder) variable(n *ast.CallNode, optional bool) ast.Node {
	if len(n.Arguments) != 1 {
		return b.problem(n, "get_variable takes one name")
	}
	name, ok := n.Arguments[0].(*ast.StringNode)
	switch {
	case !ok:
		return b.problem(n.Arguments[0], "the name must be a literal text, in quotes")
	case !validName.MatchString(name.Value):
		return b.problem(name, "the name must be 1 to 128 letters, digits, '.', '_' or '-', and begin with a letter or digit")
	}
	return call(n, "$variable", name, &ast.BoolNode{Value: optional})
}

// defaultValue compiles default(value, other) so that other is evaluated only when it is needed.
func (b *builder) defaultValue(n *ast.CallNode, output bool) ast.Node {
	if len(n.Arguments) != 2 {
		return b.problem(n, "default takes a value and what replaces it")
	}
	var value ast.Node
	switch first := n.Arguments[0].(type) {
	case *ast.IdentifierNode, *ast.MemberNode:
		value = b.value(first, output, true)
	case *ast.CallNode:
		if callee, ok := first.Callee.(*ast.IdentifierNode); ok && callee.Value == "get_variable" {
			value = b.variable(first, true)
		} else {
			value = b.build(first, output)
		}
	default:
		value = b.build(first, output)
	}
	return b.bind(value, func(found func() ast.Node) ast.Node {
		return &ast.ConditionalNode{Ternary: true, Cond: call(n, "$empty", found()), Exp1: b.build(n.Arguments[1], output), Exp2: found()}
	})
}
