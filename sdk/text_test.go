package sdk

import (
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Lower changes ASCII letters only.
func TestLower(t *testing.T) {
	for text, want := range map[string]string{"": "", "x-a1": "x-a1", "X-AZ@[`{": "x-az@[`{", "Straße ÄK": "straße Äk", "\xffA": "\xffa"} {
		if got := Lower(text); got != want {
			t.Errorf("%q: got = %q", text, got)
		}
	}
}

// HeaderValue finds a header whatever its case, and joins its values. An empty one is found, too.
func TestHeaderValue(t *testing.T) {
	headers := []Pair{{"X-One", " 1\t"}, {"x-two", "a"}, {"X-Empty", ""}, {"X-TWO", "b  c "}}
	for _, test := range []struct {
		name, value string
		found       bool
	}{
		{"x-one", "1", true},
		{"X-Two", "a, b  c", true},
		{"X-EMPTY", "", true},
		{"X-Tw", "", false},
		{"", "", false},
	} {
		if value, found := HeaderValue(headers, test.name); value != test.value || found != test.found {
			t.Errorf("%s: value = %q, found = %t", test.name, value, found)
		}
	}
}

// PercentEncode encodes as net/url does, but for the bytes that it is to leave.
func TestPercentEncode(t *testing.T) {
	if got := PercentEncode("aZ09-._~ !*/%\x00é\xff", "-._~"); got != "aZ09-._~%20%21%2A%2F%25%00%C3%A9%FF" {
		t.Error(got)
	}
	if got := PercentEncode("a-b*[`{@", "*"); got != "a%2Db*%5B%60%7B%40" {
		t.Error(got)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := string(rapid.SliceOf(rapid.Byte()).Draw(t, "text"))
		if got, want := PercentEncode(text, "-._~"), strings.ReplaceAll(url.QueryEscape(text), "+", "%20"); got != want {
			t.Fatalf("%q: %s, not %s", text, got, want)
		}
		if got := FormDecode(PercentEncode(text, "")); got != text {
			t.Fatalf("%q is decoded as %q", text, got)
		}
	})
}
