package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/trial"
)

// result returns the result of a test that an operator asks for.
func (w *world) result(t trial.Try) trial.Result {
	w.t.Helper()
	body := testworld.Must(json.Marshal(t))(w.t)
	answer := w.try("weather", string(body))
	w.Out("the result of a test", answer.Body.String())
	var result trial.Result
	if err := json.Unmarshal(answer.Body.Bytes(), &result); err != nil || answer.Code != http.StatusOK || answer.Header().Get("Content-Type") != "application/json" {
		w.t.Fatalf("the operator got %d %s", answer.Code, answer.Body)
	}
	return result
}

// seen returns the answer to a caller with what a result has of it, without what differs from request to request.
func seen(status int, header http.Header, body []byte) string {
	header = header.Clone()
	for _, name := range []string{"Date", "Transfer-Encoding", "Connection"} { // net/http adds these
		header.Del(name)
	}
	if header.Get("Server-Timing") != "" {
		header.Set("Server-Timing", "…")
	}
	return fmt.Sprintf("%d %v %q", status, header, body)
}

func seenInResult(r trial.Result) string {
	header := http.Header{}
	for _, pair := range r.Headers {
		header.Add(pair.Name, pair.Value)
	}
	return seen(r.Status, header, r.Body)
}

// The answer of a test is the one that a caller gets, byte by byte.
func TestResultMatchesCallers(t *testing.T) {
	oauth := func(_ *options, d *gateway.Definition) { d.Auth = clientAuth(d.URL + "/token") }
	for name, c := range map[string]struct {
		change  change
		method  string
		path    string
		headers map[string]string
		body    string
		answer  http.HandlerFunc
		problem string
		cut     string
	}{
		"success": {answer: func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Etag", `"1"`)
			rw.Header().Set("Set-Cookie", "a=b")
			_, _ = io.WriteString(rw, `{"a":1}`)
		}},
		"a path and a query": {path: "/a%C3%BC?x=%20", answer: func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, r.RequestURI) }},
		"a body": {
			method: http.MethodPost, body: "ü\x00", headers: map[string]string{"Content-Type": "text/plain"},
			answer: func(rw http.ResponseWriter, r *http.Request) {
				fmt.Fprintf(rw, "%d %s %s", r.ContentLength, r.Header["Content-Type"], r.Header["X-Two"])
			},
		},
		"the API's 401": {answer: func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(rw, "who are you?", http.StatusUnauthorized)
		}},
		"a problem of the token endpoint": {change: oauth, problem: "authentication-failed", answer: func(rw http.ResponseWriter, _ *http.Request) {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}},
		"an echo": {problem: "credential-echoed", answer: func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, r.Header.Get("X-API-Key")) }},
		"an echo in a stream": {problem: "credential-echoed", cut: "the answer broke off", answer: func(rw http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(rw, strings.Repeat("a", 100<<10)+r.Header.Get("X-API-Key"))
		}},
		"a stream": {answer: func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "text/event-stream")
			for range 3 {
				_, _ = io.WriteString(rw, "data: x\n\n")
				_ = http.NewResponseController(rw).Flush()
			}
		}},
		"an empty body":   {answer: func(http.ResponseWriter, *http.Request) {}},
		"no content":      {answer: func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusNoContent) }},
		"a binary body":   {answer: func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte{0, 0xff, 0x80, '\n'}) }},
		"a long body":     {answer: func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write(make([]byte, 300<<10)) }},
		"only the header": {method: http.MethodHead, answer: func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("Content-Length", "7") }},
		"a redirect": {answer: func(rw http.ResponseWriter, r *http.Request) {
			http.Redirect(rw, r, "https://elsewhere.example/", http.StatusFound)
		}},
		"a method not allowed": {method: http.MethodDelete, problem: "method-not-allowed"},
		"a path not allowed":   {path: "/a/b", problem: "unknown-path"},
		"an upgrade":           {headers: map[string]string{"Upgrade": "websocket"}, problem: "upgrade-refused"},
		"a page of elsewhere":  {headers: map[string]string{"Origin": "https://elsewhere.example"}, problem: "cross-origin"},
		"an answer that is shaped": {
			change: func(_ *options, d *gateway.Definition) { d.Response.Body = "{b: response.body.a}" },
			answer: func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(rw, `{"a":"b"}`)
			},
		},
		"a body that is too large": {
			change: func(_ *options, d *gateway.Definition) { d.Limits.RequestBytes = 10 }, method: http.MethodPost, body: strings.Repeat("a", 11), problem: "body-too-large",
		},
	} {
		t.Run(name, func(t *testing.T) {
			changes := []change{func(_ *options, d *gateway.Definition) { d.Methods, d.Paths = []string{"GET", "POST"}, []string{"/*"} }}
			if c.change != nil {
				changes = append(changes, c.change)
			}
			w := newWorld(t, changes...)
			w.answer = c.answer
			tried := trial.Try{Method: c.method, Path: c.path, BodyBytes: []byte(c.body), Headers: map[string]string{"Traceparent": "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01"}}
			r := w.request(c.method, "/connectors/weather"+c.path, c.body)
			maps.Copy(tried.Headers, c.headers)
			for name, value := range tried.Headers {
				r.Header.Set(name, value)
			}
			response := testworld.Must(http.DefaultTransport.RoundTrip(r))(t)
			defer response.Body.Close()
			body, broken := io.ReadAll(response.Body)
			got := w.result(tried)
			if caller, operator := seen(response.StatusCode, response.Header, body), seenInResult(got); caller != operator {
				t.Errorf("the caller got\n%s\nthe operator\n%s", caller, operator)
			}
			if got.Problem != c.problem || got.Cut != c.cut || (got.Cause == "") != (c.problem == "") || (broken != nil) != (c.cut != "") {
				t.Errorf("problem %q, cut %q, cause %q; the caller's error is %v", got.Problem, got.Cut, got.Cause, broken)
			}
		})
	}
}

