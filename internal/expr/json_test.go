package expr

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestDecode(t *testing.T) {
	for document, want := range map[string]string{
		`null`: "nil", `true`: "true", `false`: "false", `"a\u00e9\n"`: "'aé\n'", `[]`: "[]", `{}`: "{}",
		` [ 1 , [ ] , { "a" : null } ] `: "[1, [], {a: nil}]",
		`{"b":{"c":[1,"x"]},"a":true}`:   "{a: true, b: {c: [1, 'x']}}",
		`{"":1}`:                         "{: 1}",

		``:                "column 1: not well-formed JSON",
		`{`:               "column 1: not well-formed JSON at byte 1",
		`[1,]`:            "column 1: not well-formed JSON at byte 2",
		`{"a":1,}`:        "column 1: not well-formed JSON at byte 6",
		`{"a" 1}`:         "column 1: not well-formed JSON at byte 5",
		`{"a":tru}`:       "column 1: not well-formed JSON at byte 8",
		`[01]`:            "column 1: not well-formed JSON at byte 2",
		`hunter2`:         "column 1: not well-formed JSON at byte 0",
		`"hunter2`:        "column 1: not well-formed JSON",
		"\"\xff\"":        "column 1: not well-formed JSON at byte 1",
		`"\ud800"`:        "column 1: not well-formed JSON at byte 1",
		`{"a":1,"a":2}`:   "column 1: JSON with two members of one name at byte 7",
		`[{"a":{},"a":"`:  "column 1: JSON with two members of one name at byte 9",
		`{} hunter2`:      "column 1: not well-formed JSON: there is more behind its end",
		`1 2`:             "column 1: not well-formed JSON: there is more behind its end",
		`{"hunter2":1} }`: "column 1: not well-formed JSON: there is more behind its end",
	} {
		if got := inBody(t, "body", document); !holds(got, want) || strings.HasPrefix(want, "column") && strings.Contains(got, "hunter2") {
			t.Errorf("%s is %s, want %s", document, got, want)
		}
	}
}

// A number is an integer if it is written as one and has 64 bits. Otherwise it is a decimal, or only a text.
func TestNumbersOfJSON(t *testing.T) {
	for number, want := range map[string]string{
		"0": "0", "7": "7", "-7": "-7", "9007199254740993": "9007199254740993", "9223372036854775807": "9223372036854775807",
		"-9223372036854775808": "-9223372036854775808", "1.5": "1.5", "-0.25": "-0.25", "1e+21": "1e+21", "1.0": "1.0", "100e-2": "1.0", "1E2": "100.0", "-0": "-0.0",
		"9223372036854775808": "Number 9223372036854775808", "-9223372036854775809": "Number -9223372036854775809", "1e400": "Number 1e400", "-1e400": "Number -1e400",
	} {
		if got := inBody(t, "let n = body; n", number); got != want {
			t.Errorf("%s is %s, want %s", number, got, want)
		}
		// Inside of objects and lists it keeps its text.
		for source, body := range map[string]string{"[body.n]": `{"m":0.50,"n":` + number + `}`, "[body[1]]": "[0.50," + number + "]"} {
			if got := encoded(t, source, body); got != "["+number+"]" {
				t.Errorf("%s in %s becomes %s", source, body, got)
			}
		}
	}
}

