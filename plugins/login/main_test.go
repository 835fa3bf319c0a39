package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

const (
	endpoint = "https://api.test/login"
	second   = "https://api.test/session"
	// password has characters that JSON, forms and URLs encode.
	password = `pa"ss\w&ör d`
)

// object is an object of the configuration.
type object = map[string]any

var run = plugintest.Of(plugin{}, "login.wasm", func(h *hosttest.Harness) {
	h.Secret("pw", password)
	for _, token := range []string{"first-session", "second-session", "third-session", "the-csrf-token", "the-first-answer"} {
		h.Secret(token, token) // is searched for, although the place of the token is a field
	}
})

// config returns a complete configuration. Pairs of name and value add fields or replace them.
func config(pairs ...any) hosttest.Config {
	return plugintest.With(hosttest.Config{
		"login_url": endpoint, "login_body": object{"username": "ann", "password": "{{ get_secret('pw') }}"},
		"token_from": "json:/token", "key": "Authorization", "prefix": "Bearer",
	}, pairs...)
}

func get() *http.Request { return hosttest.GET("https://api.test/v1?a=b") }

// answer returns an answer with headers: pairs of a name and a value.
func answer(status int, body string, headers ...string) hosttest.Answer {
	return plugintest.Headed(hosttest.JSON(status, body), headers...)
}

// session returns the answer of an endpoint that issues a session.
func session(token string) hosttest.Answer { return answer(200, `{"token":"`+token+`"}`) }

// The login is a JSON document, a form, a query or a header, and the token comes from the body, a header or a cookie
// (specification.md 3.24).
func TestLogins(t *testing.T) {
	const query = "?password=pa%22ss%5Cw%26%C3%B6r+d&username=ann"
	type wanted struct{ method, target, body, header string }
	for name, test := range map[string]struct {
		config hosttest.Config
		answer hosttest.Answer
		login  wanted
	}{
		"JSON": {config(), session("first-session"), wanted{"POST", endpoint, `{"password":"pa\"ss\\w&ör d","username":"ann"}`, "application/json"}},
		"JSON with nested values": {
			config("login_body", object{"auth": object{"password": "{{ get_secret('pw') }}", "methods": []any{"password", 1, true, nil}}}, "token_from", "json:/a~1b/1/token"),
			answer(201, `{"a/b":[0,{"token":"first-session"}]}`),
			wanted{"POST", endpoint, `{"auth":{"methods":["password",1,true,null],"password":"pa\"ss\\w&ör d"}}`, "application/json"},
		},
		"form": {
			config("login_request", "form"), session("first-session"),
			wanted{"POST", endpoint, query[1:], "application/x-www-form-urlencoded"},
		},
		"query": {config("login_request", "query"), session("first-session"), wanted{"GET", endpoint + query, "", ""}},
		"headers, and a text as answer": {
			config("login_body", nil, "login_headers", object{"X-Login": "ann:{{ get_secret('key') }}", "X-Version": 2}, "token_from", "json:"),
			answer(201, `"first-session"`),
			wanted{"POST", endpoint, "", ""},
		},
		"header of the answer": {
			config("token_from", "header:X-Subject-Token"), answer(201, `{}`, "X-Subject-Token", "first-session"),
			wanted{"POST", endpoint, `{"password":"pa\"ss\\w&ör d","username":"ann"}`, "application/json"},
		},
		"cookie of a redirect": {
			config("login_request", "form", "token_from", "cookie:SID"),
			answer(302, "", "Set-Cookie", "other=x", "Set-Cookie", "SID=first-session; Path=/; HttpOnly", "Location", "/home"),
			wanted{"POST", endpoint, query[1:], "application/x-www-form-urlencoded"},
		},
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.Secret("key", "a-key-0123456789")
			h.TokenEndpoint(test.login.target, test.answer)
			for range 2 {
				got := h.Authenticate(test.config, get())
				if got.Header("Authorization") != "Bearer first-session" || len(got.Request.Header) != 1 || got.Request.URL.RawQuery != "a=b" {
					t.Errorf("%s with %v", got.Request.URL, got.Request.Header)
				}
			}
			plugintest.Exchanges(t, h, 1)
			exchange := h.Exchanges()[0]
			if got := (wanted{exchange.Method, exchange.URL, exchange.Body, exchange.Header.Get("Content-Type")}); got != test.login {
				t.Errorf("the login is\n%v\nnot\n%v", got, test.login)
			}
			if headers := test.config["login_headers"]; headers != nil && (exchange.Header.Get("X-Login") != "ann:a-key-0123456789" || exchange.Header.Get("X-Version") != "2") {
				t.Errorf("headers of the login: %v", exchange.Header)
			}
		})
	}
}

