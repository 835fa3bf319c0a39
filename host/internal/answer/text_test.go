package answer

import (
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// A whole body is a value if it is a token alone, and no page.
func TestTextBody(t *testing.T) {
	part := Part{Answer: abi.Answer{Name: "token", Kind: contract.AnswerSealed}, Source: testworld.Must(ParseSource("text:"))(t)}
	for body, want := range map[string]string{
		"eyJhbGciOiJFUzUxMiJ9.e30.abc\r\n": "eyJhbGciOiJFUzUxMiJ9.e30.abc", " a ": "a",
		"": "", "two words": "", "<html><p>No</p></html>": "", "é": "", "a\x00": "", strings.Repeat("a", 8<<10): strings.Repeat("a", 8<<10), strings.Repeat("a", 8<<10+1): "",
	} {
		for kind, page := range map[string]bool{"": false, "text/plain; charset=utf-8": false, "application/octet-stream": false, "text/html": true, "Text/HTML;charset=utf-8": true} {
			r := Reply{Status: 200, Header: http.Header{"Content-Type": {kind}}, Body: []byte(body), List: []Part{part}}
			token := want
			if page {
				token = ""
			}
			if got := r.Find(nil, MaxSealed)["token"]; got != token {
				t.Errorf("%.20q as %q: got = %.20q, want %.20q", body, kind, got, token)
			}
		}
	}
}

// A whole body may be a credential, so no answer in plain is one.
func TestPlainTextBody(t *testing.T) {
	source := testworld.Must(ParseSource("text:"))(t)
	for _, kind := range []string{contract.AnswerInteger, contract.AnswerTime, contract.AnswerEnum} {
		for _, part := range []Part{{Source: source}, {Alternative: source}} {
			part.Kind = kind
			if CheckSources([]Part{part}) == nil {
				t.Errorf("%s of a whole body is no error", kind)
			}
		}
	}
	if _, err := ParseSource("text:a"); err == nil {
		t.Error("text: with a name is no error")
	}
}
