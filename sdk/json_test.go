package sdk

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// encoding/json decodes the output of Members to the same names and values.
func TestMembersWriteJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.String().Draw(t, "name")
		value := rapid.String().Draw(t, "value")
		number := rapid.Int64().Draw(t, "number")
		var m Members
		m.String("a"+name, value)
		m.Integer("b"+name, number)
		m.Raw("c"+name, `[1,"x"]`)
		var got map[string]any
		if err := json.Unmarshal([]byte(m.JSON()), &got); err != nil {
			t.Fatalf("%s: err = %v", m.JSON(), err)
		}
		if got["a"+name] != value || got["b"+name] != float64(number) || len(got["c"+name].([]any)) != 2 {
			t.Fatalf("%s reads as %v", m.JSON(), got)
		}
	})
}

// EachMember decodes the output of encoding/json to the same names and values.
func TestEachMemberReadsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.MapOf(rapid.String(), rapid.OneOf(
			rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Map(rapid.Int32(), func(n int32) any { return float64(n) }),
			rapid.Map(rapid.SliceOf(rapid.String()), func(list []string) any {
				all := make([]any, len(list))
				for i, s := range list {
					all[i] = s
				}
				return all
			}),
			rapid.Map(rapid.MapOf(rapid.String(), rapid.String()), func(m map[string]string) any {
				all := map[string]any{}
				for k, v := range m {
					all[k] = v
				}
				return all
			}),
			rapid.Just[any](nil), rapid.Just[any](true),
		)).Draw(t, "object")
		document, err := json.Marshal(want)
		if rapid.Bool().Draw(t, "indented") {
			document, err = json.MarshalIndent(want, " ", "\t")
		}
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]any{}
		err = EachMember(string(document), func(name, value string) error {
			var v any
			if err := json.Unmarshal([]byte(value), &v); err != nil {
				return err
			}
			if s, ok := v.(string); ok && text(value) != s {
				t.Fatalf("%s reads as %q, want %q", value, text(value), s)
			}
			got[name] = v
			return nil
		})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s reads as %v, %v", document, got, err)
		}
	})
}

// Parameters keeps the order of an object, repeats the name of a list, and refuses what has no form as a parameter.
func TestParameters(t *testing.T) {
	for object, want := range map[string][]Pair{
		"": nil, "{}": nil, `{"a":[]}`: nil,
		`{"b":"x\ny","a":"","c":[ 1 , "2", true],"b":-1.50}`: {{"b", "x\ny"}, {"a", ""}, {"c", "1"}, {"c", "2"}, {"c", "true"}, {"b", "-1.50"}},
	} {
		if got, err := Parameters(object); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got = %q, err = %v", object, got, err)
		}
	}
	for _, object := range []string{`{"a":null}`, `{"a":{}}`, `{"a":[[]]}`, `{"a":["x",{"b":1}]}`, `[]`, `{"a":["x"`} {
		if got, err := Parameters(object); err == nil {
			t.Errorf("%s: %q without an error", object, got)
		}
	}
}

// EachMember returns, without a panic, for any document.
func FuzzEachMember(f *testing.F) {
	for _, seed := range []string{``, `{`, `{"a`, `{"a":`, `{"a":1`, `{"a":[{"b":"\ud800"}]}`, `{"a":"\u12"}`, `[]`, `{"a" 1}`, `{"a":1]`} {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, document string) {
		_, _ = Parameters(document)
		_ = EachMember(document, func(_, value string) error {
			_ = text(value)
			return eachValue(value, '[', ']', func(_, element string) error {
				_ = text(element)
				return nil
			})
		})
	})
}

func TestInteger(t *testing.T) {
	for in, want := range map[string]int64{"": 0, "0": 0, "3600": 3600, "-7": -7, "9223372036854775807": 9223372036854775807} {
		if got := integer(in); got != want {
			t.Errorf("integer(%q) = %d, want %d", in, got, want)
		}
	}
}

func TestPairs(t *testing.T) {
	got, err := Pairs(`{ "b c" : "x\"\u00e9" , "a":1.50,"":true , "d":"" }`)
	if want := []Pair{{"b c", `x"é`}, {"a", "1.50"}, {"", "true"}, {"d", ""}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	for object, want := range map[string]string{
		`{"a":"b","c":[1]}`: "c is no text, number or boolean",
		`{"a":{}}`:          "a is no text, number or boolean",
		`{"a":null}`:        "a is no text, number or boolean",
		`[]`:                "the document is not a JSON object",
	} {
		if _, err := Pairs(object); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", object, err, want)
		}
	}
	for _, object := range []string{"", "{}"} {
		if got, err := Pairs(object); len(got) != 0 || err != nil {
			t.Errorf("%q: got = %v, err = %v", object, got, err)
		}
	}
	if got := Strings([]string{"a", `b"`}); got != `["a","b\""]` {
		t.Errorf("Strings returns %s", got)
	}
}
