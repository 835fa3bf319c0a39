package gateway_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
)

// Only statuses from 200 to 599 pass (RFC 9110 section 15).
func TestPassingStatuses(t *testing.T) {
	status := 0
	w := newWorld(t, func(o *options, _ *gateway.Definition) {
		o.Base = testworld.Answer(func(r *http.Request) (*http.Response, error) { return answerOf(r, status, "", ""), nil })
	})
	for given, want := range map[int]int{101: 502, 199: 502, 200: 200, 599: 599, 600: 502} {
		status = given
		if got := w.get("/connectors/weather"); got.status != want || (got.kind == "answer-refused") != (want != given) {
			t.Errorf("%d: the caller got %d %s", given, got.status, got.kind)
		}
	}
}

// An answer without a body passes over HTTP/1.1 and HTTP/2, whatever its header says about a body.
func TestAnswersWithoutABody(t *testing.T) {
	w := newWorld(t, func(o *options, d *gateway.Definition) {
		d.Methods = []string{"GET", "DELETE"}
		o.Base = testworld.Answer(func(r *http.Request) (*http.Response, error) {
			status := map[string]int{"HEAD": http.StatusOK, "GET": http.StatusNotModified, "DELETE": http.StatusNoContent}[r.Method]
			answer := answerOf(r, status, "", "")
			answer.Body = http.NoBody // as from net/http
			answer.Header.Set("Content-Length", "5")
			answer.Header.Set("Content-Encoding", "gzip")
			return answer, nil
		})
	})
	second := httptest.NewUnstartedServer(w.gateway.Handler())
	second.EnableHTTP2 = true
	second.StartTLS()
	defer second.Close()
	for _, server := range []*httptest.Server{w.server, second} {
		w.server = server
		for method, want := range map[string]struct {
			status int
			length string
		}{"HEAD": {http.StatusOK, ""}, "GET": {http.StatusNotModified, ""}, "DELETE": {http.StatusNoContent, ""}} {
			response := testworld.Must(server.Client().Transport.RoundTrip(w.request(method, "/connectors/weather", "")))(t)
			_, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			if response.StatusCode != want.status || response.Header.Get("Content-Length") != want.length || err != nil {
				t.Errorf("%s over %s: the caller got %d, %v, %v", method, response.Proto, response.StatusCode, response.Header, err)
			}
		}
	}
}

// The headers that Connection names are for the gateway alone.
func TestHeadersForTheNextHop(t *testing.T) {
	w := newWorld(t)
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Connection", "keep-alive, Link ,etag")
		rw.Header().Set("Link", "</next>")
		rw.Header().Set("ETag", `"a"`)
		rw.Header().Set("Allow", "GET")
	}
	if got := w.get("/connectors/weather"); got.header.Get("Link") != "" || got.header.Get("ETag") != "" || got.header.Get("Allow") != "GET" {
		t.Errorf("the caller got %v", got.header)
	}
}

// An answer of up to 64 KiB with the credential becomes a problem document. A longer one breaks off.
func TestEchoInAnswersOfSomeLength(t *testing.T) {
	const most = 64 << 10
	length := 0
	w := newWorld(t, func(o *options, _ *gateway.Definition) {
		o.Base = testworld.Answer(func(r *http.Request) (*http.Response, error) {
			return answerOf(r, http.StatusOK, "text/plain", strings.Repeat("x", length-len(secret))+secret), nil
		})
	})
	for _, c := range []struct{ length, status int }{{most, http.StatusBadGateway}, {most + 1, http.StatusOK}} {
		length = c.length
		response := testworld.Must(http.DefaultTransport.RoundTrip(w.request("GET", "/connectors/weather", "")))(t)
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != c.status || (err != nil) != (c.status == http.StatusOK) || strings.Contains(string(body), secret) {
			t.Errorf("%d bytes: the caller got %d, %v", c.length, response.StatusCode, err)
		}
	}
}

// A caller may request a part of an answer only if the answer is neither filtered nor shaped.
func TestRange(t *testing.T) {
	for name, c := range map[string]struct {
		response gateway.Response
		want     string
	}{
		"not shaped": {gateway.Response{}, "bytes=20-40"},
		"body":       {gateway.Response{Body: "'shaped'"}, ""},
		"filter":     {gateway.Response{Filter: "true"}, ""},
	} {
		w := newWorld(t, func(_ *options, d *gateway.Definition) {
			d.Headers = []gateway.Parameter{{Name: "Range", Value: "", Overridable: true}}
			d.Response = c.response
		})
		w.get("/connectors/weather", "Range", "bytes=20-40")
		if got := w.last().Header.Get("Range"); got != c.want {
			t.Errorf("%s: the API received the range %q, want %q", name, got, c.want)
		}
	}
}

