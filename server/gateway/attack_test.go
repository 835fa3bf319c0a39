package gateway_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
)

// 1xx responses and trailers of an API do not pass, and change nothing in the header of the answer (threats.md 45).
func TestOnlyTheAnswerPasses(t *testing.T) {
	w := newWorld(t, func(o *options, _ *gateway.Definition) { o.Origins = []string{"https://app.example.com"} })
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Set-Cookie", "of=the-api")
		rw.Header().Set("Access-Control-Allow-Origin", "*")
		rw.WriteHeader(http.StatusEarlyHints)
		rw.Header().Set("Trailer", "X-Account, Set-Cookie")
		rw.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(rw, strings.Repeat("x", 100_000))
		rw.Header().Set("X-Account", "internal")
	}
	response := testworld.Must(http.DefaultTransport.RoundTrip(w.request("GET", "/connectors/weather", "", "Origin", "https://app.example.com")))(t)
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.Error(err)
	}
	h := response.Header
	if h.Get("Set-Cookie") != "" || len(response.Trailer) > 0 || h.Get("Access-Control-Allow-Origin") != "https://app.example.com" {
		t.Errorf("the page got %v, trailers %v", h, response.Trailer)
	}
	if h.Get("X-Content-Type-Options") != "nosniff" || len(h.Get("X-Request-Id")) != 32 || !strings.Contains(strings.Join(h["Vary"], ","), "Origin") ||
		h.Get("Content-Security-Policy") != "default-src 'none'; sandbox" {
		t.Errorf("the header of every answer is not there: %v", h)
	}
}

// A browser does not run an answer as a page of the gateway's origin.
func TestAnswersAsAttachments(t *testing.T) {
	w := newWorld(t)
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header()["Content-Type"] = nil
		_, _ = io.WriteString(rw, "<script>alert(1)</script>")
	}
	if got := w.get("/connectors/weather"); got.header.Get("Content-Type") != "application/octet-stream" || !strings.Contains(got.header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("the caller got %v", got.header)
	}
}

// Expressions do not see headers with secrets.
func TestExpressionsDoNotSeeSecretHeaders(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) {
		d.Headers = []gateway.Parameter{{Name: "X-Second", Value: "{{ get_secret('key') }}"}, {Name: "X-Plain", Value: "plain"}}
		d.Response.Body = "{second: request.headers['X-Second'] ?? 'none', plain: request.headers['X-Plain']}"
	})
	if got := w.get("/connectors/weather"); got.body != `{"second":"none","plain":"plain"}` {
		t.Errorf("the caller got %d %s", got.status, got.body)
	}
}

// threats.md 44: headers that name the user, and those with credentials, cannot be overridable.
func TestOverrides(t *testing.T) {
	w := newWorld(t)
	problems := w.problems(gateway.Definition{
		URL: w.api.URL + "/v1?scope=own",
		Headers: []gateway.Parameter{
			{Name: "X-User", Value: "{{ user.email }}", Overridable: true},
			{Name: "X-Tenant", Value: "{{ tenant_id }}", Overridable: true},
			{Name: "Authorization", Value: "x", Overridable: true},
			{Name: "Cookie", Value: "x", Overridable: true},
			{Name: "X-Lang", Value: "en", Overridable: true},
		},
		Query: []gateway.Parameter{{Name: "scope", Value: "x", Overridable: true}},
	})
	var paths []string
	for _, p := range problems {
		paths = append(paths, p.Path)
	}
	if got := strings.Join(paths, " "); got != "headers[0].overridable headers[1].overridable headers[2].overridable headers[3].overridable query[0].name" {
		t.Errorf("complained of is %s", got)
	}
}

// The Content-Type of a shaped body is that of the new body, not that of the caller's.
func TestTypeOfShapedBodies(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) {
		d.Methods, d.Request = []string{"POST"}, `{"q":{{ json_encode(body_text) }}}`
	})
	w.do(w.request("POST", "/connectors/weather", "&owner=bob", "Content-Type", "application/x-www-form-urlencoded"))
	if got := w.last().Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("the API received a %s", got)
	}
}

