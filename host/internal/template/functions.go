package template

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/internal/exprscan"
)

// function is one that expressions may call.
type function struct {
	least, most int // arguments
	takes       string
	build       func(*builder, *ast.CallNode) operand
}

// functionNamed has every function there is.
func functionNamed(name string) (f function, known bool) {
	switch name {
	case "get_secret":
		return function{1, 1, "one name", (*builder).secretValue}, true
	case "get_variable":
		return function{1, 1, "one name", func(b *builder, n *ast.CallNode) operand { return b.required(n) }}, true
	case "now":
		return function{0, 1, "nothing, or seconds", (*builder).now}, true
	case "uuid":
		return function{0, 0, "nothing", (*builder).uuid}, true
	case "default":
		return function{2, 2, "a value and what replaces it", (*builder).defaultValue}, true
	case "base64_encode":
		return function{1, 1, "one text", (*builder).base64Encode}, true
	case "base64_decode":
		return function{1, 1, "one text", (*builder).base64Decode}, true
	case "json_encode":
		return function{1, 1, "one value", (*builder).jsonEncode}, true
	}
	return function{}, false
}

// What a name that is not known might have been. A test holds them against what there is.
const (
	knownFunctions = "there are get_secret, get_variable, now, uuid, default, base64_encode, base64_decode, json_encode"
	knownVariables = "there are tenant_id and user.email, user.id, user.username, user.first_name, user.last_name"
)

// name returns the name of the function that is called, or "" when a member of a value is.
func name(n *ast.CallNode) string {
	if callee, ok := n.Callee.(*ast.IdentifierNode); ok {
		return callee.Value
	}
	return ""
}

func (b *builder) call(n *ast.CallNode) operand {
	called := name(n)
	if called == "" {
		return b.fail(n, "values have no methods")
	}
	f, known := functionNamed(called)
	switch {
	case !known:
		return b.fail(n, "unknown function %s: %s", exprscan.Quote(called), knownFunctions)
	case len(n.Arguments) < f.least || len(n.Arguments) > f.most:
		return b.fail(n, "%s takes %s", called, f.takes)
	}
	return f.build(b, n)
}

// literalName returns the argument of get_secret and get_variable. A wrong one is not quoted: it may be the secret.
func (b *builder) literalName(n *ast.CallNode) (name string, ok bool) {
	literal, ok := n.Arguments[0].(*ast.StringNode)
	switch {
	case !ok:
		b.fail(n.Arguments[0], "the name must be a literal text, in quotes")
	case !validName.MatchString(literal.Value):
		b.fail(literal, "the name must be 1 to 128 letters, digits, '.', '_' or '-', and begin with a letter or digit")
	default:
		return literal.Value, true
	}
	return "", false
}

func (b *builder) secretValue(n *ast.CallNode) operand {
	name, ok := b.literalName(n)
	if !ok {
		return operand{}
	}
	b.secret = true
	b.names.Secrets = append(b.names.Secrets, name)
	column, called := b.at(n), "get_secret('"+name+"')"
	return operand{text, func(r *rendering) (any, *Error) {
		value, err := r.Secret(name)
		if err != nil {
			return nil, &Error{Column: column, Message: called, Err: err}
		}
		if strings.TrimSpace(value) == "" {
			return nil, &Error{Column: column, Message: called + ": the secret is empty or blank"}
		}
		return limited(column, value)
	}}
}

// variable compiles get_variable for lookup.
func (b *builder) variable(n *ast.CallNode) (l lookup, ok bool) {
	name, ok := b.literalName(n)
	if !ok {
		return lookup{}, false
	}
	b.names.Variables = append(b.names.Variables, name)
	return lookup{
		find:    func(v Values) (string, bool) { return v.Variable(name) },
		missing: "get_variable('" + name + "'): there is no such variable",
	}, true
}

func (b *builder) now(n *ast.CallNode) operand {
	time := operand{integer, func(r *rendering) (any, *Error) { return r.Now(), nil }}
	if len(n.Arguments) == 0 {
		return time
	}
	offset := b.build(n.Arguments[0])
	b.demand(n.Arguments[0], offset, integer, "now takes whole seconds")
	return apply(b.at(n), integer, add, time, offset)
}

func (b *builder) uuid(n *ast.CallNode) operand {
	column := b.at(n)
	return operand{text, func(r *rendering) (any, *Error) {
		value, err := r.UUID()
		if err != nil {
			return nil, &Error{Column: column, Message: "uuid()", Err: err}
		}
		return value, nil
	}}
}

// defaultValue replaces a first operand that is empty text, or directly a variable that is missing. What is missing
// deeper in it fails, and so does a missing secret everywhere.
func (b *builder) defaultValue(n *ast.CallNode) operand {
	var value operand
	if isLookup(n.Arguments[0]) {
		l, ok := b.lookup(n.Arguments[0])
		if !ok {
			return operand{}
		}
		column := b.at(n.Arguments[0])
		value = operand{text, func(r *rendering) (any, *Error) {
			found, _ := l.find(r)
			return limited(column, found)
		}}
	} else {
		value = b.build(n.Arguments[0])
	}
	other := b.build(n.Arguments[1])
	if value.kind != 0 && value.kind&text == 0 {
		return b.fail(n.Arguments[0], "default replaces missing and empty texts, and this is none")
	}
	return operand{value.kind | other.kind, func(r *rendering) (any, *Error) {
		if found, err := value.run(r); err != nil || found != "" {
			return found, err
		}
		return other.run(r)
	}}
}

func (b *builder) base64Encode(n *ast.CallNode) operand {
	return b.textFunction(n, func(s string) (string, string) {
		if base64.StdEncoding.EncodedLen(len(s)) > MaxText {
			return "", tooLong
		}
		return base64.StdEncoding.EncodeToString([]byte(s)), ""
	})
}

func (b *builder) base64Decode(n *ast.CallNode) operand {
	return b.textFunction(n, func(s string) (string, string) {
		decoded, err := base64.StdEncoding.DecodeString(s)
		if err != nil {
			return "", "base64_decode: not base64 (RFC 4648 section 4, with padding)"
		}
		return string(decoded), ""
	})
}

func (b *builder) textFunction(n *ast.CallNode, change func(string) (result, problem string)) operand {
	o := b.build(n.Arguments[0])
	b.demand(n.Arguments[0], o, text, "%s takes a text", name(n))
	return apply(b.at(n), text, func(x, _ any) (any, string) { return change(x.(string)) }, o, constant(null, nil))
}

const tooLong = "the text is longer than 1 MiB"

// limited refuses a value from outside that is over the limit.
func limited(column int, value string) (any, *Error) {
	if len(value) > MaxText {
		return nil, &Error{Column: column, Message: tooLong}
	}
	return value, nil
}

// format returns a rendered value as text.
func format(value any) string {
	switch value := value.(type) {
	case string:
		return value
	case int64:
		return strconv.FormatInt(value, 10)
	case float64:
		return formatFloat(value)
	case bool:
		return strconv.FormatBool(value)
	}
	return "" // the builder lets nothing else through
}

// formatFloat returns the shortest text that stands for the number, in the form that JSON allows (RFC 8785 section
// 3.2.2.3).
func formatFloat(f float64) string {
	if f == 0 {
		f = math.Abs(f) // no "-0"
	}
	token := jsontext.Float(f)
	return token.String()
}