// threats.md 43: a request with a second parameter of the credential's name, in any encoding, is not sent. Other parameters are
// allowed.
func TestParametersBesideTheCredentials(t *testing.T) {
	for _, c := range []struct {
		in, url string
		sent    bool
	}{
		{"query", "", true},
		{"query", "?a=1", true},
		{"query", "?a=1&key2=x&=y", true},
		{"query", "?key=x", false},
		{"query", "?KEY", false},
		{"query", "?%6Bey=x", false},
		{"query", "?a=1&k%65y=x", false},
		{"query", "?key[]=x", false},
		{"query", "?key%5Ba%5D=x", false},
		{"query", "?key%00=x", false},
		{"query", "?+key=x", false},
		{"header", "?key=x", true},
		{"header", "?=x", true},
		{"header", "?a=1&", true},
	} {
		t.Run(c.in+" "+c.url, func(t *testing.T) {
			w := newWorld(t, func(_ *options, d *gateway.Definition) {
				d.URL += c.url
				d.Auth = host.Auth{Type: "api_key", Config: map[string]any{"key": "key", "value": "{{ get_secret('key') }}", "in": c.in}}
			})
			got := w.get("/connectors/weather")
			if sent := w.received() == 1; sent != c.sent || sent != (got.status == http.StatusOK) || !sent && got.kind != "authentication-failed" {
				t.Errorf("the caller got %d %s, and the API received %d requests", got.status, got.body, w.received())
			}
		})
	}
}

// A shaped answer has the headers of its new body, and ResponseBytes limits the body that is shaped.
func TestShapedAnswers(t *testing.T) {
	ten := gateway.Limits{ResponseBytes: 10}
	text := gateway.Response{Body: "response.body"}
	for name, c := range map[string]struct {
		method   string
		response gateway.Response
		limits   gateway.Limits
		status   int
		kind     string
		body     string
		want     string // status, type and body
	}{
		"as long as it may be":      {"GET", text, ten, 200, "text/plain", "0123456789", "200 text/plain 0123456789"},
		"a byte more":               {"GET", text, ten, 200, "text/plain", "0123456789a", "502 answer-not-shaped"},
		"of any length":             {"GET", text, gateway.Limits{ResponseBytes: math.MaxInt64}, 200, "text/plain", "x", "200 text/plain x"},
		"of no type":                {"GET", text, gateway.Limits{}, 200, "", "x", "200 application/octet-stream x"},
		"of the definition's type":  {"GET", gateway.Response{Body: "response.body", ContentType: "text/csv"}, gateway.Limits{}, 200, "text/plain", "x", "200 text/csv x"},
		"nothing, of another type":  {"GET", gateway.Response{Body: "response.body", ContentType: "text/csv"}, gateway.Limits{}, 200, "text/plain", "", "200 text/plain "},
		"a failure":                 {"GET", gateway.Response{Body: "'made of ' + response.body"}, gateway.Limits{}, 404, "text/plain", "it", "404 text/plain made of it"},
		"a failure, filtered":       {"GET", gateway.Response{Body: "'made of ' + response.body", Filter: "true"}, gateway.Limits{}, 404, "application/json", "[1]", "404 application/json "},
		"the last of successes":     {"GET", gateway.Response{Filter: "record > 1"}, gateway.Limits{}, 299, "application/json", "[1,2]", "299 application/json [2]"},
		"the first that is none":    {"GET", gateway.Response{Filter: "record > 1"}, gateway.Limits{}, 300, "application/json", "[1,2]", "300 application/json "},
		"HEAD, of which none knows": {"HEAD", text, gateway.Limits{}, 200, "text/plain", "", "200 text/plain  without a length"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *options, d *gateway.Definition) {
				d.Response, d.Limits = c.response, c.limits
				o.Base = testworld.Answer(func(r *http.Request) (*http.Response, error) { return answerOf(r, c.status, c.kind, c.body), nil })
			})
			got := w.do(w.request(c.method, "/connectors/weather", ""))
			text := fmt.Sprintf("%d %s %s", got.status, got.header.Get("Content-Type"), got.body)
			if got.kind != "" {
				text = fmt.Sprintf("%d %s", got.status, got.kind)
			}
			if got.header.Get("Content-Length") == "" {
				text += " without a length"
			}
			if text != c.want {
				t.Errorf("the caller got %q, want %q", text, c.want)
			}
		})
	}
}

// A gateway with a transport of its own cannot present a connector's client certificate, and sends nothing without it.
func TestTLSNeedsTheTransportOfTheHost(t *testing.T) {
	for name, c := range map[string]struct {
		change func(d *gateway.Definition, tls *host.TLS)
		want   int
	}{
		"for the API":            {func(d *gateway.Definition, tls *host.TLS) { tls.For, d.TLS = []host.TLSPurpose{host.TLSForAPI}, tls }, http.StatusBadGateway},
		"for the token endpoint": {func(d *gateway.Definition, tls *host.TLS) { tls.For, d.TLS = []host.TLSPurpose{host.TLSForToken}, tls }, http.StatusOK},
		"an egress":              {func(d *gateway.Definition, _ *host.TLS) { d.Egress = &host.Egress{} }, http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			sent := 0
			w := newWorld(t, func(o *options, d *gateway.Definition) {
				d.URL = "https://api.example"
				c.change(d, &host.TLS{CA: testworld.NewAuthority(t).PEM()})
				o.Base = testworld.Answer(func(r *http.Request) (*http.Response, error) {
					sent++
					return answerOf(r, http.StatusOK, "", ""), nil
				})
			})
			got := w.get("/connectors/weather")
			if got.status != c.want || (sent == 0) != (c.want == http.StatusBadGateway) {
				t.Errorf("the caller got %d %s, and %d requests were sent", got.status, got.body, sent)
			}
			if refused := strings.Contains(w.log.String(), "tls and egress need the transport of the host"); refused != (sent == 0) {
				t.Errorf("the log has %s", w.log.String())
			}
		})
	}
}
