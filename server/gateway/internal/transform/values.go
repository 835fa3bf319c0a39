package transform

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// A value is nil, bool, string, int, float64, number, []any, or map[string]any.

// number is the text of a JSON number that is neither an int nor a float64, or that goes straight to the output.
type number string

// absent is the value of a?.b when there is no a. What follows in the chain is absent, too, and the whole chain is then null.
type absent struct{}

// source is where an object or array comes from.
type source struct {
	value   any            // keeps the address from being used again
	raw     []byte         // its JSON, when it was decoded
	order   []string       // of the members, when an expression made the object
	numbers map[any]number // by name or index: text of floats, where theirs would be another one
}

// address returns a number that differs for two values that may be equal. It is 0 for a value without parts.
func address(value any) uintptr {
	switch value := value.(type) {
	case []any:
		if len(value) > 0 {
			return reflect.ValueOf(value).Pointer()
		}
	case map[string]any:
		return reflect.ValueOf(value).Pointer()
	}
	return 0
}

// sourceOf returns where a value comes from, if that is known. A part of a list is not the list.
func (r *run) sourceOf(value any) source {
	s := r.sources[address(value)]
	if l, ok := value.([]any); ok {
		if whole, ok := s.value.([]any); !ok || len(l) != len(whole) {
			return source{}
		}
	}
	return s
}

func (r *run) remember(s source) {
	if a := address(s.value); a != 0 && r.sources != nil {
		r.sources[a] = s
	}
}

// decode reads a JSON document. Duplicate names and text that is not UTF-8 are errors.
func (r *run) decode(document []byte) (any, error) {
	if err := r.pass(len(document)); err != nil {
		return nil, err
	}
	d := jsontext.NewDecoder(bytes.NewBuffer(document))
	value, _, err := r.read(d, document, 0)
	if err == nil {
		err = atEnd(d)
	}
	return value, err
}

// read reads the next value. exact is the text of a float64 that would come out as another text.
func (r *run) read(d *jsontext.Decoder, document []byte, depth int) (value any, exact number, err error) {
	kind := d.PeekKind()
	if r.reads++; r.reads%stepLook == 0 {
		if err := r.cancelled(); err != nil {
			return nil, "", err
		}
	}
	r.values++ // with its name, or its place in a list
	if kind == '{' || kind == '[' {
		r.values += 3
		depth++
	}
	switch {
	case r.values > MaxValues:
		return nil, "", fail("JSON with more than %d values", MaxValues)
	case depth > MaxDepth:
		return nil, "", fail("JSON that is nested more than %d deep", MaxDepth)
	case kind == '0':
		text, err := d.ReadValue()
		if err != nil {
			return nil, "", malformed(err)
		}
		if value, exact = parseNumber(text); exact != "" {
			r.values += 4 // it is kept twice
		}
		return value, exact, nil
	}
	token, err := d.ReadToken()
	if err != nil {
		return nil, "", malformed(err)
	}
	switch kind {
	case '"':
		return token.String(), "", nil
	case 't', 'f':
		return token.Bool(), "", nil
	case '{', '[':
		s := source{}
		start := d.InputOffset() - 1
		if kind == '{' {
			err = r.readObject(d, document, depth, &s)
		} else {
			err = r.readArray(d, document, depth, &s)
		}
		if err != nil {
			return nil, "", err
		}
		s.raw = document[start:d.InputOffset()]
		r.remember(s)
		return s.value, "", nil
	}
	return nil, "", nil
}

func (r *run) readObject(d *jsontext.Decoder, document []byte, depth int, s *source) error {
	object := map[string]any{}
	s.value = object
	for d.PeekKind() != '}' {
		token, err := d.ReadToken()
		if err != nil {
			return malformed(err)
		}
		name := token.String() // before the next token, which takes its place
		member, exact, err := r.read(d, document, depth)
		if err != nil {
			return err
		}
		object[name] = member
		s.note(name, exact)
	}
	return skipToken(d)
}

func (r *run) readArray(d *jsontext.Decoder, document []byte, depth int, s *source) error {
	array := []any{}
	for d.PeekKind() != ']' {
		element, exact, err := r.read(d, document, depth)
		if err != nil {
			return err
		}
		s.note(len(array), exact)
		array = append(array, element)
	}
	s.value = array
	return skipToken(d)
}

