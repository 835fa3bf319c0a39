package template

import (
	"github.com/expr-lang/expr/ast"
	"github.com/go-json-experiment/json/jsontext"
)

// document is an array or object of an expression, as JSON. It goes nowhere but into json_encode, and so is made as
// text from the start: its members keep their order, and its size is known while it grows.
type document []byte

func (b *builder) jsonEncode(n *ast.CallNode) operand {
	o := b.build(n.Arguments[0])
	column := b.at(n)
	return operand{text, func(r *rendering) (any, *Error) {
		encoded, err := o.appendTo(nil, r, column)
		if err != nil {
			return nil, err
		}
		return string(encoded), nil
	}}
}

func (b *builder) array(n *ast.ArrayNode) operand {
	column := b.at(n)
	elements := make([]operand, len(n.Nodes))
	for i, node := range n.Nodes {
		elements[i] = b.build(node)
	}
	return operand{structure, func(r *rendering) (any, *Error) {
		encoded := document{'['}
		for i, element := range elements {
			if i > 0 {
				encoded = append(encoded, ',')
			}
			var err *Error
			if encoded, err = element.appendTo(encoded, r, column); err != nil {
				return nil, err
			}
		}
		return append(encoded, ']'), nil
	}}
}

func (b *builder) object(n *ast.MapNode) operand {
	type member struct {
		name  string // quoted, with the colon
		value operand
	}
	var members []member
	column, names := b.at(n), map[string]bool{}
	for _, node := range n.Pairs {
		pair, ok := node.(*ast.PairNode)
		if !ok {
			return b.fail(node, "not a member of an object")
		}
		key, ok := pair.Key.(*ast.StringNode)
		if !ok {
			return b.fail(pair.Key, "the names in an object must be literal texts")
		}
		if names[key.Value] {
			return b.fail(key, "the object has this name twice")
		}
		names[key.Value] = true
		quoted, err := jsontext.AppendQuote(nil, key.Value)
		if err != nil {
			return b.fail(key, notUTF8)
		}
		members = append(members, member{string(quoted) + ":", b.build(pair.Value)})
	}
	return operand{structure, func(r *rendering) (any, *Error) {
		encoded := document{'{'}
		for i, m := range members {
			if i > 0 {
				encoded = append(encoded, ',')
			}
			encoded = append(encoded, m.name...)
			var err *Error
			if encoded, err = m.value.appendTo(encoded, r, column); err != nil {
				return nil, err
			}
		}
		return append(encoded, '}'), nil
	}}
}

const notUTF8 = "JSON cannot hold text that is not UTF-8"

// appendTo evaluates the operand and appends it as JSON. Errors of the encoding are reported at the column.
func (o operand) appendTo(encoded document, r *rendering, column int) (document, *Error) {
	value, err := o.run(r)
	if err != nil {
		return nil, err
	}
	switch value := value.(type) {
	case nil:
		encoded = append(encoded, "null"...)
	case document:
		if err := r.pass(column, len(value)); err != nil {
			return nil, err
		}
		encoded = append(encoded, value...)
	case string:
		if err := r.pass(column, len(value)); err != nil {
			return nil, err
		}
		var invalid error
		if encoded, invalid = jsontext.AppendQuote(encoded, value); invalid != nil {
			return nil, &Error{Column: column, Message: notUTF8}
		}
	default:
		encoded = append(encoded, format(value)...)
	}
	if len(encoded) > MaxText {
		return nil, &Error{Column: column, Message: tooLong}
	}
	return encoded, nil
}
