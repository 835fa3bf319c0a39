package host_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
)

// traced returns a trace as text, with all that its fields hold.
func traced(trace *host.Trace) string {
	var b strings.Builder
	for _, e := range trace.Exchanges() {
		document, _ := json.Marshal(e)
		b.Write(document)
	}
	for _, a := range trace.Answers() {
		document, _ := json.Marshal(a)
		b.Write(document)
	}
	return b.String() + trace.String()
}

// trace sends a request with a trace, which is searched for credentials.
func (w *world) trace(c *host.Connector, trace *host.Trace) (*host.Trace, error) {
	_, err := w.try(c, get(host.WithTrace(w.t.Context(), trace)))
	w.Out("the trace", traced(trace))
	return trace, err
}

// A nil Trace is none, and hides that of the context.
func TestNilTrace(t *testing.T) {
	w, c := tokenWorld(t, nil)
	outer := &host.Trace{}
	w.send(c, get(host.WithTrace(host.WithTrace(t.Context(), outer), nil)))
	if text := outer.String(); text != "" {
		t.Errorf("the outer trace has %q", text)
	}
	w.send(c, get(host.WithTrace(t.Context(), nil)))
}

// A trace has the request to the token endpoint as it is explained, and the answer with made-up texts: what a standard lists, numbers
// and times stay.
func TestTraceOfAnExchange(t *testing.T) {
	w, c := tokenWorld(t, nil)
	w.login.Answer(func(*http.Request) (*http.Response, error) {
		w.Advance(42 * time.Millisecond)
		return testworld.Response(http.StatusBadRequest, `{"error":"invalid_scope","error_description":"`+w.Word("a description")+`","trace_id":"`+
			w.Word("an id")+`","`+w.Word("a name")+`":["`+w.Word("an element")+`",true],"codes":[70011],"at":"2026-01-02T03:04:05Z","big":`+strings.Repeat("7", 20)+`}`,
			"Content-Type", "application/json; charset=utf-8", "X-Request-Id", w.Word("a header"), "Retry-After", "7", w.Word("a name of a header"), "x"), nil
	})
	trace, err := w.trace(c, &host.Trace{})
	if err == nil {
		t.Fatal("the request was sent")
	}
	all := trace.Exchanges()
	if len(all) != 1 || len(trace.Answers()) != 0 {
		t.Fatalf("%+v and %+v", all, trace.Answers())
	}
	const want = `the request to the token endpoint
  POST https://login.test/token
`
	text := all[0].String()
	if !strings.HasPrefix(text, want) {
		t.Errorf("it begins otherwise: %s", text)
	}
	for _, part := range []string{
		"client_secret={{ get_secret('s') }}", "the answer 400 Bad Request, after 42 ms\n", "  Content-Type: application/json\n", "  Retry-After: 7\n",
		"X-Request-Id", `"error":"invalid_scope"`, `"error_description":"masked-`, `"codes":[70011]`, `"at":"2026-01-02T03:04:05Z"`, `"big":1,`, `,true]`,
	} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in:\n%s", part, text)
		}
	}
}

// A request that finds its token in the cache, or waits for that of another request, has no exchange in its trace.
func TestTraceHasNoExchangeOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, c, gate := gatedWorld(t)
		var traces [3]host.Trace
		for i := range 2 {
			go func() { _, _ = w.try(c, get(host.WithTrace(t.Context(), &traces[i]))) }()
			synctest.Wait()
		}
		close(gate.open)
		synctest.Wait()
		must(w.try(c, get(host.WithTrace(t.Context(), &traces[2]))))(t)
		for i, want := range []int{1, 0, 0} {
			if got := len(traces[i].Exchanges()); got != want || len(traces[i].Answers()) != 1 {
				t.Errorf("request %d has %d exchanges and %d answers in its trace", i+1, got, len(traces[i].Answers()))
			}
		}
	})
}

