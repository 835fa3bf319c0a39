// Package strictjson decodes JSON of sources that the host does not trust: plugins, token endpoints and authors of
// configurations. Duplicate names and invalid UTF-8 are errors, names are case-sensitive, and numbers keep their text.
// (encoding/json silently uses the last of two members with one name, and "ALG" for "alg". Attacks have used both.)
package strictjson

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// keepNumbers decodes a number into any as [stdjson.Number]. A float64 would change 9007199254740993.
var keepNumbers = json.WithUnmarshalers(json.UnmarshalFromFunc(func(d *jsontext.Decoder, v *any) error {
	if d.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	number, err := d.ReadValue()
	if err != nil {
		return err
	}
	*v = stdjson.Number(string(number))
	return nil
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

// Tree is a JSON object as map[string]any, []any, string, bool, nil and [stdjson.Number]. As a field of a struct it is
// decoded faster than a field of type any.
type Tree map[string]any

// UnmarshalJSONFrom implements [json.UnmarshalerFrom].
func (t *Tree) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '{' {
		return errors.New("is not a JSON object")
	}
	object, err := readObject(d)
	*t = object
	return err
}

func readObject(d *jsontext.Decoder) (map[string]any, error) {
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	object := map[string]any{}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String() // the next read invalidates the token
		if object[key], err = readValue(d); err != nil {
			return nil, err
		}
	}
	_, err := d.ReadToken()
	return object, err
}

func readArray(d *jsontext.Decoder) ([]any, error) {
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	array := []any{}
	for d.PeekKind() != ']' {
		value, err := readValue(d)
		if err != nil {
			return nil, err
		}
		array = append(array, value)
	}
	_, err := d.ReadToken()
	return array, err
}

func readValue(d *jsontext.Decoder) (any, error) {
	switch d.PeekKind() {
	case '{':
		return readObject(d)
	case '[':
		return readArray(d)
	case '0':
		number, err := d.ReadValue()
		return stdjson.Number(string(number)), err
	}
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '"':
		return token.String(), nil
	case 't', 'f':
		return token.Bool(), nil
	}
	return nil, nil
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

// MapStrings replaces each string value in a tree of map[string]any and []any by the result of f, in place, and calls
// name with the name of each member. It returns the tree, or the first error of f or name.
func MapStrings(v any, f func(string) (string, error), name func(string) error) (_ any, err error) {
	switch v := v.(type) {
	case string:
		return f(v)
	case []any:
		for i, element := range v {
			mapped, changed, err := mapElement(element, f, name)
			if err != nil {
				return nil, err
			}
			if changed {
				v[i] = mapped
			}
		}
	case map[string]any:
		for key, member := range v {
			if err := name(key); err != nil {
				return nil, err
			}
			mapped, changed, err := mapElement(member, f, name)
			if err != nil {
				return nil, err
			}
			if changed {
				v[key] = mapped
			}
		}
	}
	return v, nil
}

// mapElement applies MapStrings to an element of an object or a list. changed is false if f left a string as it is: to
// store each string again would take as long as all the rest.
func mapElement(v any, f func(string) (string, error), name func(string) error) (mapped string, changed bool, err error) {
	text, ok := v.(string)
	if !ok {
		_, err := MapStrings(v, f, name)
		return "", false, err
	}
	mapped, err = f(text)
	return mapped, mapped != text, err
}

// clean reduces an error of the decoder to its kind and its place, because its text quotes the document.
func clean(err error) error {
	if err == nil {
		return nil
	}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		what := "is not well-formed JSON"
		if errors.Is(err, jsontext.ErrDuplicateName) {
			what = "has two members of one name"
		}
		return fmt.Errorf("%s at byte %d", what, syntactic.ByteOffset)
	}
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
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
