package transform

import (
	"encoding/base64"
	"math"
	"net/url"
	"reflect"
	"strconv"
	"strings"

	"github.com/expr-lang/expr/builtin"
	"github.com/expr-lang/expr/vm/runtime"
)

// builtins are the functions of the language itself that are available; true for those that go through a list.
var builtins = map[string]bool{
	"all": true, "any": true, "none": true, "one": true, "filter": true, "map": true, "find": true, "count": true,
	"sum": true, "sortBy": true,
	"abs": false, "ceil": false, "floor": false, "round": false,
}

// function is one of this package. Its error needs no column.
type function struct {
	least, most int // arguments
	takes       string
	kind        any // a func of the kinds of its arguments, the run first, and of its result
	call        func(r *run, arguments []any) (any, error)
	encodes     bool // it makes text or JSON of its argument
}

type (
	textToText = func(any, string) string
	textToAny  = func(any, string) any
	anyToText  = func(any, any) string
	anyToAny   = func(any, any) any
)

// functions are those that expressions may call, besides default, get_variable and builtins.
var functions = map[string]function{
	"from_json":     {1, 1, "one text", textToAny(nil), fromJSON, false},
	"json_encode":   {1, 1, "one value", anyToText(nil), jsonEncode, true},
	"string":        {1, 1, "one value", anyToText(nil), toText, true},
	"int":           {1, 1, "a number or a text", func(any, any) int { return 0 }, toInteger, false},
	"len":           {1, 1, "one list, object or text", func(any, any) int { return 0 }, length, false},
	"max":           {1, math.MaxInt, "numbers, or lists of them", func(any, ...any) any { return nil }, extreme("max", runtime.Less), false},
	"min":           {1, math.MaxInt, "numbers, or lists of them", func(any, ...any) any { return nil }, extreme("min", runtime.More), false},
	"now":           {0, 1, "nothing, or seconds", func(any, ...int) int { return 0 }, now, false},
	"uuid":          {0, 0, "nothing", func(any) string { return "" }, uuid, false},
	"base64_encode": {1, 1, "one text", textToText(nil), ofText(base64Encode), false},
	"base64_decode": {1, 1, "one text", textToText(nil), ofText(base64Decode), false},
	"url_encode":    {1, 1, "one text", textToText(nil), ofText(func(s string) (string, error) { return url.QueryEscape(s), nil }), false},
	"upper":         {1, 1, "one text", textToText(nil), ofText(func(s string) (string, error) { return strings.ToUpper(s), nil }), false},
	"lower":         {1, 1, "one text", textToText(nil), ofText(func(s string) (string, error) { return strings.ToLower(s), nil }), false},
	"trim":          {1, 1, "one text", textToText(nil), ofText(func(s string) (string, error) { return strings.TrimSpace(s), nil }), false},
	"split":         {2, 2, "a text and what separates", func(any, string, string) []any { return nil }, split, false},
	"join":          {1, 2, "a list of texts, and what to put between", func(any, any, ...string) string { return "" }, join, false},
	"replace":       {3, 3, "a text, what to replace, and by what", func(any, string, string, string) string { return "" }, replace, false},
	"first":         {1, 1, "one list", anyToAny(nil), func(_ *run, a []any) (any, error) { return end(a[0], false) }, false},
	"last":          {1, 1, "one list", anyToAny(nil), func(_ *run, a []any) (any, error) { return end(a[0], true) }, false},
}