// A result has the request and the exchanges, masked, and the stages with their times.
func TestResultHasTheExchanges(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) {
		d.Query = []gateway.Parameter{{Name: "page", Overridable: true}, {Name: "k", Value: "{{ get_secret('key') }}"}}
		d.Methods, d.Paths = []string{"POST", "GET"}, []string{"/*"}
		d.Auth = clientAuth(d.URL + "/token")
	})
	token := w.Word("the token")
	w.answer = func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/token" {
			rw.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(rw, `{"access_token":%q,"token_type":"bearer","expires_in":3600}`, token)
		}
	}
	tried := trial.Try{Path: "x?page=2", Body: "the body", User: trial.User{ID: "7"}}
	got := w.result(tried)
	if got.Request == nil || len(got.Exchanges) != 1 || len(got.Answers) != 1 || got.Connector != "weather" || len(got.RequestID) != 32 {
		t.Fatalf("got = %+v", got)
	}
	if want := w.api.URL + "/v1/x?page=2&k={{ get_secret('key') }}"; got.Request.URL != want || got.Request.Body != "the body" || len(got.Request.Dropped) > 0 ||
		!slices.Contains(got.Request.Headers, abi.Pair{Name: "Authorization", Value: "Bearer <token>"}) {
		t.Errorf("the request is %+v", got.Request)
	}
	e := got.Exchanges[0]
	if !strings.Contains(e.Body, "client_secret={{ get_secret('key') }}") || e.Method != http.MethodPost || e.Answer.Status != http.StatusOK || !strings.Contains(e.Answer.Body, `"expires_in":3600`) || e.Answer.Milliseconds <= 0 {
		t.Errorf("the exchange is %+v", e)
	}
	if text := e.String(); !strings.Contains(text, "the answer 200 OK, after ") {
		t.Error(text)
	}
	if got := names(got.Stages); got != "request authentication token api answer" {
		t.Error(got)
	}
	if got := w.result(tried); len(got.Exchanges) != 0 || names(got.Stages) != "request authentication api answer" {
		t.Errorf("with the token from the cache: %+v", got)
	}
}

func names(stages []trial.Step) string {
	var all []string
	for _, s := range stages {
		if all = append(all, s.Name); s.Failed {
			all = append(all, "(failed)")
		}
	}
	return strings.Join(all, " ")
}

// The stages of a result end with the one that failed.
func TestFailedStage(t *testing.T) {
	none := func(*options, *gateway.Definition) {}
	for name, c := range map[string]struct {
		change change
		tried  trial.Try
		answer http.HandlerFunc
		want   string
	}{
		"a method": {none, trial.Try{Method: "PUT"}, nil, "request (failed)"},
		"a template": {func(_ *options, d *gateway.Definition) {
			d.Query = []gateway.Parameter{{Name: "who", Value: "{{ user.id }}"}}
		}, trial.Try{}, nil, "request (failed)"},
		"a secret":           {func(_ *options, d *gateway.Definition) { d.Auth[0].Config["value"] = "{{ get_secret('missing') }}" }, trial.Try{}, nil, "request authentication (failed)"},
		"the token endpoint": {func(_ *options, d *gateway.Definition) { d.Auth = clientAuth(d.URL) }, trial.Try{}, func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusBadRequest) }, "request authentication token (failed)"},
		"the API": {func(o *options, _ *gateway.Definition) {
			o.Base = testworld.Answer(func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF })
		}, trial.Try{}, nil, "request authentication api (failed)"},
		"the answer": {none, trial.Try{}, func(rw http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(rw, r.Header.Get("X-API-Key")) }, "request authentication api answer (failed)"},
	} {
		w := newWorld(t, c.change)
		if c.answer != nil {
			w.answer = c.answer
		}
		if got := w.result(c.tried); names(got.Stages) != c.want {
			t.Errorf("%s: names(got.Stages) = %s; got.Cause = %s", name, names(got.Stages), got.Cause)
		}
	}
}

