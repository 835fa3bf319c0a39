package gateway_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/trial"
)

// try returns the answer to an operator's test of a connector.
func (w *world) try(permalink, body string) *httptest.ResponseRecorder {
	w.t.Helper()
	mux := http.NewServeMux()
	mux.Handle("POST /connectors/{permalink}/test", w.gateway.Test())
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest(http.MethodPost, "http://localhost/connectors/"+permalink+"/test", strings.NewReader(body)))
	return answer
}

// The result of a test has the first 2 KiB of the request's body, and an ellipsis if there is more.
func TestShownBodies(t *testing.T) {
	const most = 2 << 10
	a := strings.Repeat("a", most+10)
	w := newWorld(t, func(_ *options, d *gateway.Definition) {
		d.Methods, d.Auth = []string{"POST"}, []host.Auth{{Type: "none"}}
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
		if got := w.result(trial.Try{BodyBytes: []byte(c.body)}); got.Status != http.StatusOK || got.Request.Body != c.want {
			t.Errorf("%s: %d, and of the request %q is shown", name, got.Status, end(got.Request.Body))
		}
	}
}

// The result says what the connector's tls adds.
func TestShownTLS(t *testing.T) {
	for _, with := range []bool{false, true} {
		w := newWorld(t, func(o *options, d *gateway.Definition) {
			d.URL = "https://api.example"
			if with {
				d.TLS = &host.TLS{CA: testworld.NewAuthority(t).PEM(), For: []string{host.TLSForToken}}
			}
			o.Base = testworld.Answer(func(r *http.Request) (*http.Response, error) { return answerOf(r, http.StatusOK, "", ""), nil })
		})
		if shown := w.try("weather", "").Body.String(); strings.Contains(shown, `"tls":{"for":["token"],"ca":true}`) != with || strings.Contains(shown, `"tls"`) != with {
			t.Errorf("with tls %t: %s", with, shown)
		}
	}
}

func end(text string) string { return text[max(0, len(text)-20):] }

// The result names the parameters of a test that a caller could not send either.
func TestDroppedParametersShow(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) {
		d.Query = []gateway.Parameter{{Name: "units", Overridable: true}}
	})
	for path, dropped := range map[string][]string{"?page=2&units=us": {"page"}, "?units=us": nil} {
		got := w.result(trial.Try{Path: path}).Request
		if !slices.Equal(got.Dropped, dropped) || !strings.HasSuffix(got.URL, "?units=us") {
			t.Errorf("%s: got = %+v", path, got)
		}
	}
}

// A test of an API whose certificate is refused says what to do, whichever way the connector connects.
func TestAPICertificateRemedy(t *testing.T) {
	authority := testworld.NewAuthority(t)
	api := httptest.NewUnstartedServer(http.NotFoundHandler())
	api.Config.ErrorLog = log.New(io.Discard, "", 0)
	api.StartTLS()
	t.Cleanup(api.Close)
	for name, change := range map[string]func(*options, *gateway.Definition){
		"the host's transport": func(*options, *gateway.Definition) {},
		"authorities of its own": func(_ *options, d *gateway.Definition) {
			d.TLS = &host.TLS{CA: authority.PEM(), For: []string{host.TLSForAPI}}
		},
		"an egress of its own":     func(_ *options, d *gateway.Definition) { d.Egress = &host.Egress{AllowPrivate: true} },
		"a transport of a program": func(o *options, _ *gateway.Definition) { o.Base = &http.Transport{} },
		"a wrapped transport":      func(o *options, _ *gateway.Definition) { o.Base = testworld.Answer(http.DefaultTransport.RoundTrip) },
	} {
		w := newWorld(t, func(o *options, d *gateway.Definition) {
			d.URL = api.URL
			change(o, d)
		})
		if got := w.result(trial.Try{}); !strings.Contains(got.Remedy, "or this machine's clock is wrong") {
			t.Errorf("%s: %q for %s", name, got.Remedy, got.Cause)
		}
	}
}

// A test of a path that the connector does not have says what to do.
func TestRemedyOfAnUnknownPath(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Paths = []string{"/*"} })
	if got := w.result(trial.Try{Path: "/a/b"}); got.Problem != "unknown-path" || !strings.Contains(got.Remedy, "add the path to the connector's paths") {
		t.Errorf("%s: got.Remedy = %q", got.Problem, got.Remedy)
	}
}