// engine is all that the virtual machine may call: functions, and under names that no source can have what the builder
// puts in the place of values and operators.
var engine = func() map[string]*builtin.Function {
	all := map[string]*builtin.Function{}
	add := func(name string, kind any, call func(*run, []any) (any, error)) {
		all[name] = &builtin.Function{
			Name: name, Types: []reflect.Type{reflect.TypeOf(kind)},
			Func: func(arguments ...any) (any, error) {
				r := arguments[0].(*run)
				if err := r.take(1); err != nil {
					return nil, err
				}
				return call(r, arguments[1:])
			},
		}
	}
	for name, f := range functions {
		add(name, f.kind, f.call)
	}
	for name, in := range allInputs {
		add("$"+name, in.kind, func(r *run, a []any) (any, error) {
			value, err := in.get(r)
			if value == "" && in.missing != "" && !a[0].(bool) {
				return nil, fail("%s", in.missing)
			}
			return value, err
		})
	}
	for name, f := range allFamilies {
		add("$"+name, textToAny(nil), func(r *run, a []any) (any, error) { return f.value(r, a[0].(string)), nil })
	}
	add("$variable", func(any, string, bool) string { return "" }, variable)
	add("$empty", func(any, any) bool { return false }, func(_ *run, a []any) (any, error) { return a[0] == nil || a[0] == "", nil })
	add("$member", func(any, any, any, bool, bool) any { return nil }, member)
	add("$slice", func(any, any, any, any) any { return nil }, slice)
	add("$matches", func(any, any, *pattern) bool { return false }, matches)
	add("$sort", func(any, []any, []any, bool) []any { return nil }, sortBy)
	add("$chain", anyToAny(nil), func(_ *run, a []any) (any, error) {
		if a[0] == (absent{}) {
			return nil, nil
		}
		return a[0], nil
	})
	add("$object", func(any, []string, ...any) map[string]any { return nil }, object)
	add("$list", func(any, any) []any { return nil }, func(_ *run, a []any) (any, error) { return list(a[0]) })
	add("$made", func(any, any) []any { return nil }, made)
	add("$step", func(any, any, int) any { return nil }, func(r *run, a []any) (any, error) { return a[0], r.take(a[1].(int)) })
	all["$step"].Validate = func(kinds []reflect.Type) (reflect.Type, error) { return orAny(kinds[1]), nil }
	for name, o := range operators {
		add("$"+name, func(any, any, any) any { return nil }, func(r *run, a []any) (any, error) { return o.apply(r, a[0], a[1]) })
		all["$"+name].Validate = func(kinds []reflect.Type) (reflect.Type, error) {
			a, b := orAny(kinds[1]), orAny(kinds[2])
			if !o.fits(a, b) {
				return anyKind, fail("%s takes %s", name, o.takes)
			}
			return o.gives(a, b), nil
		}
	}
	return all
}()

var anyKind = reflect.TypeFor[any]()

func orAny(kind reflect.Type) reflect.Type {
	if kind == nil { // of nil
		return anyKind
	}
	return kind
}

// text returns an argument that must be text.
func text(argument any) (string, error) {
	s, ok := argument.(string)
	if !ok {
		return "", fail("a text is wanted")
	}
	return s, nil
}

// made returns its argument, which must be a list. It counts the bytes of a list of that length, which the expression has
// made or is about to make.
func made(r *run, a []any) (any, error) {
	l, err := list(a[0])
	if err == nil {
		err = r.made(len(l))
	}
	return l, err
}

func list(value any) ([]any, error) {
	l, ok := value.([]any)
	if !ok {
		return nil, fail("a list is wanted: where it may be missing, write ?? []")
	}
	return l, nil
}

// ofText makes a function of one text. It may make the text three times as long, and not more.
func ofText(f func(string) (string, error)) func(*run, []any) (any, error) {
	return func(r *run, a []any) (any, error) {
		s, err := text(a[0])
		if err != nil {
			return nil, err
		}
		if err := r.spend(len(s)); err != nil {
			return nil, err
		}
		made, err := f(s)
		if err == nil {
			err = r.spend(max(0, len(made)-len(s)))
		}
		return made, err
	}
}

func base64Encode(s string) (string, error) {
	return base64.StdEncoding.EncodeToString([]byte(s)), nil
}

func base64Decode(s string) (string, error) {
	decoded, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return "", fail("not base64 (RFC 4648 section 4, with padding)")
	}
	return string(decoded), nil
}

