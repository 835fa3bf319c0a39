package strictjson

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

func TestUnmarshalRefuses(t *testing.T) {
	type document struct {
		Name  string `json:"name"`
		Count int    `json:"count"`
	}
	for name, c := range map[string]struct{ in, want string }{
		"a duplicate":           {`{"name":"a","name":"b"}`, "two members of one name"},
		"a duplicate in depth":  {`{"x":{"alg":1,"alg":2}}`, "two members of one name"},
		"an unknown member":     {`{"nome":"a"}`, `unknown member at "/nome"`},
		"another case":          {`{"NAME":"a"}`, `unknown member`},
		"the wrong type":        {`{"count":"many-secret"}`, `wrong type at "/count"`},
		"invalid UTF-8":         {"{\"name\":\"\xff\"}", "not well-formed"},
		"two documents":         {`{}{}`, "not well-formed"},
		"nothing":               {``, "not well-formed"},
		"text that is not JSON": {`hunter2`, "not well-formed"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Unmarshal([]byte(c.in), new(document))
			if name == "a duplicate in depth" {
				err = Unmarshal([]byte(c.in), new(Tree))
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error is %v, want one that contains %q", err, c.want)
			}
			if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "hunter2") {
				t.Fatalf("the error quotes the document: %v", err)
			}
		})
	}
}

func TestNumbersKeepTheirText(t *testing.T) {
	in := `{"big":9007199254740993,"deep":[1.50,{"e":1e3}],"text":"<&>"}`
	var object Tree
	testworld.Check(t, Unmarshal([]byte(in), &object))
	for name, encode := range map[string]func() ([]byte, error){
		"Marshal":     func() ([]byte, error) { return Marshal(object) },
		"AppendValue": func() ([]byte, error) { return AppendValue(nil, map[string]any(object)) },
	} {
		if out, err := encode(); err != nil || string(out) != in {
			t.Errorf("%s: got %s, %v; want %s", name, out, err, in)
		}
	}
}

// A Tree is equal to the result of decoding into a map[string]any, and the same documents are refused.
func FuzzTree(f *testing.F) {
	for _, document := range []string{
		`{}`, `{"a":null,"b":[true,false,[],{}],"c":{"d":"\u00e9"}}`, `null`, `[]`, `{"a":1,"a":2}`, `{"a":`, `{"a":[1,}`, `{"a":1e400}`, `{"a":"\ud800"}`, `{} x`,
	} {
		f.Add(document)
	}
	f.Fuzz(func(t *testing.T, document string) {
		var tree Tree
		var want map[string]any
		err, wanted := Unmarshal([]byte(document), &tree), Unmarshal([]byte(document), &want)
		if want == nil && wanted == nil {
			wanted = errors.New("null is not an object")
		}
		if (err == nil) != (wanted == nil) || err == nil && !reflect.DeepEqual(map[string]any(tree), want) {
			t.Errorf("%s is %v, %v, want %v, %v", document, tree, err, want, wanted)
		}
	})
}