// The token goes into a header, a cookie or a query parameter, perhaps with a second value in a header
// (specification.md 3.24).
func TestWhereTheTokenGoes(t *testing.T) {
	for name, test := range map[string]struct {
		config                            hosttest.Config
		authorization, own, cookie, query string
	}{
		"header with a prefix":    {config(), "Bearer first-session", "", "mine=1", "a=b"},
		"header without a prefix": {config("key", "X-Auth-Token", "prefix", nil), "", "first-session", "mine=1", "a=b"},
		"cookie":                  {config("in", "cookie", "key", "SID", "prefix", nil), "", "", "mine=1; SID=first-session", "a=b"},
		"query":                   {config("in", "query", "key", "my sid", "prefix", nil), "", "", "mine=1", "a=b&my%20sid=first-session"},
		"cookie and header": {
			config("in", "cookie", "key", "SID", "prefix", nil, "extra_from", "header:X-CSRF", "extra_header", "X-Auth-Token"),
			"", "the-csrf-token", "mine=1; SID=first-session", "a=b",
		},
		"two headers": {config("extra_from", "json:/user", "extra_header", "X-Auth-Token"), "Bearer first-session", "4711", "mine=1", "a=b"},
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.TokenEndpoint(endpoint, answer(200, `{"token":"first-session","user":4711}`, "X-CSRF", "the-csrf-token"))
			for range 2 {
				r := get()
				r.Header.Set("Cookie", "mine=1")
				got := h.Authenticate(test.config, r)
				if got.Header("Authorization") != test.authorization || got.Header("X-Auth-Token") != test.own ||
					got.Header("Cookie") != test.cookie || got.Request.URL.RawQuery != test.query {
					t.Errorf("%s with %v", got.Request.URL, got.Request.Header)
				}
			}
		})
	}
}

// The second step has the first step's answer, in its body, query or headers (specification.md 3.25).
func TestTwoSteps(t *testing.T) {
	for name, test := range map[string]struct {
		config       hosttest.Config
		target, body string
	}{
		"JSON and headers": {
			config("second_body", object{"ticket": "{first_answer}", "list": []any{"v1 {first_answer}"}}, "second_headers", object{"X-Ticket": "T {first_answer}"}),
			second, `{"list":["v1 the-first-answer"],"ticket":"the-first-answer"}`,
		},
		"form":      {config("second_request", "form", "second_body", object{"ticket": "{first_answer}", "n": 1}), second, "n=1&ticket=the-first-answer"},
		"query":     {config("second_request", "query", "second_body", object{"ticket": "{first_answer}"}), second + "?ticket=the-first-answer", ""},
		"no answer": {config("second_headers", object{"X-Ticket": "T {first_answer}"}), second, ""},
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.TokenEndpoint(endpoint, answer(200, `{"ticket":"the-first-answer","token":"third-session"}`))
			h.TokenEndpoint(test.target, session("first-session"))
			test.config["second_url"], test.config["first_answer_from"] = second, "json:/ticket"
			for range 2 {
				plugintest.Sends(t, h, test.config, get(), "Bearer first-session")
			}
			steps := h.Exchanges()
			if len(steps) != 2 || steps[0].URL != endpoint || steps[1].URL != test.target || steps[1].Body != test.body {
				t.Fatalf("steps: %+v", steps)
			}
			if test.config["second_headers"] != nil && steps[1].Header.Get("X-Ticket") != "T the-first-answer" {
				t.Errorf("headers of the second step: %v", steps[1].Header)
			}
		})
	}
}

