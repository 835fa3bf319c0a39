package expr

import (
	"bytes"
	"errors"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Number is the text of a JSON number. It is used for numbers that fit neither an int64 nor a float64, and for numbers that
// are written to the output unchanged.
type Number string

// List is a list in an expression. It is immutable.
type List struct {
	elements []any
	// raw is the JSON of a decoded list. It is nil for a list that an expression made.
	raw []byte
	// numbers has the text of each float64 that would be written as another text, by index.
	numbers map[int]Number
}

// Object is an object in an expression. It is immutable.
type Object struct {
	// members are the members of a decoded object.
	members map[string]any
	// raw is the JSON of a decoded object.
	raw []byte
	// numbers has the text of each float64 that would be written as another text, by name.
	numbers map[string]Number

	// order and values are the names and values of an object that an expression made.
	order  []string
	values []any
}

func (o *Object) find(name string) (value any, ok bool) {
	if i := slices.Index(o.order, name); i >= 0 {
		return o.values[i], true
	}
	value, ok = o.members[name]
	return value, ok
}

func (o *Object) len() int { return len(o.members) + len(o.order) }

func (o *Object) all(yield func(name string, value any) bool) {
	for name, value := range o.members {
		if !yield(name, value) {
			return
		}
	}
	for i, name := range o.order {
		if !yield(name, o.values[i]) {
			return
		}
	}
}

// Texts returns a List with the given texts.
func Texts(texts []string) *List {
	l := &List{elements: make([]any, len(texts))}
	for i, text := range texts {
		l.elements[i] = text
	}
	return l
}

// Decode decodes a JSON document. The document must not change during the run. Duplicate names and text that is not UTF-8 are errors.
func (r *Run) Decode(document []byte) (value any, err *Error) {
	defer catch(&err)
	r.column = 0
	return r.decode(document), nil
}

func (r *Run) decode(document []byte) any {
	r.read(len(document))
	d := jsontext.NewDecoder(bytes.NewBuffer(document))
	value, _ := (&reader{r, d, document}).read(0)
	r.must(AtEnd(d))
	return value
}

// DecodeNext decodes the next value from d, which reads document. It takes no steps. Limits.Values applies to this value alone.
func (r *Run) DecodeNext(d *jsontext.Decoder, document []byte) (value any, err *Error) {
	defer catch(&err)
	r.column, r.values = 0, 0
	value, _ = (&reader{r, d, document}).read(0)
	return value, nil
}

type reader struct {
	*Run
	d        *jsontext.Decoder
	document []byte
}

// read decodes the next value. If the value is a float64 that would be written as another text, exact is its text.
func (j *reader) read(depth int) (value any, exact Number) {
	if j.reads++; j.reads%stepLook == 0 {
		j.must(j.look())
	}
	kind := j.d.PeekKind()
	j.values++ // includes the name or the list element
	if kind == '{' || kind == '[' {
		j.values += 3
		depth++
	}
	switch {
	case j.values > j.limits.Values:
		panic(j.failure("JSON with more than %d values", j.limits.Values))
	case depth > j.limits.Depth:
		panic(j.failure("JSON that is nested more than %d deep", j.limits.Depth))
	case kind == '0':
		text, err := j.d.ReadValue()
		if err != nil {
			j.must(Malformed(err))
		}
		if value, exact = parseNumber(text); exact != "" {
			j.values += 4 // the number and its text are kept
		}
		return value, exact
	}
	switch token := j.token(); kind {
	case '"':
		return token.String(), ""
	case 't', 'f':
		return token.Bool(), ""
	case '{':
		return j.readObject(depth), ""
	case '[':
		return j.readList(depth), ""
	}
	return nil, ""
}

func (j *reader) readObject(depth int) any {
	start := j.d.InputOffset() - 1
	o := &Object{members: map[string]any{}}
	for j.d.PeekKind() != '}' {
		name := j.token().String() // the next call of token invalidates the token
		member, exact := j.read(depth)
		o.members[name] = member
		if exact != "" {
			if o.numbers == nil {
				o.numbers = map[string]Number{}
			}
			o.numbers[name] = exact
		}
	}
	j.token()
	o.raw = j.document[start:j.d.InputOffset()]
	return o
}

func (j *reader) readList(depth int) any {
	start := j.d.InputOffset() - 1
	l := &List{}
	for j.d.PeekKind() != ']' {
		element, exact := j.read(depth)
		if exact != "" {
			if l.numbers == nil {
				l.numbers = map[int]Number{}
			}
			l.numbers[len(l.elements)] = exact
		}
		l.elements = append(l.elements, element)
	}
	j.token()
	l.raw = j.document[start:j.d.InputOffset()]
	return l
}

func (j *reader) token() jsontext.Token { return j.Run.token(j.d) }

// SkipToken reads one JSON token and discards it.
func SkipToken(d *jsontext.Decoder) *Error {
	if _, err := d.ReadToken(); err != nil {
		return Malformed(err)
	}
	return nil
}

// AtEnd returns an error unless the decoder is at the end of its document.
func AtEnd(d *jsontext.Decoder) *Error {
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return &Error{Message: "not well-formed JSON: there is more behind its end"}
	}
	return nil
}

