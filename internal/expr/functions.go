package expr

import (
	"encoding/base64"
	"math"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/conf"
)

type function struct {
	// If templates is false, the function is available in bodies only.
	templates        bool
	minArgs, maxArgs int
	// takes describes the arguments, for the error for a wrong number of them.
	takes string
	// fits describes the arguments, for the error for a wrong kind.
	fits string
	// kinds are the allowed kinds of the arguments. The last one applies to all further arguments. If kinds is nil, the
	// compiler does not check them.
	kinds  []Kind
	result Kind
	// call is nil for the functions that the builder compiles itself.
	call implementation
	// encodes reports whether the function writes its argument to text or JSON unchanged.
	encodes bool
}

const (
	everywhere = true
	bodies     = false
)

// implementation evaluates a function. Omitted arguments have the type omitted. If a function takes any number of arguments, the
// first argument is a *List of them.
type implementation func(r *Run, a arguments) any

type arguments [3]any

// omitted is the type of an argument that was left out.
type omitted struct{}

// functions are all functions except rounds. README.md and docs/gateway.md list them.
var functions = map[string]function{
	"get_secret":   {everywhere, 1, 2, "a name, and perhaps 'tenant' or 'user'", "", nil, Text, nil, false},
	"get_key":      {everywhere, 1, 2, "a name, and perhaps a version", "", nil, Text, nil, false},
	"get_variable": {everywhere, 1, 2, "a name, and perhaps 'tenant'", "", nil, Text, nil, false},
	"identity":     {everywhere, 2, 2, "the name of an identity, and an audience", "", nil, Text, nil, false},
	"discover":     {everywhere, 2, 2, "an issuer, and a member of its metadata", "", nil, Text, nil, false},
	"default":      {everywhere, 2, 2, "a value and what replaces it", "", nil, Any, nil, false},

	"now":           {everywhere, 0, 1, "nothing, or seconds", "whole seconds", []Kind{Integer}, Integer, now, false},
	"uuid":          {everywhere, 0, 0, "nothing", "", nil, Text, uuid, false},
	"base64_encode": ofText(everywhere, func(_ *Run, s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }),
	"base64_decode": ofText(everywhere, base64Decode),
	"json_encode":   {everywhere, 1, 1, "one value", "", nil, Text, jsonEncode, true},
	"json_get":      {everywhere, 2, math.MaxInt, "a text with JSON, and the names of members", "texts", []Kind{Text}, Text, jsonGet, false},

	"from_json":  {bodies, 1, 1, "one text", "a text", []Kind{Text}, Any, fromJSON, false},
	"string":     {bodies, 1, 1, "one value", "", nil, Text, toText, true},
	"int":        {bodies, 1, 1, "a number or a text", "", nil, Integer, toInteger, false},
	"url_encode": ofText(bodies, func(_ *Run, s string) string { return url.QueryEscape(s) }),
	"upper":      ofText(bodies, func(_ *Run, s string) string { return strings.ToUpper(s) }),
	"lower":      ofText(bodies, func(_ *Run, s string) string { return strings.ToLower(s) }),
	"trim":       ofText(bodies, func(_ *Run, s string) string { return strings.TrimSpace(s) }),
	"split":      {bodies, 2, 2, "a text and what separates", "two texts", []Kind{Text}, ListKind, split, false},
	"join":       {bodies, 1, 2, "a list of texts, and what to put between", "a list of texts, and a text to put between", []Kind{Any, Text}, Text, join, false},
	"replace":    {bodies, 3, 3, "a text, what to replace, and by what", "three texts", []Kind{Text}, Text, replace, false},

	"first": {bodies, 1, 1, "one list", "", nil, Any, func(r *Run, a arguments) any { return r.end(a[0], false) }, false},
	"last":  {bodies, 1, 1, "one list", "", nil, Any, func(r *Run, a arguments) any { return r.end(a[0], true) }, false},
	"len":   {bodies, 1, 1, "one list, object or text", "", nil, Integer, length, false},
	"max":   {bodies, 1, math.MaxInt, "numbers, or lists of them", "", nil, Any, extreme("max", 1), false},
	"min":   {bodies, 1, math.MaxInt, "numbers, or lists of them", "", nil, Any, extreme("min", -1), false},

	"abs":   {bodies, 1, 1, "one number", "a number", []Kind{numeric}, Any, absolute, false},
	"ceil":  rounding(math.Ceil),
	"floor": rounding(math.Floor),
	"round": rounding(math.Round),
}

// parsed has the names that the parser takes for functions of this package, even if expr has a function of that name.
var parsed = func() conf.FunctionsTable {
	all := conf.FunctionsTable{}
	for name := range functions {
		all[name] = nil
	}
	return all
}()

// ofText returns a function of one text. The result of f may be three times as long as its argument, and not longer.
func ofText(where bool, f func(r *Run, s string) string) function {
	return function{where, 1, 1, "one text", "a text", []Kind{Text}, Text, func(r *Run, a arguments) any {
		s := r.text(a[0])
		r.make(len(s))
		text := f(r, s)
		r.make(max(0, r.bound(len(text), r.limits.Text)-len(s)))
		return text
	}, false}
}

