package sdk

import (
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/keywright/keywright/internal/testworld"
)

// Fill replaces placeholders and escapes in the texts of a document, and nothing else.
func TestFill(t *testing.T) {
	values := []Pair{{"a", "1"}, {"ab", `"\{a}`}}
	for document, want := range map[string]string{
		``:                               ``,
		`{}`:                             `{}`,
		`{"x":"{a}","y":["b {ab} {a}"]}`: `{"x":"1","y":["b \"\\{a} 1"]}`,
		`{"x":"\\{a}\\\\{a}\n\\n\"{"}`:   `{"x":"{a}\\1\n\\n\"{"}`,
		`{"{a}":{"b":{"a":1}}}`:          `{"1":{"b":{"a":1}}}`,
		`{"x":"{b} {a {} {query{id}}"}`:  `{"x":"{b} {a {} {query{id}}"}`,
	} {
		if got := Fill(document, values...); got != want {
			t.Errorf("%s is filled as %s, not %s", document, got, want)
		}
	}
}

// threats.md 103: text that the host has escaped is no placeholder, and is filled as it was before.
func TestFillOfEscapedText(t *testing.T) {
	escape := strings.NewReplacer(`\`, `\\`, `{`, `\{`)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([{}\\"a\n]|\{a\})*`).Draw(t, "text")
		document := testworld.Must(json.Marshal([]string{escape.Replace(text)}))(t)
		var got []string
		if err := json.Unmarshal([]byte(Fill(string(document), Pair{"a", "1"})), &got); err != nil || got[0] != text {
			t.Fatalf("%q is filled as %q: %v", text, got, err)
		}
	})
}

// Place puts pairs where a field says. Present leaves out those without a value.
func TestPlace(t *testing.T) {
	pairs := Present([]Pair{{"a", "1"}, {"b", ""}, {"", "2"}})
	if len(pairs) != 2 || pairs[0].Name != "a" || pairs[1].Value != "2" {
		t.Fatalf("present are %v", pairs)
	}
	for place, got := range map[string][]Pair{
		"header": Place("header", pairs...).Headers, "query": Place("query", pairs...).Query, "path": Place("path", pairs...).Path,
		"cookie": Place("cookie", pairs...).Cookies, "form": Place("form", pairs...).Form,
	} {
		if len(got) != 2 || got[0] != pairs[0] {
			t.Errorf("%s has %v", place, got)
		}
	}
}

// A list is parsed however it is written, and each component has a template of its value.
func TestParseComponents(t *testing.T) {
	covered := testworld.Must(ParseComponents(`("@method" @query-param;name=a%2a+b` + "\n" + `X-One  "signature-agent";key="bot")`))(t)
	want := Components{
		{`"@method"`, "@method", "", "{method}"},
		{`"@query-param";name="a*%20b"`, "@query-param", "a*%20b", "{query_param:a*%20b|required}"},
		{`"x-one"`, "x-one", "", "{header:x-one|required}"},
		{`"signature-agent";key="bot"`, "signature-agent", "bot", "{header:signature-agent|required}"},
	}
	if len(covered) != len(want) {
		t.Fatalf("covered = %v", covered)
	}
	for i, c := range covered {
		if c != want[i] {
			t.Errorf("%+v, not %+v", c, want[i])
		}
	}
	if covered.Find("x-one") != &covered[2] || covered.Find("X-One") != nil {
		t.Error("a component is found by its name")
	}
	if covered, err := ParseComponents("( )"); len(covered) != 0 || err != nil {
		t.Errorf("an empty list is %v, %v", covered, err)
	}
}

// The error for a list that cannot be signed has the word, and says why.
func TestUnsignableLists(t *testing.T) {
	for list, want := range map[string]string{
		"":                          "names nothing to sign: write () if that is meant",
		"@method host":              "has host, which is signed as @authority",
		"x-a X-A":                   "has X-A, which is there twice",
		"@query-param;name=":        "has @query-param;name=, which needs the name of a parameter, such as @query-param;name=id",
		`@query-param;name="a";req`: `has @query-param;name="a";req, which has a parameter that is not supported: there are @query-param;name=… and signature-agent;key=…`,
		"signature-agent;key=Bot":   "has signature-agent;key=Bot, which has a parameter that is not supported: there are @query-param;name=… and signature-agent;key=…",
		"x-a|sha256|hex":            "has x-a|sha256|hex, which is a header with |, whose value cannot be composed", // and no placeholder of another text
		"@status":                   "has @status, which is not a component of a request",
		"Transfer-Encoding":         "has Transfer-Encoding, which is a header that only the HTTP client may set",
	} {
		if _, err := ParseComponents(list); err == nil || err.Error() != want {
			t.Errorf("%s: err = %v", list, err)
		}
	}
}

// Lower changes ASCII letters only.
func TestLower(t *testing.T) {
	for text, want := range map[string]string{"": "", "x-a1": "x-a1", "X-AZ@[`{": "x-az@[`{", "Straße ÄK": "straße Äk", "\xffA": "\xffa"} {
		if got := Lower(text); got != want {
			t.Errorf("%q: got = %q", text, got)
		}
	}
}

// percentEncode encodes as net/url does, but for the bytes that it is to leave.
func TestPercentEncode(t *testing.T) {
	if got := percentEncode("aZ09-._~ !*/%\x00é\xff", "-._~"); got != "aZ09-._~%20%21%2A%2F%25%00%C3%A9%FF" {
		t.Error(got)
	}
	if got := percentEncode("a-b*[`{@", "*"); got != "a%2Db*%5B%60%7B%40" {
		t.Error(got)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		if got, want := percentEncode(text, "-._~"), strings.ReplaceAll(url.QueryEscape(text), "+", "%20"); got != want {
			t.Fatalf("%q: %s, not %s", text, got, want)
		}
		if got := formDecode(percentEncode(text, "")); got != text {
			t.Fatalf("%q is decoded as %q", text, got)
		}
	})
}

// Dates are those of the Go standard library, in every year from 1970 to 2400.
func TestFormatTime(t *testing.T) {
	const hour = 60 * 60 * 1000
	for millis := int64(0); millis < 430*366*24*hour; millis += 23*hour + 59*60*1000 + 7001 {
		moment := time.UnixMilli(millis).UTC()
		want := moment.Format("Mon, 02 Jan 2006 15:04:05 GMT 01 ") + moment.Format(".000")[1:] + moment.Format(" ") + strconv.FormatInt(moment.Unix(), 10)
		if got := FormatTime(millis, "%a, %d %b %Y %H:%M:%S GMT %m %L %s"); got != want {
			t.Fatalf("%s, not %s", got, want)
		}
	}
	for format, want := range map[string]string{
		"": "", "%": "%", "%s": "0", "100% %%Y %": "100% %Y %", "%x%q%%%%d%d": "%x%q%%d01", "é%Yé": "é1970é",
	} {
		if got := FormatTime(0, format); got != want {
			t.Errorf("%q: got = %q", format, got)
		}
	}
}
