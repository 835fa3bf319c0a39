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