// The trace of a request that is sent twice has both answers, with what the plugin reads of them, masked.
func TestTraceOfAChallenge(t *testing.T) {
	w, c := challengeWorld(t, sendsNonce)
	w.api.Answer(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("X-Nonce") == "" {
			return testworld.Response(http.StatusUnauthorized, `{"error":{"code":"expired","text":"`+w.Word("a text")+`"}}`,
				"WWW-Authenticate", `Digest realm="`+w.Word("a realm")+`", nonce="`+w.Word("a nonce")+`", qop="auth", algorithm=SHA-256, x="`+w.Word("a parameter")+`"`), nil
		}
		return testworld.Response(http.StatusOK, w.Secret("the body"), "Set-Cookie", "session="+w.Word("a cookie")), nil
	})
	trace := must(w.trace(c, &host.Trace{}))(t)
	text := trace.String()
	for _, part := range []string{
		"the answer 401 Unauthorized", `Digest algorithm="SHA-256", nonce="masked-`, `qop="auth", realm="masked-`, `{"error":{"code":"expired","text":"masked-`,
		"the answer 200 OK", "not shown: Set-Cookie",
	} {
		_, rest, ok := strings.Cut(text, part)
		if !ok {
			t.Fatalf("no %q in:\n%s", part, text)
		}
		text = rest
	}
}

// The trace has the body of an answer of the API only where the plugin reads it: that of another answer is the caller's.
func TestTraceOfOrdinaryAnswer(t *testing.T) {
	w, c := challengeWorld(t, sendsNonce)
	w.api.Answer(respond(http.StatusOK, `{"error":{"code":"expired"}}`))
	trace := &host.Trace{}
	body, err := w.read(c.Transport(nil).RoundTrip(get(host.WithTrace(t.Context(), trace))))
	if err != nil || body != `{"error":{"code":"expired"}}` {
		t.Fatalf("the caller got %q, %v", body, err)
	}
	if got := trace.Answers(); len(got) != 1 || got[0].Status != http.StatusOK || got[0].Body != "" {
		t.Errorf("got = %+v", got)
	}
}

// A number is masked where the plugin's description says that it is a credential.
func TestTraceOfNumericCredential(t *testing.T) {
	w := newWorld(t, func(c *host.Config) { c.BuiltIns = []host.Plugin{{Name: "login", Wasm: plugins.Login()}} })
	w.login.Answer(respond(http.StatusOK, `{"token":`+w.Hide("a number", "831550199")+`,"uses":831}`))
	trace := must(w.trace(w.connect("login", testworld.AuthTypes(tokenURL)["login"]), &host.Trace{}))(t)
	if text := trace.String(); !strings.Contains(text, `{"token":111111111,"uses":831}`) {
		t.Error(text)
	}
}

