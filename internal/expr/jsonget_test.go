package expr

import (
	"strings"
	"testing"
)

// json_get returns a text at a path of names. Its errors have nothing of the document.
func TestJSONGet(t *testing.T) {
	for _, c := range []struct{ document, names, want string }{
		{`{"a":"b"}`, "'a'", "b"},
		{` { "x" : [ { "a" : 1 } ] , "a" : "b\u00e9\n\"" , "y" : {} } `, "'a'", "bé\n\""},
		{`{"a":{"b":{"c":"d"}},"b":"e"}`, "'a', 'b', 'c'", "d"},
		{`{"":{"a b":""}}`, "'', 'a b'", ""},
		{`{"a":"b"}`, "'a' + ''", "b"},

		{`{"a":"hunter2"}`, "'b'", "column 1: json_get: there is no such member"},
		{`{"A":"hunter2"}`, "'a'", "column 1: json_get: there is no such member"},
		{`{}`, "'a'", "column 1: json_get: there is no such member"},
		{`["hunter2"]`, "'0'", "column 1: json_get: what should have the member is no object"},
		{`{"a":"hunter2"}`, "'a', 'b'", "column 1: json_get: what should have the member is no object"},
		{`{"a":4711}`, "'a'", "column 1: json_get: the member is no text"},
		{`{"a":null}`, "'a'", "column 1: json_get: the member is no text"},
		{`{"a":{"hunter2":1}}`, "'a'", "column 1: json_get: the member is no text"},
		{``, "'a'", "column 1: not well-formed JSON"},
		{`hunter2`, "'a'", "column 1: not well-formed JSON at byte 0"},
		{`{"a":"hunter2`, "'a'", "column 1: not well-formed JSON at byte "},
		{`{"a":"hunter2","b":}`, "'a'", "column 1: not well-formed JSON at byte "},
		{`{"b":[hunter2],"a":"b"}`, "'a'", "column 1: not well-formed JSON at byte "},
		{`{"a":"hunter2"} {}`, "'a'", "column 1: not well-formed JSON: there is more behind its end"},
		{`{"a":"b","a":"hunter2"}`, "'a'", "column 1: JSON with two members of one name at byte "},
		{`{"b":{"c":1,"c":2},"a":"hunter2"}`, "'a'", "column 1: JSON with two members of one name at byte "},
		{"{\"a\":\"\xff\"}", "'a'", "column 1: not well-formed JSON at byte "},
	} {
		source := "json_get(`" + c.document + "`, " + c.names + ")"
		_, value, err := evaluate(t.Context(), t, 0, source, "null")
		switch {
		case err == nil && value != c.want:
			t.Errorf("%s is %q, want %q", source, value, c.want)
		case err != nil && (!strings.HasPrefix(err.Error(), c.want) || !strings.HasPrefix(c.want, "column ") || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s fails: %v, want %q", source, err, c.want)
		}
	}
}

// The document and the names are texts, and there is at least one name.
func TestJSONGetOfOtherThanTexts(t *testing.T) {
	for source, want := range map[string]string{
		"json_get(1, 'a')":         "column 10: json_get takes texts",
		"json_get('{}', 1)":        "column 16: json_get takes texts",
		"json_get('{}', 'a', nil)": "column 21: json_get takes texts",
		"json_get('{}')":           "column 1: json_get takes a text with JSON, and the names of members",
	} {
		_, problems := compileWhole(source, (&lookups{}).language())
		if len(problems) != 1 || problems[0].Error() != want {
			t.Errorf("%s: %v, want %s", source, problems, want)
		}
	}
	for _, source := range []string{"json_get(response.body, 'a')", "json_get('{}', response.body)"} {
		_, _, err := evaluate(t.Context(), t, 0, source, "[]")
		if err == nil || err.Error() != "column 1: a text is wanted" {
			t.Errorf("%s: err = %v", source, err)
		}
	}
}
