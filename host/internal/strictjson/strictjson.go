// Package strictjson decodes JSON of sources that the host does not trust: plugins, token endpoints and authors of
// configurations. Duplicate names and invalid UTF-8 are errors, names are case-sensitive, and numbers keep their text.
// (encoding/json silently uses the last of two members with one name, and "ALG" for "alg". Attacks have used both.)
package strictjson

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/abi"
)

// keepNumbers decodes a number into any as [stdjson.Number]. A float64 would change 9007199254740993.
var keepNumbers = json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, v *any) error {
	if d.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	number, err := d.ReadToken()
	*v = stdjson.Number(number.String())
	return err
}))

// Unmarshal decodes one document into v. It returns an error if the document has members that v does not have. Errors
// describe what is wrong and where; they never quote a value of the document.
func Unmarshal(document []byte, v any) error {
	return clean(json.Unmarshal(document, v, keepNumbers, json.RejectUnknownMembers(true)))
}

// UnmarshalOpen is like Unmarshal but ignores unknown members. It is for answers of token endpoints.
func UnmarshalOpen(document []byte, v any) error {
	return clean(json.Unmarshal(document, v, keepNumbers))
}

// Decode is like Unmarshal. It reads a simple document in a fraction of the time, with member, which sets the members of v: see [Simple].
func Decode[T any](document []byte, v *T, member func(s *Simple, name string) (ok bool)) error {
	if readSimple(string(document), member) {
		return nil
	}
	*v = *new(T)
	return Unmarshal(document, v)
}

// Tree is a JSON object as map[string]any, []any, string, bool, nil and [stdjson.Number].
type Tree map[string]any

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (t *Tree) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '{' {
		return errors.New("is not a JSON object")
	}
	return json.UnmarshalDecode(d, (*map[string]any)(t))
}

// Marshal returns the JSON of v. The names of maps are sorted, and characters of HTML are not escaped.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := stdjson.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Member is a member of an object whose members have an order.
type Member struct {
	Name  string
	Value any
}

// AppendMembers appends the members and the closing brace to a JSON object that dst ends with. Errors are as in AppendValue.
func AppendMembers(dst []byte, members map[string]any) (_ []byte, err error) {
	return appendMembers(dst, members, nil)
}

