package gateway_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/trial"
)

// threats.md 27: a user's value stays in its segment of the connector's URL, or is refused. The definition's own text before
// it stays as it is written, and is not checked.
func TestValuesStayInTheirSegment_threats_27(t *testing.T) {
	const refused = "a value that is part of the API's path has a character that ends a segment of one"
	w := newWorld(t)
	for _, c := range []struct{ url, user, want string }{
		{"/v1/{{ user.id }}/x", "ann", "/v1/ann/x"},
		{"/v1/{{ user.id }}/x", "ann lee", "/v1/ann%20lee/x"},
		{"/v1/{{ user.id }}/x", "a/b", refused},
		{"/v1/{{ user.id }}/x", "a;b", refused},
		{"/v1/{{ user.id }}/x", "a?b", refused},
		{"/v1/{{ user.id }}/x", `a\b`, refused},
		{"/v1/{{ user.id }}/x", "a%2fb", refused},
		{"/v1/user-{{ user.id }}/x", "a/b", refused},
		{"/v1/{{ default(user.username, '') }}/x", "ann", "a value that is part of the API's path is empty"},
		{"/v1/{{ default(user.username, '') }}", "ann", "a value that is part of the API's path is empty"},
		{"/v1//{{ user.id }}/", "ann", "/v1//ann/"},
		{"/v1/{{ user.id }}/x", "..", "url: the path has a segment . or .., which would leave the connector's url"},

		// The same holds in a URL with a character that must be encoded.
		{"/räume/{{ user.id }}/x", "ann", "/r%C3%A4ume/ann/x"},
		{"/räume/{{ user.id }}/x", "a/b", refused},
		{"/a b/{{ user.id }}", "a/b", refused},
		{"/a|b/{{ user.id }}", "a/b", refused},
		{"/v1/{{ user.id }}/é", "a/b", refused},
		{"/räume%2F1", "", "/r%C3%A4ume%2F1"},

		{"/group%2Fproject;v=1/{{ user.id }}", "ann", "/group%2Fproject;v=1/ann"},
		{"/group%2Fproject;v=1/{{ user.id }}", "a/b", refused},
		{"/v1/{{ user.id }}/group%2Fproject", "ann", refused},
		{"/group%2Fproject?who={{ user.id }}", "a/b?c&d", "/group%2Fproject?who=a%2Fb%3Fc%26d"},
		{"/group%2Fproject?{{ user.id }}", "a/b", "/group%2Fproject?a%2Fb"},
	} {
		connector := w.connector(gateway.Definition{Permalink: "x", URL: w.api.URL + c.url, Auth: host.Auth{Type: "none"}})
		out, err := trial.NewOutgoing(host.WithUser(t.Context(), host.User{ID: c.user}), connector, trial.Incoming{Method: "GET"})
		var got string
		if err != nil {
			got = err.Error()
		} else {
			got = strings.TrimPrefix(out.URL.String(), w.api.URL)
		}
		var refusal *trial.Refusal
		if got != c.want || errors.As(err, &refusal) != strings.HasPrefix(c.want, "a value") || refusal != nil && refusal.Status != http.StatusBadRequest {
			t.Errorf("%s for %s: %s (%T), want %s", c.url, c.user, got, err, c.want)
		}
	}
}

// A request whose URL lacks a value is not sent, and the log has the reason.
func TestURLWithoutItsUser(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) { d.URL += "/{{ user.id }}" })
	if got := w.get("/connectors/weather"); got.kind != "authentication-failed" || w.received() > 0 || !strings.Contains(w.log.String(), "url: column ") {
		t.Errorf("the caller got %+v, and the log is %s", got, w.log.String())
	}
	if problems := w.problems(gateway.Definition{URL: w.api.URL + "/{{ nope }}"}); len(problems) != 1 || problems[0].Path != "url" {
		t.Errorf("complained of is %+v", problems)
	}
}

// A value cannot break out of its header. In a query, everything is encoded.
func TestValuesOfHeaders(t *testing.T) {
	w := newWorld(t)
	name := []gateway.Parameter{{Name: "X-Name", Value: "{{ user.first_name }}"}}
	d := gateway.Definition{Permalink: "x", URL: w.api.URL, Auth: host.Auth{Type: "none"}, Headers: name}
	inHeader := w.connector(d)
	d.Headers, d.Query = nil, name
	inQuery := w.connector(d)
	for value, fits := range map[string]bool{"a b": true, "a\tb": true, "ü": true, "a\nb": false, "a\rb": false, "a\x00b": false, "a\x1fb": false, "a\x7fb": false} {
		ctx := host.WithUser(t.Context(), host.User{FirstName: value})
		out, err := trial.NewOutgoing(ctx, inHeader, trial.Incoming{})
		switch {
		case fits && (err != nil || out.Header.Get("X-Name") != value):
			t.Errorf("%q: out = %+v, err = %v", value, out, err)
		case !fits && (err == nil || err.Error() != "header X-Name: its value has a line break or another control character"):
			t.Errorf("%q: the error is %v", value, err)
		}
		if out, err := trial.NewOutgoing(ctx, inQuery, trial.Incoming{}); err != nil || out.URL.Query().Get("X-Name") != value {
			t.Errorf("%q in a query: %+v, %v", value, out, err)
		}
	}
}

// An operator may use methods, paths and parameters that callers may not, but cannot replace values of the definition.
func TestRequestsOfOperators(t *testing.T) {
	w := newWorld(t)
	c := w.connector(gateway.Definition{
		Permalink: "x", URL: w.api.URL + "/v1?a=1", Auth: host.Auth{Type: "none"}, Paths: []string{"/users/*"},
		Query: []gateway.Parameter{{Name: "units", Value: "metric", Overridable: true}, {Name: "key", Value: "{{ get_secret('key') }}"}},
	})
	for query, want := range map[string]string{
		"":                "a=1&units=metric&key=" + secret,
		"q=7;8&q=%zz":     "a=1&units=metric&key=" + secret + "&q=7;8&q=%zz",
		"units=us&b=%26":  "a=1&key=" + secret + "&units=us&b=%26",
		"units=us&key=me": "the query parameter key is the definition's",
	} {
		in := trial.Incoming{Method: "DELETE", Path: "/any/path", Query: query, Header: http.Header{"X-Own": {"own"}}, Trusted: true}
		out, err := trial.NewOutgoing(t.Context(), c, in)
		if err != nil {
			if err.Error() != want {
				t.Errorf("%q: err = %v", query, err)
			}
			continue
		}
		if out.URL.String() != w.api.URL+"/v1/any/path?"+want || out.Method != http.MethodDelete || out.Header.Get("X-Own") != "own" {
			t.Errorf("%q: out.Method = %s out.URL = %s, out.Header = %v", query, out.Method, out.URL, out.Header)
		}
		masked := strings.ReplaceAll(out.URL.String(), secret, "{{ get_secret('key') }}")
		in.Masked = true
		if shown := testworld.Must(trial.NewOutgoing(t.Context(), c, in))(t); shown.URL.String() != masked || shown.Method != http.MethodDelete || shown.Header.Get("X-Own") != "own" {
			t.Errorf("%q is shown as %s %s, %v", query, shown.Method, shown.URL, shown.Header)
		}
		in.Trusted = false
		if _, err := trial.NewOutgoing(t.Context(), c, in); err == nil {
			t.Errorf("%q: a caller may", query)
		}
	}
}