func (s *source) note(key any, exact number) {
	if exact == "" {
		return
	}
	if s.numbers == nil {
		s.numbers = map[any]number{}
	}
	s.numbers[key] = exact
}

func skipToken(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); err != nil {
		return malformed(err)
	}
	return nil
}

func atEnd(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return fail("not well-formed JSON: there is more behind its end")
	}
	return nil
}

// malformed reduces an error to the kind of problem and its place: the decoder's text quotes what it found there.
func malformed(err error) error {
	what := "not well-formed JSON"
	if errors.Is(err, jsontext.ErrDuplicateName) {
		what = "JSON with two members of one name"
	}
	if s := (*jsontext.SyntacticError)(nil); errors.As(err, &s) {
		what += " at byte " + strconv.FormatInt(s.ByteOffset, 10)
	}
	return fail("%s", what)
}

func parseNumber(text []byte) (value any, exact number) {
	s := string(text)
	if !bytes.ContainsAny(text, ".eE") {
		if i, err := strconv.Atoi(s); err == nil && s != "-0" {
			return i, ""
		} else if err != nil {
			return number(s), ""
		}
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil:
		return number(s), ""
	case string(jsontext.AppendFloat(nil, f, 64)) != s:
		return f, number(s)
	}
	return f, ""
}

const tooMuchOutput = "the result is longer than 8 MiB"

// appendText appends text as it is, and everything else as JSON.
func (r *run) appendText(dst []byte, value any) ([]byte, error) {
	s, ok := value.(string)
	if !ok {
		return r.appendJSON(dst, value)
	}
	if len(dst)+len(s) > MaxOutput {
		return nil, fail(tooMuchOutput)
	}
	return append(dst, s...), nil
}

// appendJSON appends a value as JSON: as it came when nothing changed it, otherwise with its members in the order in
// which an expression has them, or by name.
func (r *run) appendJSON(dst []byte, value any) ([]byte, error) {
	if err := r.take(1); err != nil {
		return nil, err
	}
	from := r.sourceOf(value)
	var err error
	switch value := value.(type) {
	case nil:
		dst = append(dst, "null"...)
	case bool:
		dst = strconv.AppendBool(dst, value)
	case int:
		dst = strconv.AppendInt(dst, int64(value), 10)
	case float64:
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return nil, fail("JSON cannot hold a number that is infinite or none")
		}
		dst = jsontext.AppendFloat(dst, value, 64)
	case number:
		dst = append(dst, value...)
	case string:
		dst, err = appendQuoted(dst, value)
	case []any:
		if from.raw == nil {
			dst, err = r.appendArray(dst, value)
		}
	case map[string]any:
		if from.raw == nil {
			dst, err = r.appendObject(dst, value, from.order)
		}
	default:
		return nil, fail("JSON cannot hold a value of this kind")
	}
	if len(dst)+len(from.raw) > MaxOutput {
		return nil, fail(tooMuchOutput)
	}
	return append(dst, from.raw...), err
}

func appendQuoted(dst []byte, s string) ([]byte, error) {
	if len(dst)+len(s) > MaxOutput {
		return nil, fail(tooMuchOutput)
	}
	dst, err := jsontext.AppendQuote(dst, s)
	if err != nil {
		return nil, fail("JSON cannot hold text that is not UTF-8")
	}
	return dst, nil
}

func (r *run) appendArray(dst []byte, array []any) (_ []byte, err error) {
	dst = append(dst, '[')
	for i, element := range array {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = r.appendJSON(dst, element); err != nil {
			return nil, err
		}
	}
	return append(dst, ']'), nil
}

func (r *run) appendObject(dst []byte, object map[string]any, order []string) (_ []byte, err error) {
	if order == nil {
		order = slices.Sorted(maps.Keys(object))
	}
	dst = append(dst, '{')
	for i, name := range order {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendQuoted(dst, name); err != nil {
			return nil, err
		}
		if dst, err = r.appendJSON(append(dst, ':'), object[name]); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}