func appendMembers(dst []byte, members map[string]any, leaf appender) (_ []byte, err error) {
	var few [16]string
	names := slices.AppendSeq(few[:0], maps.Keys(members))
	slices.Sort(names)
	for _, name := range names {
		if dst, err = appendMember(dst, name, members[name], leaf); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendMember(dst []byte, name string, value any, leaf appender) (_ []byte, err error) {
	if dst[len(dst)-1] != '{' {
		dst = append(dst, ',')
	}
	if dst, err = AppendString(dst, name); err != nil {
		return nil, err
	}
	return AppendTree(append(dst, ':'), value, leaf)
}

// appender appends the JSON of a value of a type of its own.
type appender = func(dst []byte, value any) ([]byte, error)

// AppendValue appends the JSON of a value, which consists of string, bool, nil, [stdjson.Number], []any and
// map[string]any. Members are sorted by name, so equal values have equal texts. Characters of HTML are not escaped.
// AppendValue returns an error for a string that is not UTF-8, a number that is not one of JSON, or any other type.
func AppendValue(dst []byte, value any) ([]byte, error) { return AppendTree(dst, value, nil) }

// AppendTree is like AppendValue, and also takes []Member, whose members have their order. If leaf is not nil, it appends values of
// any other type.
func AppendTree(dst []byte, value any, leaf func(dst []byte, value any) ([]byte, error)) (_ []byte, err error) {
	switch value := value.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, value), nil
	case string:
		return AppendString(dst, value)
	case stdjson.Number:
		// Most are integers without a sign.
		if text := string(value); text == "" || strings.Trim(text, "0123456789") != "" || text[0] == '0' && len(text) > 1 {
			if number := jsontext.Value(value); number.Kind() != '0' || !number.IsValid() {
				return nil, errors.New("a number is not JSON")
			}
		}
		return append(dst, value...), nil
	case []any:
		dst = append(dst, '[')
		for i, element := range value {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = AppendTree(dst, element, leaf); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case map[string]any:
		return appendMembers(append(dst, '{'), value, leaf)
	case []Member:
		dst = append(dst, '{')
		for _, m := range value {
			if dst, err = appendMember(dst, m.Name, m.Value, leaf); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
	if leaf != nil {
		return leaf(dst, value)
	}
	return nil, fmt.Errorf("a value has the type %T, which JSON does not have", value)
}

// AppendString appends a JSON string. A text that is not UTF-8 is an error, which does not quote it.
func AppendString(dst []byte, text string) ([]byte, error) {
	dst, err := jsontext.AppendQuote(dst, text)
	if err != nil {
		return nil, errors.New("a string is not UTF-8") // jsontext's error may quote the string
	}
	return dst, nil
}

// MapStrings replaces each string value in a tree of map[string]any and []any by the result of f, in place, and calls
// name with the name of each member. It returns the tree, or the first error of f.
func MapStrings(tree any, f func(string) (string, error), name func(string)) (_ any, err error) {
	switch v := tree.(type) {
	case string:
		if mapped, err := f(v); err != nil || mapped != v {
			return mapped, err
		}
	case []any:
		for i := range v {
			if v[i], err = MapStrings(v[i], f, name); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for key := range v {
			name(key)
			if v[key], err = MapStrings(v[key], f, name); err != nil {
				return nil, err
			}
		}
	}
	return tree, nil // without a new interface for a string that f left as it is
}

// clean reduces an error of the decoder to its kind and its place, because its text quotes the document.
func clean(err error) error {
	if err == nil {
		return nil
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		what := "is not well-formed JSON"
		if errors.Is(err, jsontext.ErrDuplicateName) {
			what = "has two members of one name"
		}
		return fmt.Errorf("%s at byte %d", what, syntactic.ByteOffset)
	}
	if semantic, ok := errors.AsType[*json.SemanticError](err); ok {
		if errors.Is(err, json.ErrUnknownName) {
			return fmt.Errorf("has an unknown member at %s", pointer(semantic.JSONPointer))
		}
		want := ""
		if semantic.GoType != nil {
			want = ", a " + semantic.GoType.Kind().String() + " is wanted"
		}
		return fmt.Errorf("has a value of the wrong type at %s%s", pointer(semantic.JSONPointer), want)
	}
	return errors.New("is not well-formed JSON")
}

// pointer returns p in quotes, at most 100 bytes of it: names in a document are not secret but may be long.
func pointer(p jsontext.Pointer) string {
	text := strings.ToValidUTF8(string(p), "�")
	if len(text) > 100 {
		text = text[:100] + "…"
	}
	return fmt.Sprintf("%q", text)
}

// Simple reads a JSON document in a fraction of the time of [Unmarshal]. The document must be simple: UTF-8 without white
// space, escapes, control characters and numbers, without duplicate names, and nested at most maxSimple deep. The SDK writes
// such documents. For any other document, valid or not, the methods return false, and [Decode] uses Unmarshal. The texts that
// they return share the memory of the document.
type Simple struct {
	rest string
}

// readSimple reads a document that is one object. It calls member with the name of each member, and member must read the value
// with one of the methods of s.
func readSimple(document string, member func(s *Simple, name string) (ok bool)) (ok bool) {
	s := &Simple{document}
	var few [8]string
	names := few[:0]
	ok = s.list('{', '}', func() bool {
		name, ok := s.name()
		if !ok || slices.Contains(names, name) {
			return false
		}
		names = append(names, name)
		return member(s, name)
	})
	return ok && s.rest == "" && utf8.ValidString(document)
}

// maxSimple limits how deep the objects and arrays of a simple document are nested.
const maxSimple = 16

// Object reads an object that is the value of a member.
func (s *Simple) Object() (object Tree, ok bool) { return s.object(1) }

// Texts reads an array of strings.
func (s *Simple) Texts() (texts []string, ok bool) {
	texts = make([]string, 0, 4)
	ok = s.list('[', ']', func() bool {
		text, ok := s.Text()
		texts = append(texts, text)
		return ok
	})
	return texts, ok
}

// Pairs reads an array of objects with a name and a value, in this order.
func (s *Simple) Pairs() (pairs []abi.Pair, ok bool) {
	pairs = []abi.Pair{}
	ok = s.list('[', ']', func() (ok bool) {
		var pair abi.Pair
		if s.hasWord(`{"name":`) {
			pair.Name, ok = s.Text()
		}
		if !ok || !s.hasWord(`,"value":`) {
			return false
		}
		pair.Value, ok = s.Text()
		pairs = append(pairs, pair)
		return ok && s.hasByte('}')
	})
	return pairs, ok
}

// list reads what is between two brackets: elements, which element reads, separated by commas.
func (s *Simple) list(opening, closing byte, element func() (ok bool)) (ok bool) {
	if !s.hasByte(opening) {
		return false
	}
	for first := true; !s.hasByte(closing); first = false {
		if !first && !s.hasByte(',') || !element() {
			return false
		}
	}
	return true
}

// name reads the name of a member, and the colon behind it.
func (s *Simple) name() (name string, ok bool) {
	name, ok = s.Text()
	return name, ok && s.hasByte(':')
}

func (s *Simple) object(depth int) (object map[string]any, ok bool) {
	if depth == maxSimple {
		return nil, false
	}
	object = map[string]any{}
	ok = s.list('{', '}', func() bool {
		name, ok := s.name()
		if _, twice := object[name]; !ok || twice {
			return false
		}
		object[name], ok = s.value(depth)
		return ok
	})
	return object, ok
}

func (s *Simple) value(depth int) (value any, ok bool) {
	switch {
	case strings.HasPrefix(s.rest, `"`):
		return s.Text()
	case strings.HasPrefix(s.rest, "{"):
		return s.object(depth + 1)
	case strings.HasPrefix(s.rest, "["):
		array := []any{}
		ok = depth+1 < maxSimple && s.list('[', ']', func() bool {
			element, ok := s.value(depth + 1)
			array = append(array, element)
			return ok
		})
		return array, ok
	case s.hasWord("true"):
		return true, true
	case s.hasWord("false"):
		return false, true
	}
	return nil, s.hasWord("null")
}

// Text reads a string without escapes.
func (s *Simple) Text() (text string, ok bool) {
	if !s.hasByte('"') {
		return "", false
	}
	for i := range len(s.rest) {
		switch c := s.rest[i]; {
		case c == '"':
			text, s.rest = s.rest[:i], s.rest[i+1:]
			return text, true
		case c == '\\' || c < ' ':
			return "", false
		}
	}
	return "", false
}

func (s *Simple) hasByte(mark byte) bool {
	found := s.rest != "" && s.rest[0] == mark
	if found {
		s.rest = s.rest[1:]
	}
	return found
}

func (s *Simple) hasWord(word string) (found bool) {
	s.rest, found = strings.CutPrefix(s.rest, word)
	return found
}
