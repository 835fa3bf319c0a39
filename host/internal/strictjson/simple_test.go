package strictjson

import (
	"reflect"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
)

// readAll returns the tree of a simple document.
func readAll(document string) (tree Tree, ok bool) {
	tree = Tree{}
	ok = readSimple(document, func(s *Simple, name string) (ok bool) {
		tree[name], ok = s.value(0)
		return ok
	})
	return tree, ok
}

// typed has a member for each method of Simple.
type typed struct {
	Key      string     `json:"key"`
	Claims   Tree       `json:"claims"`
	Integers []string   `json:"integers"`
	Pairs    []abi.Pair `json:"pairs"`
}

// readTyped reads a document as the host reads a request.
func readTyped(document string) (r typed, ok bool) {
	ok = readSimple(document, func(s *Simple, name string) (ok bool) {
		switch name {
		case "key":
			r.Key, ok = s.Text()
		case "claims":
			r.Claims, ok = s.Object()
		case "integers":
			r.Integers, ok = s.Texts()
		case "pairs":
			r.Pairs, ok = s.Pairs()
		}
		return ok
	})
	return r, ok
}

// FuzzSimple checks that ReadSimple reads the same as Unmarshal, or leaves the document to it.
func FuzzSimple(f *testing.F) {
	for _, document := range []string{
		`{}`, `{"a":null,"b":[true,false,[],{}],"c":{"d":"é"}}`, `null`, `[]`, `{"a":"b","a":"c"}`, `{"a":`, `{"a":["b",]}`, `{,}`, `{"a":"b",}`,
		`{"a":"\ud800"}`, `{} x`, `{"a":1}`, `{ }`, "{\"a\":\"\xff\"}", "{\"a\":\"\n\"}", `{"a":truefalse}`, `{"a":nul}`, `{"a" "b"}`, `{"a"`, `{"a":"`,
		`{"key":"k","claims":{"aud":["a"],"x":{"y":null}},"integers":["exp"]}`, `{"integers":[]}`, `{"integers":["a",]}`, `{"integers":[null]}`,
		`{"integers":["a"],"integers":["b"]}`, `{"claims":{"a":"","a":""}}`, `{"claims":null,"key":null}`, `{"Key":"k"}`, `{"key":["k"]}`, `{"claims":[]}`,
		`{"pairs":[{"name":"A","value":"b"},{"name":"ü","value":""}]}`, `{"pairs":[{"name":"A","name":"B","value":"b"}]}`, `{"pairs":[],"pairs":[]}`,
	} {
		f.Add(document)
	}
	f.Fuzz(func(t *testing.T, document string) {
		if got, ok := readAll(document); ok {
			compare(t, document, got)
		}
		if got, ok := readTyped(document); ok {
			compare(t, document, got)
		}
	})
}

// compare checks what has been read of a document.
func compare[T any](t *testing.T, document string, got T) {
	var want T
	if err := Unmarshal([]byte(document), &want); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s is %v, want %v, %v", document, got, want, err)
	}
}

// The documents of the SDK are simple. All others are left to Unmarshal.
func TestSimple(t *testing.T) {
	for document, want := range map[string]bool{
		`{"key":"k","for":"header","claims":{"aud":["a","b"],"sub":"é","x":{"y":null,"z":[true,false]}},"integers":["exp"]}`: true,
		`{}`:                     true,
		`{"a":"b","a":"c"}`:      false,
		`{"a":{"b":"","b":""}}`:  false,
		`{"a":1}`:                false,
		`{"a":"\\"}`:             false,
		`{"a":"` + "\x1f" + `"}`: false,
		`{"a":"` + "\xff" + `"}`: false,
		`{"a":"b"}` + " ":        false,
		`{"a":"b"`:               false,
		`["a"]`:                  false,
		``:                       false,
		strings.Repeat(`{"a":`, 16) + `""` + strings.Repeat(`}`, 16):      true,
		strings.Repeat(`{"a":`, 17) + `""` + strings.Repeat(`}`, 17):      false,
		`{"a":` + strings.Repeat(`[`, 15) + strings.Repeat(`]`, 15) + `}`: true,
		`{"a":` + strings.Repeat(`[`, 16) + strings.Repeat(`]`, 16) + `}`: false,
	} {
		if _, ok := readAll(document); ok != want {
			t.Errorf("%s: simple is %t", document, ok)
		}
	}
}

// Pairs reads pairs as the SDK writes them, and leaves all others to Unmarshal.
func TestPairs(t *testing.T) {
	const a = `{"name":"A","value":"b"}`
	for pairs, want := range map[string]bool{
		`[]`: true, `[` + a + `]`: true, `[` + a + `,{"name":"ü","value":""}]`: true,
		``: false, `null`: false, `{}`: false, `[`: false, `[,]`: false, `[` + a + `,]`: false, `[` + a + a + `]`: false, `[` + a: false, `[{}]`: false,
		`[{"name":"A"}]`: false, `[{"value":"b","name":"A"}]`: false, `[{"name":"A","value":"b","more":1}]`: false, `[{"name":"A","value":1}]`: false,
		`[{"name":"A","value":"b\n"}]`: false, "[{\"name\":\"A\",\"value\":\"b\n\"}]": false, `[{"name":"A","value":"b}]`: false, "[{\"name\":\"\xff\",\"value\":\"\"}]": false,
	} {
		document := `{"pairs":` + pairs + `}`
		got, ok := readTyped(document)
		if ok != want {
			t.Errorf("%s: simple is %t", document, ok)
		}
		if ok {
			compare(t, document, got)
		}
	}
}