// A session is used until 60 seconds before it ends. The answer says when, or token_ttl does (specification.md 3.26).
func TestSessionLifetime(t *testing.T) {
	for name, test := range map[string]struct {
		config hosttest.Config
		answer string
		// last is the last second in which the session is used, or -1 if it is not cached.
		last int
	}{
		"default":              {config(), `{"token":"first-session","ends":300}`, 3539},
		"token_ttl":            {config("token_ttl", 1200), `{"token":"first-session"}`, 1139},
		"seconds":              {config("expires_in_from", "json:/ends"), `{"token":"first-session","ends":300}`, 239},
		"text with seconds":    {config("expires_in_from", "json:/ends"), `{"token":"first-session","ends":"300.9"}`, 239},
		"time":                 {config("expires_at_from", "json:/ends"), `{"token":"first-session","ends":"2026-01-02T03:09:05Z"}`, 239},
		"time with a zone":     {config("expires_at_from", "json:/ends"), `{"token":"first-session","ends":"2026-01-02T05:09:05.5+02:00"}`, 239},
		"Unix time":            {config("expires_at_from", "json:/ends"), `{"token":"first-session","ends":1767323345}`, 239},
		"milliseconds":         {config("expires_at_from", "json:/ends"), `{"token":"first-session","ends":1767323345000}`, 239},
		"not in the answer":    {config("expires_in_from", "json:/ends", "token_ttl", 600), `{"token":"first-session"}`, 539},
		"unreadable":           {config("expires_at_from", "json:/ends", "token_ttl", 600), `{"token":"first-session","ends":"soon"}`, 539},
		"both, seconds first":  {config("expires_in_from", "json:/in", "expires_at_from", "json:/ends"), `{"token":"first-session","in":300,"ends":"2027-01-01T00:00:00Z"}`, 239},
		"61 seconds":           {config("expires_in_from", "json:/ends"), `{"token":"first-session","ends":61}`, 0},
		"a minute":             {config("expires_in_from", "json:/ends"), `{"token":"first-session","ends":60}`, -1},
		"over already":         {config("expires_at_from", "json:/ends"), `{"token":"first-session","ends":"2020-01-01T00:00:00Z"}`, -1},
		"token_ttl too short":  {config("token_ttl", 60), `{"token":"first-session"}`, -1},
		"never, as some write": {config("expires_at_from", "json:/ends"), `{"token":"first-session","ends":"9999-12-31T23:59:59Z"}`, 1 << 30},
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.TokenEndpoint(endpoint, answer(200, test.answer))
			h.Authenticate(test.config, get())
			h.Advance(time.Duration(max(test.last, 0)) * time.Second)
			h.Authenticate(test.config, get())
			want := 1
			if test.last < 0 {
				want = 2
			}
			plugintest.Exchanges(t, h, want)
			if cached := len(h.Warnings()) == 0; cached != (test.last >= 0) {
				t.Errorf("warnings: %q", h.Warnings())
			}
			if test.last < 0 || test.last == 1<<30 {
				return
			}
			h.Advance(time.Second)
			h.Authenticate(test.config, get())
			plugintest.Exchanges(t, h, 2)
		})
	}
}

// After one of the statuses in login_again, the plugin logs in again, and the request is sent once more
// (specification.md 3.26, specification.md "a session that is over").
func TestEndedSession(t *testing.T) {
	for name, test := range map[string]struct {
		again  any
		status int
		logins int
	}{
		"401":                 {nil, 401, 2},
		"401 of others":       {"440 403", 401, 1},
		"403":                 {nil, 403, 1},
		"403, if listed":      {"401 403", 403, 2},
		"440, if listed":      {"440", 440, 2},
		"400, if listed":      {"400", 400, 2},
		"404":                 {nil, 404, 1},
		"419 from a template": {"{{ get_variable('again') }}", 419, 2},
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.Variable("again", "419 498")
			h.TokenEndpoint(endpoint, session("first-session"), session("second-session"))
			c := config("login_again", test.again)
			h.Authenticate(c, get())
			h.API(answer(test.status, "it is over"), answer(200, "{}"))
			got := h.Authenticate(c, hosttest.POST("https://api.test/v1", "the body"))
			body, _ := io.ReadAll(got.Response.Body)
			if len(h.Exchanges()) != test.logins || got.Attempts != test.logins {
				t.Fatalf("%d logins and %d attempts, %d are right", len(h.Exchanges()), got.Attempts, test.logins)
			}
			if test.logins == 1 {
				if got.Response.StatusCode != test.status || string(body) != "it is over" {
					t.Errorf("the caller gets %d with %q", got.Response.StatusCode, body)
				}
				return
			}
			read, _ := io.ReadAll(got.Request.Body)
			if got.Header("Authorization") != "Bearer second-session" || got.Response.StatusCode != http.StatusOK || string(read) != "the body" {
				t.Errorf("%d for %v with %q", got.Response.StatusCode, got.Request.Header, read)
			}
		})
	}
}

