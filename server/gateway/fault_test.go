package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
)

// threats.md 49: slow callers and slow APIs do not block the shaping of other bodies.
func TestSlowBodiesDoNotKeepOthersFromBeingShaped(t *testing.T) {
	slow := 4 * runtime.GOMAXPROCS(0)
	for name, slowAPI := range map[string]bool{"callers": false, "API": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(_ *options, d *gateway.Definition) {
				d.Methods, d.Request, d.Response.Body = []string{"POST"}, "{{ body_text }}", "response.body"
				d.Limits.Concurrent = slow + 1 // enough for any number of processors
			})
			begun, release := make(chan struct{}), make(chan struct{})
			w.answer = func(rw http.ResponseWriter, _ *http.Request) {
				w.mu.Lock()
				first := len(w.got) <= slow
				w.mu.Unlock()
				if slowAPI && first {
					rw.(http.Flusher).Flush()
					begun <- struct{}{}
					<-release
				}
				_, _ = io.WriteString(rw, "answer")
			}
			var all sync.WaitGroup
			for range slow {
				all.Go(func() {
					body := io.Reader(strings.NewReader("whole"))
					if !slowAPI {
						body = readerFunc(func([]byte) (int, error) {
							begun <- struct{}{}
							<-release
							return 0, io.EOF
						})
					}
					w.serve(httptest.NewRequest(http.MethodPost, w.server.URL+"/connectors/weather", body))
				})
			}
			for range slow {
				<-begun
			}
			got := w.do(w.request("POST", "/connectors/weather", "whole"))
			close(release)
			all.Wait()
			if got.status != http.StatusOK || got.body != "answer" {
				t.Errorf("another caller got %+v", got)
			}
		})
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// The log and Observe report problems that callers cannot see. A caller that goes away does not count as a failure of the API.
func TestOperatorMessages(t *testing.T) {
	begin := func(rw http.ResponseWriter) {
		_, _ = io.WriteString(rw, "begins")
		rw.(http.Flusher).Flush()
	}
	preflight := []string{"Origin", "https://app.example.com", "Access-Control-Request-Method", "GET"}
	for name, c := range map[string]struct {
		answer  func(rw http.ResponseWriter, leave func(), left <-chan struct{})
		method  string
		headers []string
		status  int
		problem string
		level   string
	}{
		"answer": {func(http.ResponseWriter, func(), <-chan struct{}) {}, "GET", nil, 200, "", ""},
		"stream with the credential": {func(rw http.ResponseWriter, _ func(), _ <-chan struct{}) {
			begin(rw)
			_, _ = io.WriteString(rw, secret)
		}, "GET", nil, 200, "credential-echoed", "WARN"},
		"stream that breaks off": {func(rw http.ResponseWriter, _ func(), _ <-chan struct{}) {
			begin(rw)
			panic(http.ErrAbortHandler)
		}, "GET", nil, 200, "upstream-failed", "WARN"},
		"caller that goes away": {func(_ http.ResponseWriter, leave func(), left <-chan struct{}) {
			leave()
			<-left
		}, "GET", nil, 499, "caller-gone", "INFO"},
		"preflight": {nil, "OPTIONS", preflight, 204, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *options, _ *gateway.Definition) { o.Origins = []string{"https://app.example.com"} })
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			left := make(chan struct{})
			w.answer = func(rw http.ResponseWriter, _ *http.Request) { c.answer(rw, leave, left) }
			func() {
				defer close(left)
				defer func() { _ = recover() }() // net/http recovers the panic of an answer that is cut off
				w.serve(w.request(c.method, "/connectors/weather", "", c.headers...).WithContext(ctx))
			}()
			if len(w.events) != 1 || w.events[0].Status != c.status || w.events[0].Problem != c.problem {
				t.Errorf("operators are told %+v", w.events)
			}
			if log := w.log.String(); c.level == "" && log != "" || c.level != "" && (!strings.Contains(log, `"level":"`+c.level) || !strings.Contains(log, `"problem":"`+c.problem)) {
				t.Errorf("the log is %s", log)
			}
		})
	}
}