// A trace of an answer that is nested as deeply as can be takes memory in proportion to its size.
func TestTraceOfADeepAnswer(t *testing.T) {
	w, c := tokenWorld(t, nil)
	const deep = 5000
	w.login.Answer(respond(http.StatusBadRequest, strings.Repeat("[", deep)+strings.Repeat("1,", deep)+"1"+strings.Repeat("]", deep)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	trace := &host.Trace{}
	_, _ = w.try(c, get(host.WithTrace(t.Context(), trace)))
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) >> 20; got > 100 {
		t.Errorf("it took %d MiB", got)
	}
	if len(trace.Exchanges()[0].Answer.Body) < deep {
		t.Error("the trace does not have the answer")
	}
}

// Texts of the network cannot write to the terminal of those who read a trace.
func TestPrintableTrace(t *testing.T) {
	answer := view.Answer{Status: 400, Body: "a\x1b[2Jb", Headers: []abi.Pair{{Name: "A\x1b", Value: "\n"}}}
	if text := answer.String(); strings.Contains(text, "\x1b") || strings.Count(text, "\n") != 3 {
		t.Errorf("text = %q", text)
	}
}

// A trace shows a form. Of a body that it does not show, it has the length.
func TestTraceOfOtherBody(t *testing.T) {
	if got := (view.Answer{Status: 200, Body: "a=<a>", Length: 9}).String(); !strings.HasSuffix(got, "ms\n  a=<a>\n") {
		t.Errorf("a form is shown as %q", got)
	}
	for length, want := range map[int]string{0: "the answer 502 Bad Gateway, after 3 ms\n", 1: "the answer 502 Bad Gateway, after 3 ms\n  (a body of 1 bytes)\n"} {
		if got := (view.Answer{Status: 502, Length: length, Milliseconds: 3}).String(); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
}

// A trace has a token endpoint's error_description for an operator who asks, cut and printable, and none that holds a credential. It is
// in no error and no log (threats.md 208).
func TestTraceOfADescription(t *testing.T) {
	const withheld = "(not shown, because it holds a credential)"
	for name, c := range map[string]struct {
		answer func(w *world, r *http.Request) string
		want   string
	}{
		"a reason": {func(*world, *http.Request) string { return `"error_description":"user hasn't approved this consumer"` }, "user hasn't approved this consumer"},
		"control":  {func(*world, *http.Request) string { return `"error_description":"a\u001b[2J\nb"` }, `a\x1b[2J\nb`},
		"long":     {func(*world, *http.Request) string { return `"error_description":"` + strings.Repeat("a", 501) + `"` }, strings.Repeat("a", 500) + "…"},
		"no text":  {func(*world, *http.Request) string { return `"error_description":["a"]` }, ""},
		"the secret": {func(_ *world, r *http.Request) string {
			return `"error_description":"bad ` + r.FormValue("client_secret") + `"`
		}, withheld},
		"the secret in Base64": {func(_ *world, r *http.Request) string {
			return `"error_description":"` + base64.StdEncoding.EncodeToString([]byte("me:"+r.FormValue("client_secret"))) + `"`
		}, withheld},
		"the secret in capitals": {func(_ *world, r *http.Request) string {
			return `"error_description":"` + strings.ToUpper(r.FormValue("client_secret")) + `"`
		}, withheld},
		"a token": {func(w *world, _ *http.Request) string {
			return `"id_token":"x","error_description":"` + w.Word("a token") + `"`
		}, ""},
	} {
		w, connector := tokenWorld(t, nil)
		w.login.Answer(func(r *http.Request) (*http.Response, error) {
			return testworld.Response(http.StatusBadRequest, `{"error":"invalid_grant",`+c.answer(w, r)+`}`), nil
		})
		trace, err := w.trace(connector, &host.Trace{Descriptions: true})
		all := trace.Exchanges()
		if err == nil || len(all) != 1 {
			t.Fatalf("%s: %v, %d exchanges", name, err, len(all))
		}
		got := all[0].Answer.Description
		if got != c.want || strings.Contains(all[0].String(), "\n  the endpoint's error_description: "+c.want) != (c.want != "") {
			t.Errorf("%s: got = %q", name, got)
		}
		if c.want != "" && strings.Contains(fmt.Sprint(err, w.log.String()), c.want) {
			t.Errorf("%s: it is in the error or the log: %v", name, err)
		}
		without := &host.Trace{}
		w.Advance(time.Hour)
		if _, err := w.try(connector, get(host.WithTrace(t.Context(), without))); err == nil || len(without.Exchanges()) != 1 || without.Exchanges()[0].Answer.Description != "" {
			t.Errorf("%s: not asked for: %+v", name, without.Exchanges())
		}
	}
}

// Each exchange of a trace has its own request.
func TestTraceOfTwoExchanges(t *testing.T) {
	w := misusedWorld(t, func(env contract.Env) (string, error) {
		for _, who := range []string{"first", "second"} {
			if out, err := tokenRequest(env, value(env, "url"), abi.Pair{Name: "who", Value: who}); err != nil {
				return out, err
			}
		}
		return header("X-Key", value(env, "to_header")), nil
	})
	trace := must(w.trace(w.connect("custom", misused), &host.Trace{}))(t)
	all := trace.Exchanges()
	if len(all) != 2 || all[0].Body != "who=first" || all[1].Body != "who=second" {
		t.Errorf("all = %+v", all)
	}
}

// A description may also be in a form. One that stands beside a token is not shown (threats.md 208).
func TestTraceOfADescriptionInAForm(t *testing.T) {
	for body, want := range map[string]string{
		"error=invalid_grant&error_description=the+code+is+old":                     "the code is old",
		"error=invalid_grant&error_description=the+code+is+old&refresh_token=x":     "",
		"problem=invalid_grant&error_description=the+code+is+old":                   "",
		"error=invalid_grant&error_description=the+code+is+old&not+well+formed=%zz": "",
	} {
		w := newWorld(t)
		w.login.Answer(respond(http.StatusBadRequest, body, "Content-Type", "application/x-www-form-urlencoded"))
		trace, err := w.trace(w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")), &host.Trace{Descriptions: true})
		if all := trace.Exchanges(); err == nil || len(all) != 1 || all[0].Answer.Description != want {
			t.Errorf("%s: err = %v, all = %+v", body, err, all)
		}
	}
}