// An answer that is too long, or that does not end, is cut off.
func TestResultOfAnEndlessAnswer(t *testing.T) {
	var body io.Reader
	stub := func(o *options, d *gateway.Definition) {
		d.Auth = []host.Auth{{Type: "none"}}
		o.Base = testworld.Answer(func(r *http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(body), ContentLength: -1, Request: r}, nil
		})
	}
	w := newWorld(t, stub)
	body = iotest.OneByteReader(strings.NewReader(strings.Repeat("a", 1<<20+1)))
	if got := w.result(trial.Try{}); len(got.Body) != 1<<20 || got.Cut != "the answer has more than 1048576 bytes" || got.Problem != "" {
		t.Errorf("%d bytes, %q", len(got.Body), got.Cut)
	}
	synctest.Test(t, func(t *testing.T) {
		body, cut := gateway.TestedAnswer(t.Context(), func(ctx context.Context, w http.ResponseWriter) {
			_, _ = io.WriteString(w, "begins")
			<-ctx.Done()
			panic(http.ErrAbortHandler)
		})
		if body != "begins" || cut != "the answer went on after 10s" {
			t.Errorf("body = %q, cut = %q", body, cut)
		}
	})
}

// A test that cannot be a request is refused, and one of an unknown connector names the one that was meant.
func TestRefusedTests(t *testing.T) {
	w := newWorld(t)
	for body, want := range map[string]string{
		`{"method":"G T"}`:                  "that is not a method",
		`{"path":"/a b"}`:                   "path is not a path",
		`{"body":"a","body_base64":"YQ=="}`: "both body and body_base64",
		`{"body_base64":"*"}`:               "not JSON",
		`{"usr":{}}`:                        "unknown field",
	} {
		if got := w.try("weather", body); got.Code != http.StatusBadRequest || !strings.Contains(got.Body.String(), want) {
			t.Errorf("%s: got.Code = %d got.Body = %s", body, got.Code, got.Body)
		}
	}
	for name, want := range map[string]string{"wether": `there is no such connector; did you mean \"weather\"?`, "orders": `there is no such connector"`} {
		if answer := w.try(name, ""); answer.Code != http.StatusNotFound || !strings.Contains(answer.Body.String(), want) {
			t.Errorf("%s: answer.Code = %d answer.Body = %s", name, answer.Code, answer.Body)
		}
	}
}

// The test of a connector is made for the user whom the operator names, whether the gateway has users or not.
func TestUserOfATest(t *testing.T) {
	ann := trial.User{ID: "ann"}
	for name, c := range map[string]struct {
		users  gateway.Users
		tried  trial.User
		want   string
		status int
	}{
		"users":                 {byCookie, ann, "ann", http.StatusOK},
		"users, and nobody":     {byCookie, trial.User{}, "", http.StatusBadGateway},
		"without users":         {nil, ann, "ann", http.StatusOK},
		"without users, nobody": {nil, trial.User{}, "", http.StatusBadGateway},
	} {
		sent := ""
		w := newWorld(t, func(o *options, d *gateway.Definition) {
			o.Users = c.users
			d.Headers = []gateway.Parameter{{Name: "X-User", Value: "{{ user.id }}"}}
		})
		w.answer = func(_ http.ResponseWriter, r *http.Request) { sent = r.Header.Get("X-User") }
		if got := w.result(trial.Try{User: c.tried}); sent != c.want || got.Status != c.status {
			t.Errorf("%s: the API got the user %q; the result is %+v", name, sent, got)
		}
	}
}

// The reason of a refused token is for the operator who asks, and not for the log or a caller (threats.md 208).
func TestResultHasTheDescription(t *testing.T) {
	const reason = "user hasn't approved this consumer"
	w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Auth = clientAuth(d.URL) })
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		rw.WriteHeader(http.StatusServiceUnavailable) // which the host does not remember
		fmt.Fprintf(rw, `{"error":"invalid_grant","error_description":%q}`, reason)
	}
	if got := w.result(trial.Try{ErrorDescription: true}); len(got.Exchanges) != 1 || got.Exchanges[0].Answer.Description != reason || strings.Contains(got.Cause+string(got.Body), reason) {
		t.Errorf("got = %+v", got)
	}
	if got := w.result(trial.Try{}); strings.Contains(fmt.Sprint(got), reason) || len(got.Exchanges) != 1 {
		t.Errorf("without asking: %+v", got)
	}
	if got := w.get("/connectors/weather"); strings.Contains(got.body, reason) || strings.Contains(w.log.String()+w.hostLog.String(), reason) {
		t.Errorf("the caller got %s, and the log is %s", got.body, w.log.String())
	}
}