func (r *Run) text(argument any) string {
	s, ok := argument.(string)
	if !ok {
		panic(r.failure("a text is wanted"))
	}
	return s
}

func (r *Run) list(argument any) *List {
	l, ok := argument.(*List)
	if !ok {
		panic(r.failure("a list is wanted: where it may be missing, write ?? []"))
	}
	return l
}

func now(r *Run, a arguments) any {
	seconds := r.Values.Now()
	switch offset := a[0].(type) {
	case omitted:
		return seconds
	case int64:
		return add(r, seconds, offset)
	}
	panic(r.failure("now takes whole seconds"))
}

func uuid(r *Run, _ arguments) any {
	id, err := r.Values.UUID()
	if err != nil {
		panic(&Error{Column: r.column, Message: "uuid()", Err: err})
	}
	return id
}

func base64Decode(r *Run, s string) string {
	decoded, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		panic(r.failure("base64_decode: not base64 (RFC 4648 section 4, with padding)"))
	}
	return string(decoded)
}

func fromJSON(r *Run, a arguments) any {
	s := r.text(a[0])
	r.make(len(s))
	return r.decode([]byte(s))
}

func jsonEncode(r *Run, a arguments) any {
	encoded := r.appendJSON(make([]byte, 0, 64), a[0])
	r.make(len(encoded))
	return string(encoded)
}

func toText(r *Run, a arguments) any {
	if a[0] == nil {
		panic(r.failure("null has no text: give string(default(value, other))"))
	}
	encoded := r.appendText(nil, a[0])
	r.make(len(encoded))
	return string(encoded)
}

func toInteger(r *Run, a arguments) any {
	switch value := a[0].(type) {
	case int64:
		return value
	case float64:
		if f := math.Trunc(value); f >= math.MinInt64 && f < math.MaxInt64 {
			return int64(f)
		}
	case string:
		r.read(len(value))
		if i, err := strconv.ParseInt(value, 10, 64); err == nil {
			return i
		}
	}
	panic(r.failure("int takes a number or its text, of 64 bits at most"))
}

func split(r *Run, a arguments) any {
	s, between := r.text(a[0]), r.text(a[1])
	r.read(len(s))
	r.makeList(strings.Count(s, between) + 1) // the text of a piece is not copied
	return Texts(strings.Split(s, between))
}

func join(r *Run, a arguments) any {
	l, between := r.list(a[0]), ""
	if a[1] != (omitted{}) {
		between = r.text(a[1])
	}
	var b strings.Builder
	for i, element := range l.elements {
		s, ok := element.(string)
		if !ok {
			panic(r.failure("join takes a list of texts"))
		}
		r.call()
		r.make(len(between) + len(s))
		if i > 0 {
			b.WriteString(between)
		}
		b.WriteString(s)
	}
	return b.String()
}

func replace(r *Run, a arguments) any {
	s, old, replacement := r.text(a[0]), r.text(a[1]), r.text(a[2])
	r.read(len(s))
	r.make(len(s) + strings.Count(s, old)*len(replacement))
	return strings.ReplaceAll(s, old, replacement)
}

// end returns the first or last element of a list, or null for an empty list.
func (r *Run) end(value any, last bool) any {
	switch l := r.list(value); {
	case len(l.elements) == 0:
		return nil
	case last:
		return l.elements[len(l.elements)-1]
	default:
		return l.elements[0]
	}
}

// length returns the number of elements, members or runes.
func length(r *Run, a arguments) any {
	switch value := a[0].(type) {
	case string:
		r.read(len(value))
		return int64(utf8.RuneCountInString(value))
	case *List:
		return int64(len(value.elements))
	case *Object:
		return int64(value.len())
	}
	panic(r.failure("len takes a list, an object or a text"))
}

// extreme returns the implementation of max (sign 1) or min (sign -1). The arguments are numbers, or lists of numbers at any
// depth. Without a number, the result is null.
func extreme(name string, sign int) implementation {
	var best func(r *Run, found any, all *List) any
	best = func(r *Run, found any, all *List) any {
		for _, value := range all.elements {
			r.call()
			if inner, ok := value.(*List); ok {
				found = best(r, found, inner)
			} else if _, ok := float(value); !ok {
				panic(r.failure("%s takes numbers, or lists of them", name))
			} else if c, ordered, _ := compareNumbers(value, found); found == nil || ordered && c == sign {
				found = value
			}
		}
		return found
	}
	return func(r *Run, a arguments) any { return best(r, nil, a[0].(*List)) }
}

func absolute(r *Run, a arguments) any {
	f, ok := float(a[0])
	switch {
	case !ok:
		panic(r.misfit())
	case f <= 0: // also -0
		return subtract(r, int64(0), a[0])
	}
	return a[0]
}

func rounding(round func(float64) float64) function {
	return function{bodies, 1, 1, "one number", "a number", []Kind{numeric}, Decimal, func(r *Run, a arguments) any {
		f, ok := float(a[0])
		if !ok {
			panic(r.misfit())
		}
		return round(f) + 0 // turns -0 into 0
	}, false}
}