func fromJSON(r *run, a []any) (any, error) {
	s, err := text(a[0])
	if err != nil {
		return nil, err
	}
	if err := r.spend(len(s)); err != nil {
		return nil, err
	}
	return r.decode([]byte(s))
}

func jsonEncode(r *run, a []any) (any, error) {
	encoded, err := r.appendJSON(nil, a[0])
	if err == nil {
		err = r.spend(len(encoded))
	}
	return string(encoded), err
}

func toText(r *run, a []any) (any, error) {
	if a[0] == nil {
		return nil, fail("null has no text: give string(default(value, other))")
	}
	encoded, err := r.appendText(nil, a[0])
	if err == nil {
		err = r.spend(len(encoded))
	}
	return string(encoded), err
}

func toInteger(r *run, a []any) (any, error) {
	switch value := a[0].(type) {
	case int:
		return value, nil
	case float64:
		if f := math.Trunc(value); f >= math.MinInt64 && f < math.MaxInt64 {
			return int(f), nil
		}
	case string:
		if err := r.pass(len(value)); err != nil {
			return nil, err
		}
		if i, err := strconv.Atoi(value); err == nil {
			return i, nil
		}
	}
	return nil, fail("int takes a number or its text, of 64 bits at most")
}

func now(r *run, a []any) (any, error) {
	seconds := int(r.in.Now().Unix())
	if len(a) == 0 {
		return seconds, nil
	}
	if _, whole := a[0].(int); !whole {
		return nil, fail("now takes whole seconds")
	}
	return r.arithmetic("+", seconds, a[0])
}

func uuid(r *run, _ []any) (any, error) {
	id, err := r.in.UUID()
	if err != nil {
		return nil, &Error{Message: "uuid()", Err: err}
	}
	return id, nil
}

func variable(r *run, a []any) (any, error) {
	value, ok := r.in.Variable(a[0].(string))
	if !ok && !a[1].(bool) {
		return nil, fail("get_variable('%s'): there is no such variable", a[0])
	}
	return value, nil
}

func texts(arguments []any) (all [3]string, err error) {
	for i, a := range arguments {
		if all[i], err = text(a); err != nil {
			return all, err
		}
	}
	return all, nil
}

func split(r *run, a []any) (any, error) {
	t, err := texts(a)
	if err != nil {
		return nil, err
	}
	if err := r.pass(len(t[0])); err != nil {
		return nil, err
	}
	most := strings.Count(t[0], t[1]) + 1
	if err := r.made(most); err != nil { // the text of a piece is not copied
		return nil, err
	}
	pieces := make([]any, 0, most)
	for piece := range strings.SplitSeq(t[0], t[1]) {
		pieces = append(pieces, piece)
	}
	return pieces, nil
}

func join(r *run, a []any) (any, error) {
	elements, err := list(a[0])
	if err != nil {
		return nil, err
	}
	between, err := texts(a[1:])
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for i, element := range elements {
		s, err := text(element)
		if err != nil {
			return nil, fail("join takes a list of texts")
		}
		if err := r.take(1); err != nil {
			return nil, err
		}
		if err := r.spend(len(between[0]) + len(s)); err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteString(between[0])
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

func replace(r *run, a []any) (any, error) {
	t, err := texts(a)
	if err != nil {
		return nil, err
	}
	if err := r.pass(len(t[0])); err != nil {
		return nil, err
	}
	if err := r.spend(len(t[0]) + strings.Count(t[0], t[1])*len(t[2])); err != nil {
		return nil, err
	}
	return strings.ReplaceAll(t[0], t[1], t[2]), nil
}

// end returns the first or last element of a list, null when it has none.
func end(value any, last bool) (any, error) {
	l, err := list(value)
	if err != nil || len(l) == 0 {
		return nil, err
	}
	if last {
		return l[len(l)-1], nil
	}
	return l[0], nil
}
