package gateway_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
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
	for given, want := range map[int]int{101: 502, 199: 502, 200: 200, 599: 599, 600: 502, 999: 502} {
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

// A caller may request a part of an answer only if the answer is neither filtered nor shaped. A part that comes all the same is refused.
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
		w.answer = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusPartialContent) }
		answer := w.get("/connectors/weather", "Range", "bytes=20-40")
		if got := w.last().Header.Get("Range"); got != c.want || (answer.kind == "answer-not-shaped") != (c.want == "") {
			t.Errorf("%s: the API received the range %q, want %q, and the caller got %+v", name, got, c.want, answer)
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
		w := newWorld(t, func(_ *options, d *gateway.Definition) {
			d.URL, d.Auth = d.URL+c.url, keyAuth("key", c.in)
		})
		got := w.get("/connectors/weather")
		if sent := w.received() == 1; sent != c.sent || sent != (got.status == http.StatusOK) || !sent && got.kind != "authentication-failed" {
			t.Errorf("%s: the caller got %d %s, and the API received %d requests", c.in+" "+c.url, got.status, got.body, w.received())
		}
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
		"for the API":            {func(d *gateway.Definition, tls *host.TLS) { tls.For, d.TLS = []string{host.TLSForAPI}, tls }, http.StatusBadGateway},
		"for the token endpoint": {func(d *gateway.Definition, tls *host.TLS) { tls.For, d.TLS = []string{host.TLSForToken}, tls }, http.StatusOK},
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

// namedProblems returns the paths of the problems of a definition that names these headers.
func namedProblems(w *world, headers ...string) string {
	w.t.Helper()
	_, paths := w.problems(gateway.Definition{URL: "https://a.test", Response: gateway.Response{Headers: headers}})
	return paths
}

// Headers that a definition names pass, and pages of other origins may read them. No other header of the API passes.
func TestDefinedHeaders(t *testing.T) {
	const app = "https://app.example.com"
	w := newWorld(t, func(o *options, d *gateway.Definition) {
		o.Origins = []string{app}
		d.Response.Headers = []string{"x-total-count", "X-RateLimit-*", "Link"}
	})
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		for name, value := range map[string]string{
			"X-Total-Count": "12", "X-RateLimit-Limit": "100", "x-ratelimit-remaining": "7", "X-RateLimits": "no", "Link": `<https://api.test/2>; rel="next"`, "X-Account": "internal",
		} {
			rw.Header().Set(name, value)
		}
		rw.Header()["X-Ratelimit-Reset"] = []string{"1", "2"}
	}
	for origin, exposed := range map[string]string{"": "", app: "Server-Timing, X-Request-Id, Link, X-Ratelimit-Limit, X-Ratelimit-Remaining, X-Ratelimit-Reset, X-Total-Count"} {
		var headers []string
		if origin != "" {
			headers = []string{"Origin", origin}
		}
		got := w.get("/connectors/weather", headers...)
		for name, want := range map[string]string{
			"X-Total-Count": "12", "X-Ratelimit-Limit": "100", "X-Ratelimit-Remaining": "7", "X-Ratelimit-Reset": "1|2", "X-Ratelimits": "", "X-Account": "",
			"Link": `<https://api.test/2>; rel="next"`, "Access-Control-Expose-Headers": exposed,
		} {
			if value := strings.Join(got.header[name], "|"); value != want {
				t.Errorf("from %q: %s is %q, want %q", origin, name, value, want)
			}
		}
	}
}

// threats.md 188: a pattern lets no header pass that a browser, a cache or a proxy would act on, whatever the API sends.
func TestBlockedHeaders(t *testing.T) {
	never := []string{
		"Set-Cookie", "Www-Authenticate", "Authentication-Info", "Proxy-Authenticate", "Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Content-Security-Policy",
		"Content-Security-Policy-Report-Only", "Strict-Transport-Security", "X-Frame-Options", "Cross-Origin-Opener-Policy", "Clear-Site-Data", "Service-Worker-Allowed",
		"X-Accel-Redirect", "X-Envoy-Immediate-Health-Check-Fail", "Netlify-Cdn-Cache-Control", "X-Middleware-Rewrite", "Origin-Trial", "No-Vary-Search",
		"X-Sendfile", "Surrogate-Control", "Cdn-Cache-Control", "Keep-Alive", "Alt-Svc", "Sec-Session-Registration", "X-Forwarded-Host", "Content-Encoding",
	}
	patterns := []string{
		"Authentication-*", "Access-*", "Content-*", "Strict-*", "Cross-*", "Clear-*", "Service-*", "X-Frame-*", "Keep-*", "Alt-Svc-*", "X-Forwarded-By", "Set-Cookies", "Www-Authentication",
	}
	w := newWorld(t)
	for _, name := range slices.Concat(never, []string{"*", "X-*", "A-*", "X-Rate*", "X-*-Limit", "X Limit", "", "Transfer-Encoding", "Server-Timing", "X-Request-Id", "Access-Control-*"}) {
		if problems := namedProblems(w, "X-Total-Count", name); problems != "response.headers[1]" {
			t.Errorf("%q: the problems are at %q", name, problems)
		}
	}
	var allowed []string
	for _, pattern := range patterns {
		if namedProblems(w, pattern) == "" {
			allowed = append(allowed, pattern)
		}
	}
	for _, pattern := range []string{"Access-*", "Content-*", "Service-*", "Cross-*"} {
		if !slices.Contains(allowed, pattern) {
			t.Errorf("%s is refused, so this is not what it is about", pattern)
		}
	}
	w = newWorld(t, func(_ *options, d *gateway.Definition) { d.Response.Headers = allowed })
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		for _, name := range never {
			if name != "Content-Encoding" { // an answer that is encoded is refused
				rw.Header().Set(name, "canary")
			}
		}
	}
	if got := fmt.Sprint(w.get("/connectors/weather").header); strings.Contains(got, "canary") {
		t.Errorf("with %v, the caller got %s", allowed, got)
	}
}

// threats.md 45: a header with the credential does not pass, even if the definition names it.
func TestNamedHeadersWithTheCredential(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Response.Headers = []string{"X-Limit-*"} })
	w.answer = func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-Limit-Of", "key "+r.Header.Get("X-Key"))
		rw.Header().Set("X-Limit-"+secret, "1")
		rw.Header().Set("X-Limit-Left", "3")
	}
	got := w.get("/connectors/weather")
	if text := strings.ToLower(fmt.Sprint(got.header)); strings.Contains(text, strings.ToLower(secret)) || got.header.Get("X-Limit-Left") != "3" {
		t.Errorf("the caller got %v", got.header)
	}
}

func TestManyNamedHeaders(t *testing.T) {
	w := newWorld(t)
	names := make([]string, 51)
	for i := range names {
		names[i] = fmt.Sprintf("X-Count-%d", i)
	}
	for n, want := range map[int]string{50: "", 51: "response.headers"} {
		if problems := namedProblems(w, names[:n]...); problems != want {
			t.Errorf("%d names: the problems are at %q, want %q", n, problems, want)
		}
	}
}
