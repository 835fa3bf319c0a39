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
		connector := w.connector(gateway.Definition{Permalink: "x", URL: w.api.URL + c.url, Auth: []host.Auth{{Type: "none"}}})
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
	if _, paths := w.problems(gateway.Definition{URL: w.api.URL + "/{{ nope }}"}); paths != "url" {
		t.Errorf("complained of is %s", paths)
	}
}

// A value cannot break out of its header. In a query, everything is encoded.
func TestValuesOfHeaders(t *testing.T) {
	w := newWorld(t)
	name := []gateway.Parameter{{Name: "X-Name", Value: "{{ user.first_name }}"}}
	d := gateway.Definition{Permalink: "x", URL: w.api.URL, Auth: []host.Auth{{Type: "none"}}, Headers: name}
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
		Permalink: "x", URL: w.api.URL + "/v1?a=1", Auth: []host.Auth{{Type: "none"}}, Paths: []string{"/users/*"},
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

// A pattern with a slash at its end is for that path alone: a slash counts at some APIs.
func TestSlashAtTheEndOfAPattern(t *testing.T) {
	w := newWorld(t)
	c := w.connector(gateway.Definition{Permalink: "x", URL: w.api.URL + "/v3", Auth: []host.Auth{{Type: "none"}}, Paths: []string{"/users/me/", "/lists/*/", "/"}})
	for path, want := range map[string]bool{
		"/users/me/": true, "/users/me": false, "/users/me//": false, "/users//": false, "/lists/7/": true, "/lists//": false, "/": true, "//": false,
	} {
		out, err := trial.NewOutgoing(t.Context(), c, trial.Incoming{Method: "GET", Path: path, Header: http.Header{}})
		if (err == nil) != want || want && out.URL.String() != w.api.URL+"/v3"+path {
			t.Errorf("%s: out = %v, err = %v", path, out, err)
		}
	}
}

// asS3 is a definition whose API takes subresources, which are parameters without a value.
func asS3(_ *options, d *gateway.Definition) {
	d.Methods, d.Paths = []string{"GET", "POST", "PUT", "DELETE", "OPTIONS"}, []string{"/**"}
	d.Query = []gateway.Parameter{
		{Name: "tagging", Overridable: true},
		{Name: "max-keys", Value: "50", Overridable: true},
		{Name: "v", Value: "2"},
		{Name: "none"},
		{Name: "list[]", Value: "a", Overridable: true, Repeated: true},
	}
}

// specification.md "a parameter without a value", threats.md 310: the API gets the caller's parameters as they were given, or no request.
// Without one of them, the request may be another operation.
func TestQueryAsConfigured(t *testing.T) {
	const own = "max-keys=50&v=2&list%5B%5D=a"
	for _, c := range []struct{ method, query, want string }{
		{"GET", "", own},
		{"DELETE", "tagging", "tagging&" + own},
		{"DELETE", "tagging=", "tagging=&" + own},
		{"PUT", "tagg%69ng", "tagging&" + own},
		{"PUT", "max-keys", "max-keys&v=2&list%5B%5D=a"},
		{"GET", "max-keys=", "max-keys=&v=2&list%5B%5D=a"},
		{"GET", "list[]=x%20y&v=9&list[]=&list[]", "max-keys=50&v=2&list%5B%5D=x%20y&list%5B%5D=&list%5B%5D"},
		{"GET", "acl&tagging", "tagging&" + own},
		{"OPTIONS", "acl", own},
		{"POST", "v=9", own}, // the definition's own takes its place
		{"POST", "acl", "the query parameter acl is not passed on, and POST may do something else without it"},
		{"DELETE", "tagging&acl=", "the query parameter acl is not passed on"},
		{"DELETE", "none", "the query parameter none is not passed on"}, // nothing would take its place
		{"DELETE", "Tagging", "the query parameter Tagging is not passed on"},
		// specification.md "a parameter given twice": servers differ in which one counts
		{"GET", "tagging&tagging", "the query parameter tagging is there twice: the connector allows that with repeated: true"},
	} {
		t.Run(c.method+" "+c.query, func(t *testing.T) {
			w := newWorld(t, asS3)
			got := w.do(w.request(c.method, "/connectors/weather/key?"+c.query, ""))
			if strings.HasPrefix(c.want, "the ") {
				if got.status != http.StatusBadRequest || got.kind != "bad-request" || !strings.Contains(got.body, c.want) || w.received() > 0 {
					t.Errorf("the caller got %d %s", got.status, got.body)
				}
				return
			}
			if got.status != http.StatusOK || w.last().URL.RawQuery != c.want {
				t.Errorf("the caller got %d, and the API %s", got.status, w.last().URL.RawQuery)
			}
		})
	}
}

// A caller's empty header is sent, and one that may be repeated too. An empty value of the definition is not sent. Lines of Accept are joined.
func TestHeadersAsConfigured(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) {
		d.Headers = []gateway.Parameter{
			{Name: "X-Empty", Value: "1", Overridable: true}, {Name: "X-Many", Overridable: true, Repeated: true}, {Name: "X-None", Overridable: true},
		}
	})
	w.get("/connectors/weather", "X-Empty", "", "X-Many", "a", "X-Many", "b", "Accept", "text/html", "Accept", "application/json")
	sent := w.last().Header
	if got := sent["X-Empty"]; len(got) != 1 || got[0] != "" || strings.Join(sent["X-Many"], "|") != "a|b" || sent["X-None"] != nil || strings.Join(sent["Accept"], "|") != "text/html, application/json" {
		t.Errorf("the API received %v", sent)
	}
}