// Malformed returns an error with the kind and the place of a decoder's error. It drops the decoder's text, which quotes the document.
func Malformed(err error) *Error {
	what := "not well-formed JSON"
	if errors.Is(err, jsontext.ErrDuplicateName) {
		what = "JSON with two members of one name"
	}
	if s := (*jsontext.SyntacticError)(nil); errors.As(err, &s) {
		what += " at byte " + strconv.FormatInt(s.ByteOffset, 10)
	}
	return &Error{Message: what}
}

func parseNumber(text []byte) (value any, exact Number) {
	s := string(text)
	if !bytes.ContainsAny(text, ".eE") {
		if i, err := strconv.ParseInt(s, 10, 64); err == nil && s != "-0" {
			return i, ""
		} else if err != nil {
			return Number(s), ""
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil:
		return Number(s), ""
	case string(jsontext.AppendFloat(nil, f, 64)) != s:
		return f, Number(s)
	}
	return f, ""
}

// AppendText appends a text unchanged, and any other value as JSON.
func (r *Run) AppendText(dst []byte, value any) (_ []byte, err *Error) {
	defer catch(&err)
	return r.appendText(dst, value), nil
}

func (r *Run) appendText(dst []byte, value any) []byte {
	s, ok := value.(string)
	if !ok {
		return r.appendJSON(dst, value)
	}
	r.bound(len(dst)+len(s), r.limits.JSON)
	return append(dst, s...)
}

// appendJSON appends a value as JSON. It copies the original JSON of a decoded list or object. It writes the members of an
// object that an expression made in the order of the expression.
func (r *Run) appendJSON(dst []byte, value any) []byte {
	r.call()
	var raw []byte
	switch value := value.(type) {
	case nil:
		dst = append(dst, "null"...)
	case bool:
		dst = strconv.AppendBool(dst, value)
	case int64:
		dst = strconv.AppendInt(dst, value, 10)
	case float64:
		if math.IsNaN(value) || math.IsInf(value, 0) {
			panic(r.failure("JSON cannot hold a number that is infinite or none"))
		}
		dst = jsontext.AppendFloat(dst, value, 64)
	case Number:
		dst = append(dst, value...)
	case string:
		dst = r.appendQuoted(dst, value)
	case *List:
		if raw = value.raw; raw == nil {
			dst = r.appendList(dst, value)
		}
	case *Object:
		if raw = value.raw; raw == nil {
			dst = r.appendObject(dst, value)
		}
	}
	r.bound(len(dst)+len(raw), r.limits.JSON)
	return append(dst, raw...)
}

func (r *Run) appendQuoted(dst []byte, s string) []byte {
	r.bound(len(dst)+len(s), r.limits.JSON)
	dst, err := jsontext.AppendQuote(dst, s)
	if err != nil {
		panic(r.failure(notUTF8))
	}
	return dst
}

const notUTF8 = "JSON cannot hold text that is not UTF-8"

func (r *Run) appendList(dst []byte, l *List) []byte {
	dst = append(dst, '[')
	for i, element := range l.elements {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.appendJSON(dst, element)
	}
	return append(dst, ']')
}

func (r *Run) appendObject(dst []byte, o *Object) []byte {
	dst = append(dst, '{')
	for i, name := range o.order {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.appendQuoted(dst, name)
		dst = r.appendJSON(append(dst, ':'), o.values[i])
	}
	return append(dst, '}')
}

// jsonGet returns a text of a JSON document. The first argument is the document, the second the name of a member, and each
// further one the name of a member of the member before. It makes no values of the rest of the document, so that templates,
// which have no limits for these, may use it. Like Decode, it refuses duplicate names.
func jsonGet(r *Run, a arguments) any {
	all := a[0].(*List).elements
	document := r.text(all[0])
	r.make(len(document)) // the copy, and the text in it
	d := jsontext.NewDecoder(bytes.NewBufferString(document))
	for _, name := range all[1:] {
		r.findMember(d, r.text(name))
	}
	if kind := d.PeekKind(); kind != '"' && kind != 0 {
		panic(r.failure("json_get: the member is no text"))
	}
	text := r.token(d).String()
	for d.StackDepth() > 0 {
		r.token(d)
	}
	r.must(AtEnd(d))
	return text
}

func (r *Run) findMember(d *jsontext.Decoder, name string) {
	if kind := d.PeekKind(); kind != '{' && kind != 0 {
		panic(r.failure("json_get: what should have the member is no object"))
	}
	r.token(d)
	for d.PeekKind() != '}' {
		if r.token(d).String() == name {
			return
		}
		if err := d.SkipValue(); err != nil {
			r.must(Malformed(err))
		}
	}
	panic(r.failure("json_get: there is no such member"))
}

func (r *Run) token(d *jsontext.Decoder) jsontext.Token {
	token, err := d.ReadToken()
	if err != nil {
		r.must(Malformed(err))
	}
	return token
}