// Statuses from a template that do not end a session are an error, before anybody logs in.
func TestStatusesKeepingSession(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for _, statuses := range []string{"4010 1401 40", "401  403", "500", "401,403"} {
			h.As(host.User{Username: statuses})
			err := h.AuthenticateError(config("login_again", "{{ user.username }}"), get())
			if !strings.Contains(err.Error(), "login_again may list these") || len(h.Exchanges()) != 0 {
				t.Errorf("%s: %v, after %d logins", statuses, err, len(h.Exchanges()))
			}
		}
	})
}

// A new session that the API refuses, too, is not replaced again at once: there is one renewal in 10 seconds
// (specification.md "a session that is over").
func TestAPIRefusesEverySession(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(endpoint, session("first-session"), session("second-session"), session("third-session"))
		h.API(answer(401, "no"))
		for i, want := range []struct {
			pass             time.Duration
			attempts, logins int
		}{{0, 1, 1}, {0, 2, 2}, {0, 1, 2}, {9 * time.Second, 1, 2}, {time.Second, 2, 3}} {
			h.Advance(want.pass)
			got := h.Authenticate(config(), get())
			if got.Response.StatusCode != http.StatusUnauthorized || got.Attempts != want.attempts || len(h.Exchanges()) != want.logins {
				t.Errorf("request %d: %d after %d attempts and %d logins", i, got.Response.StatusCode, got.Attempts, len(h.Exchanges()))
			}
		}
	})
}

// If the body of a refused request cannot be sent again, the caller gets the 401, and the next request a new session.
func TestUnreplayableBody(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(endpoint, session("first-session"), session("second-session"))
		h.Authenticate(config(), get())
		h.API(answer(401, "no"), answer(200, "{}"))
		r := hosttest.POST("https://api.test/v1", "the body")
		r.GetBody = nil
		plugintest.Answers(t, h, config(), r, http.StatusUnauthorized, 1)
		if got := h.Authenticate(config(), get()); got.Header("Authorization") != "Bearer second-session" || got.Attempts != 1 {
			t.Errorf("%v after %d attempts", got.Request.Header, got.Attempts)
		}
	})
}

// A login that fails is an error that says which step failed. The request is not sent.
func TestFailedLogins(t *testing.T) {
	twoSteps := func() hosttest.Config {
		return config("second_url", second, "first_answer_from", "json:/ticket", "second_body", object{"t": "{first_answer}"})
	}
	for name, test := range map[string]struct {
		config        hosttest.Config
		first, second hosttest.Answer
		text          string
	}{
		"refused":                    {config(), answer(403, `{"token":"first-session"}`), nil, "answered 403; it is asked again in 1s: check login_body and login_headers"},
		"no token":                   {config(), answer(200, `{"ok":false,"error":"wrong"}`), nil, "answered 200 without token"},
		"blank token":                {config(), answer(200, `{"token":" "}`), nil, "answered 200 without token"},
		"no JSON":                    {config(), answer(200, `<html>`), nil, "answered 200 without token"},
		"redirect without a session": {config(), answer(302, ``, "Location", "/login?error"), nil, "answered 302 without token"},
		"no extra value":             {config("extra_from", "header:X-CSRF", "extra_header", "X-CSRF"), session("first-session"), nil, "answered 200 without extra"},
		"no first answer":            {twoSteps(), session("first-session"), nil, "answered 200 without first_answer"},
		"second step refused":        {twoSteps(), answer(200, `{"ticket":"the-first-answer"}`), answer(401, `{}`), "answered 401; it is asked again in 1s: check second_body and second_headers"},
		"unreachable":                {config(), hosttest.Unreachable(), nil, "cannot be reached"},
	} {
		run.Case(t, name, func(t *testing.T, h *hosttest.Harness) {
			h.TokenEndpoint(endpoint, test.first)
			if test.second != nil {
				h.TokenEndpoint(second, test.second)
			}
			err := h.AuthenticateError(test.config, get())
			if !strings.Contains(err.Error(), test.text) || err.Stage != host.StageToken {
				t.Errorf("stage %s: %v", err.Stage, err)
			}
		})
	}
}

