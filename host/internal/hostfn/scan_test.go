package hostfn

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/strictjson"
)

var mutations = []string{
	`{}`, `{"headers":[]}`, `{"headers":[{"name":"A","value":"b"}]}`, `{"headers":[{"name":"A","value":"b"},{"name":"C","value":""}],"query":[{"name":"ü","value":"x y"}]}`,
	`{"query":[{"name":"a","value":"1"}]}`, `{"query":[{"name":"a","value":"1"}],"headers":[]}`, ` {}`, `{} `, `{ }`, `{"headers":null}`, ``, `{`, `}`, `[]`, `null`,
	`{"headers":[{"name":"A","value":"b"}]`, `{"headers":[{"name":"A","value":"b"},]}`, `{"headers":[,{"name":"A","value":"b"}]}`, `{"headers":[{"name":"A"}]}`,
	`{"headers":[{"value":"b","name":"A"}]}`, `{"headers":[{"name":"A","value":"b","more":1}]}`, `{"headers":[{"name":"A","value":"b\\n"}]}`, `{"headers":[{"name":"A","value":"\u00e9"}]}`,
	`{"headers":[{"name":"A","value":1}]}`, "{\"headers\":[{\"name\":\"A\",\"value\":\"b\n\"}]}", `{"headers":[],"headers":[]}`, `{"headers":[],}`, `{,}`, `{"Headers":[]}`,
	`{"headers":[{"name":"A","value":"b"}]}{}`, `{"headers":[{"name":"A","value":"b}]}`, `{"query":[],"query":[]}`, `{"headers":[{"name":"A","name":"B","value":"b"}]}`,
}

// Strict decoding accepts every document that the scanner accepts, with the same result.
func FuzzScanMutation(f *testing.F) {
	for _, document := range mutations {
		f.Add(document)
	}
	f.Fuzz(func(t *testing.T, document string) {
		got, simple := scanMutation([]byte(document))
		if !simple {
			return
		}
		var want abi.Mutation
		if err := strictjson.Unmarshal([]byte(document), &want); err != nil {
			t.Fatalf("%s is taken, and strict decoding says that it %v", document, err)
		}
		if len(got.Headers)+len(got.Query) != len(want.Headers)+len(want.Query) ||
			len(want.Headers) > 0 && !reflect.DeepEqual(got.Headers, want.Headers) || len(want.Query) > 0 && !reflect.DeepEqual(got.Query, want.Query) {
			t.Errorf("%s is %+v, want %+v", document, got, want)
		}
	})
}

func TestScanMutation(t *testing.T) {
	simple := 0
	for _, document := range mutations {
		got, ok := scanMutation([]byte(document))
		var want abi.Mutation
		err := strictjson.Unmarshal([]byte(document), &want)
		if ok && (err != nil || len(got.Headers) != len(want.Headers) || len(got.Query) != len(want.Query)) {
			t.Errorf("%s is taken as %+v, strict decoding gives %+v, %v", document, got, want, err)
		}
		if ok {
			simple++
		}
	}
	if simple != 5 {
		t.Errorf("%d of the documents are simple, want the first five", simple)
	}
}

// The scanner accepts a composition in the form in which the SDK writes it, each list or none, with the result of strict decoding.
func TestScanComposition(t *testing.T) {
	const a, b = `[{"name":"A","value":"b"}]`, `[{"name":"C","value":"d"},{"name":"E","value":""}]`
	for document, simple := range map[string]bool{
		`{}`: true, `{"headers":` + a + `}`: true, `{"query":` + a + `}`: true, `{"values":` + b + `}`: true, `{"headers":` + a + `,"values":` + b + `}`: true,
		`{"headers":` + a + `,"query":` + b + `,"values":` + a + `}`: true, `{"headers":[]}`: true,
		``: false, `{`: false, `}`: false, `{,}`: false, `{"headers":` + a: false, `{"headers":` + a + `}}`: false, `{"headers":` + a + `} `: false, `{}{}`: false,
		`{"headers":` + a + `,}`: false, `{"query":` + a + `,"headers":` + a + `}`: false, "{\"headers\":[{\"name\":\"\xff\",\"value\":\"\"}]}": false,
	} {
		got, ok := scanComposition([]byte(document))
		if ok != simple {
			t.Errorf("%s: simple is %t", document, ok)
		}
		if !ok {
			continue
		}
		var want abi.Composition
		if err := strictjson.Unmarshal([]byte(document), &want); err != nil {
			t.Fatalf("%s is taken, and strict decoding says that it %v", document, err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: (-strict +scanned)\n%s", document, diff)
		}
	}
}