// encoded returns the value of an expression over a body as JSON, or the text itself if it is one.
func encoded(t *testing.T, source, body string) string {
	t.Helper()
	r, value, err := evaluate(t.Context(), t, 0, source, body)
	if err != nil {
		return err.Error()
	}
	text, err := r.AppendText([]byte{}, value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Values of the body are written as they came. Those that an expression makes have their members in its order.
func TestEncode(t *testing.T) {
	const body = `{"z":1, "a":{ "y":1.10, "x":[1e400 , 2] },"s":"a\u0041","l":[ {"b":1.0} ,2]}`
	for source, want := range map[string]string{
		"body":                       body,
		"body.a":                     `{ "y":1.10, "x":[1e400 , 2] }`,
		"body.l":                     `[ {"b":1.0} ,2]`,
		"body.l[:]":                  `[ {"b":1.0} ,2]`,
		"body.l[:1]":                 `[{"b":1.0}]`,
		"body.s":                     "aA",
		"[body.s]":                   `["aA"]`,
		"{b: body.a.x, a: body.z}":   `{"b":[1e400 , 2],"a":1}`,
		"[nil, true, false, 1, 2.5]": "[null,true,false,1,2.5]",
		"[]":                         "[]",
		"{}":                         "{}",
		"[[], {}, [[]]]":             "[[],{},[[]]]",
		"{'a\"': 1, b: 2, c: 3}":     `{"a\"":1,"b":2,"c":3}`,
		"'a\"b'":                     `a"b`,
		"nil":                        "null",
		"1e21":                       "1e+21",
		"0.1 + 0.2":                  "0.30000000000000004",
		"-0.0":                       "0",
		"['<é>\\n']":                 `["<é>\n"]`,
		"map(body.l, #)":             `[{"b":1.0},2]`,

		"[1 / 0]":                    "JSON cannot hold a number that is infinite or none",
		"[0 / 0]":                    "JSON cannot hold a number that is infinite or none",
		"[base64_decode('/w==')]":    "JSON cannot hold text that is not UTF-8",
		"{a: base64_decode('/w==')}": "JSON cannot hold text that is not UTF-8",
		"json_encode([1, 1 / 0])":    "column 1: JSON cannot hold a number that is infinite or none",
		"{`\xff`: 1}":                "JSON cannot hold text that is not UTF-8",
	} {
		if got := encoded(t, source, body); !strings.HasSuffix(got, want) {
			t.Errorf("%s is written as %s, want %s", source, got, want)
		}
	}
}

// Object literals have texts as names, each once. In templates, names that are no UTF-8 are refused at once.
func TestObjectLiterals(t *testing.T) {
	for _, l := range []*Language{ofTemplates, new(lookups).language()} {
		table{
			{"{'a': 1, b: 2, a: 3}", "column 16: the object has this name twice"},
			{"{(tenant_id): 1}", "column 3: the names in an object must be literal texts"},
			{"{a: {b: 1, b: 2}}", "column 12: the object has this name twice"},
		}.refused(t, l)
	}
	table{{"{`\xff`: 1}", "column 2: JSON cannot hold text that is not UTF-8"}}.refused(t, ofTemplates)
}

// decode decodes a document within limits.
func decode(t *testing.T, document string, l Limits) string {
	t.Helper()
	l.Steps = 1 << 20
	r := NewBodyRun(t.Context(), nil, &l)
	return outcome(r.Decode([]byte(document)))
}

// An object or a list counts as four values, and a number that keeps its text as five (threats.md 49).
func TestValueBound(t *testing.T) {
	for document, size := range map[string]int{
		"1": 1, `"a"`: 1, "null": 1, "[]": 4, "{}": 4, "1.10": 5, "1e400": 1, "1.5": 1,
		"[1,2]": 6, "[[],{}]": 12, `{"a":1,"b":"x"}`: 6, `{"a":1.10}`: 9, "[1.10,2.50]": 14,
	} {
		if got := decode(t, document, Limits{Values: size, Depth: 9}); strings.Contains(got, "JSON") {
			t.Errorf("%s within %d values: %s", document, size, got)
		}
		// The last number is counted when its text has been kept.
		if got, want := decode(t, "["+document+",1]", Limits{Values: size + 4, Depth: 9}), fmt.Sprintf("JSON with more than %d values", size+4); got != want {
			t.Errorf("%s and 1 within %d values: %s, want %s", document, size+4, got, want)
		}
	}
}

func TestDepthBound(t *testing.T) {
	for _, c := range []struct {
		document string
		depth    int
	}{{"1", 0}, {"[]", 1}, {"{}", 1}, {"[1,[2],{}]", 2}, {`{"a":[{"b":{}}],"c":1}`, 4}} {
		if got := decode(t, c.document, Limits{Values: 99, Depth: c.depth}); strings.Contains(got, "JSON") {
			t.Errorf("%s within %d: %s", c.document, c.depth, got)
		}
		if want := fmt.Sprintf("JSON that is nested more than %d deep", c.depth-1); c.depth > 0 && decode(t, c.document, Limits{Values: 99, Depth: c.depth - 1}) != want {
			t.Errorf("%s within %d is not refused", c.document, c.depth-1)
		}
	}
}

// A sequence of values is decoded one by one, and the limits apply to each of them.
func TestDecodeNext(t *testing.T) {
	const document = `[[1,2], [3,4] ,{"a":1.10},[5,6,7]]`
	r := NewBodyRun(t.Context(), nil, &Limits{Values: 9, Depth: 1, Steps: 1 << 20, JSON: 99})
	d := jsontext.NewDecoder(strings.NewReader(document))
	if err := SkipToken(d); err != nil { // an *Error, which is no nil error
		t.Fatalf("SkipToken: %v", err)
	}
	for _, want := range []string{"[1,2]", "[3,4]", `{"a":1.10}`} {
		value, err := r.DecodeNext(d, []byte(document))
		if got, _ := r.AppendText(nil, value); err != nil || string(got) != want {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	r.limits.Values = 6
	if _, err := r.DecodeNext(d, []byte(document)); err == nil || err.Error() != "JSON with more than 6 values" {
		t.Errorf("a value beyond the limit: %v", err)
	}

	d = jsontext.NewDecoder(strings.NewReader(`]`))
	if err := SkipToken(d); err == nil || err.Error() != "not well-formed JSON at byte 0" {
		t.Errorf("SkipToken: %v", err)
	}
	d = jsontext.NewDecoder(strings.NewReader(" "))
	if err := AtEnd(d); err != nil {
		t.Errorf("AtEnd: %v", err)
	}
	if got := Malformed(context.Canceled).Error(); got != "not well-formed JSON" {
		t.Errorf("an error without a place: %s", got)
	}
}

// A text that is too long is refused before it is read.
func TestLongText(t *testing.T) {
	r := NewBodyRun(t.Context(), nil, &Limits{Steps: 9, JSON: 6, TooLong: "too long"})
	for text, want := range map[string]string{"abc\xff": notUTF8, "abcde\xff": "too long"} {
		if _, err := r.AppendText(nil, Texts([]string{text})); err == nil || err.Message != want {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

// Texts and JSON of just the limit are written, and those of a byte more are refused.
func TestJSONLengthBound(t *testing.T) {
	const document = `{"raw":[1, 2],"text":"aaaa"}`
	for source, size := range map[string]int{
		"body.text": 4, "body.raw": 6, "[body.raw]": 8, "['aaaa']": 8, "{aa: 1}": 8, "nil": 4, "[1, 2]": 5, "true": 4, "12": 2, "[]": 2, "1.5": 3, "[body.text]": 8,
	} {
		w := &lookups{body: []byte(document)}
		l := *bodyLimits
		l.TooLong = "too long"
		r := NewBodyRun(t.Context(), w, &l)
		value, err := r.Evaluate(mustCompile(t, source, w.language()))
		if err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		for more, refused := range []bool{false, true} {
			l.JSON = size + 3 - more
			if got, err := r.AppendText([]byte("<a>"), value); (err != nil) != refused || !refused && len(got) != l.JSON {
				t.Errorf("%s within %d: %s, %v", source, l.JSON, got, err)
			} else if refused && err.Message != "too long" {
				t.Errorf("%s within %d: %v", source, l.JSON, err)
			}
		}
	}
}

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