// An explanation logs in nowhere, and shows the login and neither password nor token.
func TestExplain(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		e := h.Explain(config("login_again", "440"), get())
		if len(e.Added.Headers) != 1 || e.Added.Headers[0].Value != "Bearer <token>" || len(h.Exchanges()) != 0 {
			t.Errorf("added: %+v, %d logins", e.Added, len(h.Exchanges()))
		}
		if len(e.Steps) != 1 || e.Steps[0].Exchange == nil || e.Steps[0].Exchange.Body != `{"password":"{{ get_secret('pw') }}","username":"ann"}` {
			t.Errorf("steps: %+v", e.Steps)
		}
	})
}

// threats.md 103: what a user chooses is no placeholder and no escape, in the body of either kind and in headers. The first
// step replaces nothing.
func TestPlaceholderInValuesOfUsers_threats_103(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		h.TokenEndpoint(endpoint, answer(200, `{"ticket":"the-first-answer"}`))
		h.TokenEndpoint(second, session("first-session"))
		for _, name := range []string{`{first_answer}`, `\{first_answer}`, `\\{first_answer}`, `CORP\tom "{"`, `\`, `{`} {
			for _, kind := range []string{"json", "form"} {
				h.As(host.User{ID: name + kind, Username: name})
				h.Authenticate(config("second_url", second, "first_answer_from", "json:/ticket", "second_request", kind,
					"login_body", object{"user": `\\{first_answer}{{ user.username }}`},
					"second_body", object{"ticket": `{first_answer}\{first_answer}\n\\{{ user.username }}"`}, "second_headers", object{"X-User": "{{ user.username }}"}), get())
				steps := h.Exchanges()
				last, text := steps[len(steps)-1], `the-first-answer{first_answer}\n\`+name+`"`
				want := `{"ticket":` + quoted(t, text) + `}`
				if kind == "form" {
					want = "ticket=" + url.QueryEscape(text)
				}
				if last.URL != second || last.Body != want || last.Header.Get("X-User") != name {
					t.Errorf("%s: %s with X-User: %s\nwant %s", name, last.Body, last.Header.Get("X-User"), want)
				}
				if first := steps[len(steps)-2]; first.Body != `{"user":`+quoted(t, `\\{first_answer}`+name)+`}` {
					t.Errorf("%s: first.Body = %s", name, first.Body)
				}
			}
		}
	})
}

// quoted returns text as a text of JSON.
func quoted(t *testing.T, text string) string {
	t.Helper()
	document := testworld.Must(json.Marshal(text))(t)
	return string(document)
}

// All problems are reported at once, each with its path.
func TestProblems(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		for text, c := range map[string]hosttest.Config{
			"first_answer_from second_request second_body second_headers": config("first_answer_from", "json:/a", "second_request", "form", "second_body", object{}, "second_headers", object{}),

			"login_url token_from key":                 {},
			"login_url login_request in token_ttl url": config("login_url", "http://api.test", "login_request", "xml", "in", "body", "token_ttl", 0, "url", "x"),
			"token_from expires_at_from":               config("token_from", "body:/a", "expires_at_from", "{{ user.id }}"),
			"first_answer_from":                        config("second_url", second),
			"extra_header ":                            config("extra_header", "X-CSRF"),
			"login_headers second_headers login_body":  config("login_headers", object{"a": []any{}}, "second_url", second, "first_answer_from", "json:/a", "second_headers", object{"a": nil}, "login_request", "form", "login_body", object{"a": object{}}),
			"login_headers.Host second_headers.a:b":    config("login_headers", object{"Host": "a"}, "second_url", second, "first_answer_from", "json:/a", "second_headers", object{"a:b": "1", "X-A": "{first_answer}"}),
			"extra_header":                             config("extra_from", "header:X-CSRF", "extra_header", "X CSRF"),
			" extra_header":                            config("extra_header", " "),
			"login_again":                              config("login_again", "401 500"),
			"key":                                      config("key", "Host"),
			"key prefix":                               config("in", "cookie", "key", "a b"),
			"prefix":                                   config("in", "query", "key", "Host"),
			"":                                         config("in", "cookie", "key", "Host", "prefix", nil),
		} {
			var paths []string
			for _, problem := range h.Problems(c) {
				paths = append(paths, strings.TrimPrefix(problem.Path, "auth.config."))
			}
			for _, path := range strings.Fields(text) {
				if !strings.Contains(" "+strings.Join(paths, " ")+" ", " "+path+" ") {
					t.Errorf("no problem at %s, but at %v", path, paths)
				}
			}
			if len(paths) != len(strings.Fields(text)) {
				t.Errorf("problems at %v, not at %s", paths, text)
			}
		}
	})
}
