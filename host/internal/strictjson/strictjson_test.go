package strictjson

import (
	"strings"
	"testing"
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
				_, err = Object([]byte(c.in))
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
	object, err := Object([]byte(in))
	if err != nil {
		t.Fatal(err)
	}
	out, err := Marshal(object)
	if err != nil || string(out) != in {
		t.Fatalf("got %s, %v; want %s", out, err, in)
	}
}
