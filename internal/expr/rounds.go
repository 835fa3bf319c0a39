package expr

import (
	"sort"

	"github.com/expr-lang/expr/ast"
)

// rounds are the functions that evaluate an expression for each element of a list.
var rounds = map[string]struct {
	result Kind
	// decides reports whether the expression must be a boolean.
	decides bool
	// empty is the value for an empty list, if result is not ListKind.
	empty any
}{
	"all": {Boolean, true, true}, "any": {Boolean, true, false}, "none": {Boolean, true, true}, "one": {Boolean, true, false},
	"filter": {ListKind, true, nil}, "find": {Any, true, nil}, "count": {Integer, true, int64(0)},
	"map": {ListKind, false, nil}, "sortBy": {ListKind, false, nil}, "sum": {Any, false, int64(0)},
}

// round is the expression that a function evaluates for each element of a list. In the expression, # is the element, .name one
// of its members, and #index its index.
type round struct {
	body operand
	// slot is the slot of the element. The next slot is that of its index.
	slot int
	// indexed reports whether the expression uses #index.
	indexed bool
	// hasName reports whether the function has an #index.
	hasName bool
	// nodes is the number of steps for the nodes of the expression.
	nodes  int
	column int
}

func (b *builder) builtin(n *ast.BuiltinNode, output bool) operand {
	f, ok := rounds[n.Name]
	if !ok || !b.Bodies {
		return b.unknownFunction(n, n.Name)
	}
	from := b.build(n.Arguments[0], false)
	body := &ast.PredicateNode{Node: &ast.PointerNode{}} // sum(list) is sum(list, #)
	if len(n.Arguments) > 1 {
		body = n.Arguments[1].(*ast.PredicateNode)
	}
	each := b.round(body, n.Name == "map" || n.Name == "sortBy", output && n.Name == "map")
	if f.decides {
		b.demand(body, each.body, Boolean|Null, "%s takes a list, and what is true or false of an element", n.Name)
	}
	descending := false
	if len(n.Arguments) == 3 {
		order, ok := n.Arguments[2].(*ast.StringNode)
		if !ok || order.Value != "asc" && order.Value != "desc" {
			return b.fail(n.Arguments[2], "the order must be 'asc' or 'desc'")
		}
		descending = order.Value == "desc"
	}
	column, listColumn := b.columnOf(n), b.columnOf(n.Arguments[0])
	return operand{f.result, func(r *Run) any {
		value := from.run(r)
		r.enter(listColumn)
		l := r.list(value)
		if f.result == ListKind { // count the memory before it is used
			r.makeList(len(l.elements))
		}
		results, result := r.through(l, each, n.Name, column)
		switch {
		case n.Name == "sortBy":
			r.enter(column)
			return r.sort(l.elements, results, descending)
		case f.result == ListKind:
			return &List{elements: results}
		}
		return result
	}}
}

func (b *builder) round(n *ast.PredicateNode, hasName, output bool) *round {
	b.visited[n] = true
	each := &round{slot: b.slots, hasName: hasName, column: b.columnOf(n)}
	b.slots += 2
	start := len(b.visited)
	b.rounds = append(b.rounds, each)
	each.body = b.build(n.Node, output)
	b.rounds = b.rounds[:len(b.rounds)-1]
	each.nodes = (len(b.visited) - start) / stepNodes
	return each
}

func (b *builder) pointer(n *ast.PointerNode) operand {
	each := b.rounds[len(b.rounds)-1]
	slot, kind := each.slot, Any
	switch {
	case n.Name == "index" && each.hasName:
		each.indexed = true
		slot, kind = slot+1, Integer
	case n.Name != "":
		return b.fail(n, "unknown pointer #%s", n.Name)
	}
	return operand{kind, func(r *Run) any { return r.slots[slot] }}
}

func (each *round) evaluate(r *Run, i int, element any) any {
	r.slots[each.slot] = element
	if each.indexed {
		r.slots[each.slot+1] = int64(i)
	}
	value := each.body.run(r)
	r.column = each.column
	r.take(1 + each.nodes)
	return value
}

// through evaluates the named function of rounds for a list. It returns the elements of the resulting list, or another
// result. For sortBy the elements are the keys.
func (r *Run) through(l *List, each *round, name string, column int) (results []any, result any) {
	result = rounds[name].empty
	if name == "map" || name == "sortBy" {
		results = make([]any, 0, len(l.elements))
	}
	count := int64(0)
	for i, element := range l.elements {
		value := each.evaluate(r, i, element)
		r.column = column
		yes, isBoolean := value.(bool)
		switch {
		case name == "sum":
			result = add(r, value, result)
		case name == "map", name == "sortBy":
			results = append(results, value)
		case !isBoolean:
			panic(r.misfit())
		case name == "all" && !yes, name == "none" && yes:
			return nil, false
		case name == "any" && yes:
			return nil, true
		case name == "find" && yes:
			return nil, element
		case name == "filter" && yes:
			results = append(results, element)
		case yes:
			count++
		}
	}
	switch name {
	case "one":
		result = count == 1
	case "count":
		result = count
	}
	return results, result
}

var lessThan = operators["<"].apply

// sort returns a list of the elements, sorted by keys. There is one key for each element.
func (r *Run) sort(elements, keys []any, descending bool) any {
	const element = 16
	r.make(len(elements) * element)
	order := make([]int, len(elements))
	for i := range order {
		order[i] = i
	}
	sort.Slice(order, func(i, j int) bool {
		if descending {
			i, j = j, i
		}
		r.call()
		return lessThan(r, keys[order[i]], keys[order[j]]).(bool)
	})
	list := make([]any, len(elements))
	for i, n := range order {
		list[i] = elements[n]
	}
	return &List{elements: list}
}