// specification.md "User-Agent": the connector's own goes before the host's, and a caller's before both where it passes.
func TestUserAgent(t *testing.T) {
	for name, c := range map[string]struct {
		own  []gateway.Parameter
		want string
	}{
		"none":        {nil, agent},
		"own":         {[]gateway.Parameter{{Name: "user-agent", Value: "acme/1.0"}}, "acme/1.0"},
		"empty":       {[]gateway.Parameter{{Name: "User-Agent", Value: ""}}, ""},
		"overridable": {[]gateway.Parameter{{Name: "User-Agent", Value: "acme/1.0", Overridable: true}}, "mine"},
	} {
		w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Headers = c.own })
		w.get("/connectors/weather", "User-Agent", "mine")
		if got := w.last().Header["User-Agent"]; strings.Join(got, "|") != c.want {
			t.Errorf("%s: the API received the User-Agent %q", name, got)
		}
		if got := w.result(trial.Try{}); got.Status != http.StatusOK {
			t.Errorf("%s: a test: %+v", name, got)
		}
	}
}

// A segment may have encoded slashes where the definition says so, as in the paths of projects at GitLab. It holds nothing else that
// may end a segment.
func TestSegmentWithSlashes(t *testing.T) {
	for path, passes := range map[string]bool{
		"/projects/group%2Fproject/issues":   true,
		"/projects/group%2fsub%2Fone/issues": true,
		"/projects/7/issues":                 true,
		"/projects/a%20b/issues":             true,
		"/projects/a/b/issues":               false,
		"/projects/a%252Fb/issues":           false,
		"/projects/a%2F%252Fb/issues":        false,
		"/projects/a%2F%2Fb/issues":          false,
		"/projects/%2F/issues":               false,
		"/projects/a%2F/issues":              false,
		"/projects/a%2F../issues":            false,
		"/projects/a%2F%2e%2e%2Fb/issues":    false,
		"/projects/a%5Cb/issues":             false,
		"/projects/a%3Fb/issues":             false,
		"/projects/a%3Bb/issues":             false,
		"/projects//issues":                  false,
		"/users/a%2Fb":                       false,
	} {
		w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Paths = []string{"/users/*", "/projects/*%2F*/issues"} })
		got := w.get("/connectors/weather" + path)
		if (got.status == http.StatusOK) != passes || passes && w.last().URL.EscapedPath() != "/v1"+path || !passes && w.received() > 0 {
			t.Errorf("%s: got.status = %d got.body = %s", path, got.status, got.body)
		}
	}
}
