package main

import (
	"encoding/json"
	"net/url"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/testworld"
)

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
