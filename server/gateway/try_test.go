package gateway_test

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
)

// tried is the answer to an operator's test, with the document in X-Debug-Request.
type tried struct {
	*httptest.ResponseRecorder
	shown struct {
		URL             string            `json:"url"`
		QueryParameters map[string]string `json:"query_parameters"`
		RequestBody     string            `json:"request_body"`
		ResponseBody    string            `json:"response_body"`
	}
}

func (w *world) try(body string) (t tried) {
	w.t.Helper()
	mux := http.NewServeMux()
	mux.Handle("POST /connectors/{permalink}/test", w.gateway.Test())
	t.ResponseRecorder = httptest.NewRecorder()
	mux.ServeHTTP(t, httptest.NewRequest(http.MethodPost, "http://localhost/connectors/weather/test", strings.NewReader(body)))
	if shown := t.Header().Get("X-Debug-Request"); shown != "" {
		if err := json.Unmarshal([]byte(shown), &t.shown); err != nil {
			w.t.Errorf("X-Debug-Request is %s: %v", shown, err)
		}
	}
	return t
}

// X-Debug-Request has the first 2 KiB of a body, and an ellipsis if there is more.
func TestBodiesThatAreShown(t *testing.T) {
	const most = 2 << 10
	a := strings.Repeat("a", most+10)
	var answer string
	w := newWorld(t, func(o *options, d *gateway.Definition) {
		d.Methods, d.Auth = []string{"POST"}, host.Auth{Type: "none"}
		o.Base = testworld.Answer(func(r *http.Request) (*http.Response, error) { // byte by byte, as in a stream
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(iotest.OneByteReader(strings.NewReader(answer))), ContentLength: -1, Request: r}, nil
		})
	})
	for name, c := range map[string]struct{ body, want string }{
		"nothing":               {"", ""},
		"short":                 {"ünï", "ünï"},
		"as much as is shown":   {a[:most], a[:most]},
		"one byte more":         {a[:most+1], a[:most] + "…"},
		"much more":             {strings.Repeat(a, 10), a[:most] + "…"},
		"no text":               {"\x1f\x8b\x08", "<not text>"},
		"much that is no text":  {strings.Repeat("\x80", most+10), "<not text>"},
		"no text to its end":    {a[:most-10] + strings.Repeat("\xff", 20), "<not text>"},
		"a character of two":    {a[:most-1] + "é!", a[:most-1] + "…"},
		"a character of three":  {a[:most-1] + "世!", a[:most-1] + "…"},
		"one more of its bytes": {a[:most-2] + "世!", a[:most-2] + "…"},
		"a character of four":   {a[:most-3] + "😀!", a[:most-3] + "…"},
		"one that just fits":    {a[:most-4] + "😀!", a[:most-4] + "😀…"},
		"many of four":          {"aa" + strings.Repeat("😀", most), "aa" + strings.Repeat("😀", most/4-1) + "…"},
		"one that stands for what is no character": {a[:most-3] + "\ufffd!", a[:most-3] + "\ufffd…"},
	} {
		answer = c.body
		got := w.try("")
		if got.Code != http.StatusOK || got.Body.String() != answer || got.shown.ResponseBody != c.want {
			t.Errorf("%s: %d, and of the answer %q is shown", name, got.Code, end(got.shown.ResponseBody))
		}
		if !json.Valid([]byte(`"`+c.body+`"`)) || strings.Contains(c.want, "not text") {
			continue // such a body cannot be part of JSON
		}
		if got := w.try(`{"body":"` + c.body + `"}`); got.shown.RequestBody != c.want {
			t.Errorf("%s: of the request %q is shown", name, end(got.shown.RequestBody))
		}
	}
}

// X-Debug-Request says what the connector's tls adds.
func TestTLSIsShown(t *testing.T) {
	for _, with := range []bool{false, true} {
		w := newWorld(t, func(o *options, d *gateway.Definition) {
			d.URL = "https://api.example"
			if with {
				d.TLS = &host.TLS{CA: testworld.NewAuthority(t).PEM(), For: []string{host.TLSForToken}}
			}
			o.Base = testworld.Answer(func(r *http.Request) (*http.Response, error) { return answerOf(r, http.StatusOK, "", ""), nil })
		})
		if shown := w.try("").Header().Get("X-Debug-Request"); strings.Contains(shown, `"tls":{"for":["token"],"ca":true}`) != with || strings.Contains(shown, `"tls"`) != with {
			t.Errorf("with tls %t: %s", with, shown)
		}
	}
}

func end(text string) string { return text[max(0, len(text)-20):] }

func TestQueryThatIsShown(t *testing.T) {
	for query, want := range map[string]map[string]string{
		"":              {},
		"a=1&b=2&c&=x&": {"a": "1", "b": "2", "c": ""},
	} {
		w := newWorld(t, func(_ *options, d *gateway.Definition) { d.URL += "?" + query })
		if got := w.try(""); got.Code != http.StatusOK || !maps.Equal(got.shown.QueryParameters, want) {
			t.Errorf("%q: %d, and shown is %v of %s", query, got.Code, got.shown.QueryParameters, got.shown.URL)
		}
	}
}

// X-Debug-Request names the parameters of a test that a caller could not send either.
func TestDroppedParametersShow(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) {
		d.Query = []gateway.Parameter{{Name: "units", Overridable: true}}
	})
	for path, dropped := range map[string]bool{"?page=2&units=us": true, "?units=us": false} {
		header := w.try(`{"path":"` + path + `"}`).Header().Get("X-Debug-Request")
		if strings.Contains(header, `"dropped_query_parameters":["page"]`) != dropped || !strings.Contains(header, `"query_parameters":{"units":"us"}`) {
			t.Errorf("%s: %s", path, header)
		}
	}
}
