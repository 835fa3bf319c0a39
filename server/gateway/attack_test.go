package gateway_test

import (
	"bufio"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"unicode/utf16"

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
	_, paths := w.problems(gateway.Definition{
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
	if paths != "headers[0].overridable headers[1].overridable headers[2].overridable headers[3].overridable query[0].name" {
		t.Errorf("complained of is %s", paths)
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
			d.Auth[0].Config = map[string]any{"key": "X-Second", "value": "{{ base64_encode('gateway:' + get_secret('second')) }}", "in": "header"}
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
		d.Auth[0].Config = map[string]any{"key": "key", "value": "{{ get_secret('key') }}", "in": "query"}
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

// An answer that the API sends before it has read the body reaches the caller, though the API closes the connection then.
func TestAnAnswerBeforeTheBody(t *testing.T) {
	listener := testworld.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			head := bufio.NewReaderSize(conn, 16)
			for line := ""; line != "\r\n"; line, err = head.ReadString('\n') {
				if err != nil {
					break
				}
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 411 Length Required\r\nContent-Length: 4\r\nConnection: close\r\n\r\nwhy?")
			_ = conn.Close() // with bytes that nobody has read: a reset
		}
	}()
	w := newWorld(t, func(_ *options, d *gateway.Definition) {
		d.URL, d.Methods, d.Limits.RequestBytes = "http://"+listener.Addr().String(), []string{"PUT"}, 1<<30
	})
	body := strings.Repeat("x", 4<<20)
	answered := 0
	for range 100 { // whether the answer or the reset comes first is chance
		response, err := http.DefaultClient.Do(streamed(w.request(http.MethodPut, "/connectors/weather", body)))
		if err != nil {
			continue // the gateway has closed its own connection
		}
		got, err := io.ReadAll(response.Body)
		if _ = response.Body.Close(); err != nil || response.StatusCode != http.StatusLengthRequired || string(got) != "why?" {
			t.Fatalf("a caller got %d %s (%v), and the log is %s", response.StatusCode, got, err, w.log.String())
		}
		answered++
	}
	if answered == 0 {
		t.Error("no caller got an answer")
	}
}