// With a filter, the gateway does not request a part of an answer, and refuses one.
func TestUnfilteredParts(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) {
		d.Headers = []gateway.Parameter{{Name: "Range", Value: "", Overridable: true}}
		d.Response.Filter = "record.mine"
	})
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusPartialContent)
		_, _ = io.WriteString(rw, `[{"mine":true}]`)
	}
	got := w.get("/connectors/weather", "Range", "bytes=20-40")
	if got.kind != "answer-not-shaped" || w.last().Header.Get("Range") != "" {
		t.Errorf("the caller got %+v, and the API received %v", got, w.last().Header)
	}
}

// specification.md "pages of other origins", threats.md 46: Sec-Fetch-Site decides. Without it, the origin must be the gateway's.
func TestSameOrigin(t *testing.T) {
	w := newWorld(t)
	own := w.server.URL
	for name, c := range map[string]struct {
		headers []string
		status  int
	}{
		"said to be the same":          {[]string{"Sec-Fetch-Site", "same-origin", "Origin", strings.Replace(own, "http://", "https://", 1)}, 200},
		"said to be another":           {[]string{"Sec-Fetch-Site", "cross-site", "Origin", own}, 403},
		"said to be a neighbour":       {[]string{"Sec-Fetch-Site", "same-site"}, 403},
		"said twice":                   {[]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Site", "same-origin"}, 400},
		"the same":                     {[]string{"Origin", own}, 200},
		"the same behind a TLS proxy":  {[]string{"Origin", strings.Replace(own, "http://", "https://", 1)}, 200},
		"the same name, another port":  {[]string{"Origin", "http://127.0.0.1:1"}, 403},
		"the same with more behind it": {[]string{"Origin", own + ".evil.example"}, 403},
	} {
		if got := w.get("/connectors/weather", c.headers...); got.status != c.status || (c.status != 200) != (got.kind == "cross-origin") {
			t.Errorf("%s: got.status = %d got.body = %s", name, got.status, got.body)
		}
	}
}

func TestUnknownStatus(t *testing.T) {
	w := newWorld(t)
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		connection, _, err := rw.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(connection, "HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n")
		_ = connection.Close()
	}
	if got := w.get("/connectors/weather"); got.status != http.StatusBadGateway || got.kind != "answer-refused" {
		t.Errorf("the caller got %+v", got)
	}
}

// One user may use a quarter of the concurrent requests.
func TestShareOfOneUser(t *testing.T) {
	w := newWorld(t, func(o *options, d *gateway.Definition) {
		o.Users = users(func(r *http.Request) (host.User, error) { return host.User{Email: r.Header.Get("Authorization")}, nil })
		d.Limits.Concurrent = 8
	})
	release := make(chan struct{})
	there := make(chan struct{}, 8)
	w.answer = func(http.ResponseWriter, *http.Request) { there <- struct{}{}; <-release }
	done := make(chan int)
	for range 2 {
		go func() { done <- w.get("/connectors/weather", "Authorization", "ann").status }()
		<-there
	}
	if got := w.get("/connectors/weather", "Authorization", "ann"); got.status != http.StatusTooManyRequests {
		t.Errorf("the third at once: %d", got.status)
	}
	go func() { done <- w.get("/connectors/weather", "Authorization", "bob").status }()
	<-there
	close(release)
	for range 3 {
		if status := <-done; status != http.StatusOK {
			t.Errorf("a request got %d", status)
		}
	}
}

// Several lines of Accept are joined.
func TestAcceptInSeveralLines(t *testing.T) {
	w := newWorld(t)
	w.get("/connectors/weather", "Accept", "text/html", "Accept", "application/json")
	if sent := w.last().Header["Accept"]; len(sent) != 1 || sent[0] != "text/html, application/json" {
		t.Errorf("the API received %q", sent)
	}
}

// The API receives the caller's traceparent only if the definition makes it overridable.
func TestTraceOfTheCaller(t *testing.T) {
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for want, headers := range map[string][]gateway.Parameter{"": nil, trace: {{Name: "traceparent", Overridable: true}}} {
		w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Headers = headers })
		got := w.get("/connectors/weather", "Traceparent", trace)
		if sent := w.last().Header.Get("Traceparent"); sent != want {
			t.Errorf("the API received the traceparent %q, want %q", sent, want)
		}
		if id := got.header.Get("X-Request-Id"); id != trace[3:35] {
			t.Errorf("the request has the id %s", id)
		}
	}
}
