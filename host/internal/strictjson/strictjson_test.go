package strictjson

import (
	stdjson "encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

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

// Each character of a text is escaped as JSON wants it, and no other one is.
func TestTextsOfEachCharacter(t *testing.T) {
	for c := range rune(0x180) {
		for _, text := range []string{string(c), "a" + string(c) + "b"} {
			want := testworld.Must(jsontext.AppendQuote(nil, text))(t)
			if got, err := AppendString(nil, text); err != nil || string(got) != string(want) {
				t.Errorf("%q is %s, %v", text, got, err)
			}
		}
	}
	for _, text := range []string{"\x80", "a\xff", "\xc3"} {
		if got, err := AppendString(nil, text); err == nil {
			t.Errorf("%q, which is not UTF-8, is %s", text, got)
		}
	}
}

// A number is written as it is if it is one of JSON, and refused otherwise: its text could add anything to the document.
func TestNumbersOfEachCharacter(t *testing.T) {
	all := []string{"", "0", "00", "01", "10", "-", "-0", "-01", "1e5", "-1.5e3", "1.5", "1.", "9", "90", "1 2", `"1"`, "{}", "true", "NaN"}
	for c := rune('!'); c < 0x80; c++ { // JSON allows white space around a number
		all = append(all, string(c), "1"+string(c)+"1", string(c)+"1")
	}
	for _, text := range all {
		valid := stdjson.Valid([]byte(text)) && strings.IndexByte("-0123456789", text[0]) >= 0
		got, err := AppendValue(nil, stdjson.Number(text))
		if valid != (err == nil) || valid && string(got) != text {
			t.Errorf("the number %q is %s, %v", text, got, err)
		}
	}
}

// The error for a value of the wrong type has its place, shortened if it is long, and the wanted type.
func TestAValueOfTheWrongType(t *testing.T) {
	for _, tt := range []struct{ document, want string }{
		{`{"list": ["x"]}`, `has a value of the wrong type at "/list/0", a int is wanted`},
		{`{"` + strings.Repeat("n", 99) + `": "x"}`, `at "/` + strings.Repeat("n", 99) + `", a int`},
		{`{"` + strings.Repeat("n", 100) + `": "x"}`, `at "/` + strings.Repeat("n", 99) + `…", a int`},
	} {
		var v map[string]int
		var lists map[string][]int
		err := Unmarshal([]byte(tt.document), &v)
		if strings.Contains(tt.document, "list") {
			err = Unmarshal([]byte(tt.document), &lists)
		}
		testworld.WantError(t, tt.document, err, tt.want)
	}
}
