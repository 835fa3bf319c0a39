package gateway_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/keywright/keywright/server/gateway"
)

// threats.md 45: an answer with a decoded or converted form of the credential does not pass either.
func TestCredentialsAsTheAPIReadsThem(t *testing.T) {
	const second = "an0ther-s3cr3t-9876543210"
	header := func(value string) change {
		return func(_ *options, d *gateway.Definition) {
			d.Headers = []gateway.Parameter{{Name: "X-Second", Value: value}}
		}
	}
	decoded := func(text string) string {
		pair, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			t.Error(err)
		}
		_, password, _ := strings.Cut(string(pair), ":")
		return password
	}
	for name, c := range map[string]struct {
		change
		makes func(http.Header) string
	}{
		"without the space at its end": {header("{{ get_secret('padded') }}"), func(h http.Header) string { return h.Get("X-Second") }},
		"a part of an expression": {header("{{ get_secret('second') + ':gateway' }}"), func(h http.Header) string {
			user, _, _ := strings.Cut(h.Get("X-Second"), ":")
			return user
		}},
		"decoded": {header("{{ base64_encode('gateway:' + get_secret('second')) }}"), func(h http.Header) string { return decoded(h.Get("X-Second")) }},
		"decoded, of auth": {func(_ *options, d *gateway.Definition) {
			d.Auth.Config = map[string]any{"key": "X-Second", "value": "{{ base64_encode('gateway:' + get_secret('second')) }}", "in": "header"}
		}, func(h http.Header) string { return decoded(h.Get("X-Second")) }},
		"in UTF-16": {header("{{ get_secret('second') }}"), func(h http.Header) string {
			var wide []byte
			for _, unit := range utf16.Encode([]rune("it was " + h.Get("X-Second") + "!")) {
				wide = append(wide, byte(unit), byte(unit>>8))
			}
			return string(wide)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.change)
			w.secrets["second"], w.secrets["padded"] = second, second+" "
			made := ""
			w.answer = func(rw http.ResponseWriter, r *http.Request) {
				made = c.makes(r.Header)
				_, _ = io.WriteString(rw, made)
			}
			got := w.get("/connectors/weather")
			if !strings.Contains(strings.ReplaceAll(made, "\x00", ""), second) {
				t.Fatalf("the API made %q of it", made)
			}
			if got.kind != "credential-echoed" {
				t.Errorf("the caller got %d %q", got.status, got.body)
			}
		})
	}
}

// specification.md "a parameter of the credential's name", threats.md 43: a caller cannot add a second parameter of that name.
func TestParameterOfTheCredential(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) {
		d.Auth.Config = map[string]any{"key": "key", "value": "{{ get_secret('key') }}", "in": "query"}
		d.Query = []gateway.Parameter{{Name: "key", Value: "", Overridable: true}, {Name: "KEY", Value: "", Overridable: true}}
	})
	for _, query := range []string{"key=mine", "KEY=mine"} {
		if got := w.get("/connectors/weather?" + query); got.kind != "authentication-failed" || w.received() != 0 {
			t.Errorf("%s: the caller got %d %s, and the API received %d requests", query, got.status, got.body, w.received())
		}
	}
	w.get("/connectors/weather")
	if got := w.last().URL.Query()["key"]; len(got) != 1 || got[0] != secret {
		t.Errorf("the API received %v", got)
	}
}