// The log says what was asked if that does not exist, without the query, and bounded. The caller learns nothing more.
func TestUnknownPaths(t *testing.T) {
	for path, logged := range map[string]string{
		"/connectors/wether/bot-mine?key=mine":     `"connector":"wether","error":"there is no such connector"`,
		"/connectors/weather/mine?key=mine":        `"connector":"weather","error":"this connector has no such path"`,
		"/connectors/" + strings.Repeat("x", 1000): `"connector":"` + strings.Repeat("x", 200) + `","error":"there is no such connector"`,
	} {
		w := newWorld(t)
		if got := w.get(path); got.status != http.StatusNotFound || strings.Contains(got.body, "meant") {
			t.Errorf("the caller got %d %s", got.status, got.body)
		}
		if log := w.log.String(); !strings.Contains(log, logged) || strings.Contains(log, "mine") {
			t.Errorf("%s: the log is %s", path, log)
		}
	}
}

// An API that quotes a wrong signature in its refusal is an answer with the credential. Log and test name the API's status, so
// that the operator sees the refusal; the caller does not.
func TestRefusalQuotingCredential(t *testing.T) {
	w := newWorld(t)
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(rw, "wrong signature: "+secret)
	}
	const cause = "the API answered 403, and the API's answer holds the credential that it was sent"
	if got := w.get("/connectors/weather"); got.kind != "credential-echoed" || strings.Contains(got.body, "answered") {
		t.Errorf("the caller got %d %s", got.status, got.body)
	}
	if log := w.log.String(); !strings.Contains(log, `"upstream_status":403`) || !strings.Contains(log, cause) {
		t.Errorf("the log is %s", log)
	}
	if answer := w.try("weather", ""); !strings.Contains(answer.Body.String(), cause) {
		t.Errorf("the operator got %s", answer.Body)
	}
}

func TestFailedTests(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) {
		d.Query = []gateway.Parameter{{Name: "who", Value: "{{ user.first_name }} {{ user.last_name }}, {{ user.username }} {{ user.id }} of {{ tenant_id }}"}}
	})
	w.answer = func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "\x7f") }
	if got := w.try("weather", "").Body.String(); !strings.Contains(got, `"stage":"template"`) || !strings.Contains(got, "X") || w.received() > 0 {
		t.Errorf("without a user: %s", got)
	}
	got := w.try("weather", `{"user":{"id":"7","username":"ann","first_name":"Ann","last_name":"Lee","tenant_id":"t"}}`)
	if got.Code != http.StatusOK || w.last().URL.Query().Get("who") != "Ann Lee, ann 7 of t" {
		t.Errorf("with one: %d %s", got.Code, got.Body)
	}
}

// An answer without a body passes, even if it has the Content-Encoding of the body that it would have.
func TestEncodingOfAnAnswerWithoutABody(t *testing.T) {
	for method, status := range map[string]int{http.MethodHead: http.StatusOK, http.MethodGet: http.StatusNotModified} {
		for kind, auth := range map[string][]host.Auth{
			"without a credential": {{Type: "none"}},
			"with a credential":    keyAuth("X-API-Key", "header"),
		} {
			w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Auth = auth })
			w.answer = func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Encoding", "br")
				rw.WriteHeader(status)
			}
			if got := w.do(w.request(method, "/connectors/weather", "")); got.status != status {
				t.Errorf("%s %s: the caller got %+v", method, kind, got)
			}
		}
	}
}

// The log has the tenant whose own secret is missing, and none where the secret is the operator's.
func TestTheTenantOfAMissingSecret(t *testing.T) {
	for secret, want := range map[string]bool{"'none', 'tenant'": true, "'none'": false} {
		w := newWorld(t, func(o *options, d *gateway.Definition) {
			o.Users = users(func(*http.Request) (host.User, error) { return host.User{ID: "ann", TenantID: "acme"}, nil })
			d.Auth[0].Config["value"] = "{{ get_secret(" + secret + ") }}"
		})
		w.get("/connectors/weather")
		if log := w.log.String(); strings.Contains(log, `"tenant":"acme"`) != want || !strings.Contains(log, "the secret is not found") {
			t.Errorf("for %s the log is %s", secret, log)
		}
	}
}
