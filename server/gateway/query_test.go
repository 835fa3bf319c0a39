package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/trial"
)

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

// A caller's empty header is sent, and one that may be repeated too. An empty value of the definition is not sent.
func TestHeadersAsConfigured(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) {
		d.Headers = []gateway.Parameter{
			{Name: "X-Empty", Value: "1", Overridable: true}, {Name: "X-Many", Overridable: true, Repeated: true}, {Name: "X-None", Overridable: true},
		}
	})
	w.get("/connectors/weather", "X-Empty", "", "X-Many", "a", "X-Many", "b")
	sent := w.last().Header
	if got := sent["X-Empty"]; len(got) != 1 || got[0] != "" || strings.Join(sent["X-Many"], "|") != "a|b" || sent["X-None"] != nil {
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
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Headers = c.own })
			w.get("/connectors/weather", "User-Agent", "mine")
			if got := w.last().Header["User-Agent"]; strings.Join(got, "|") != c.want {
				t.Errorf("the API received the User-Agent %q", got)
			}
			if got := w.result(trial.Try{}); got.Status != http.StatusOK {
				t.Errorf("a test: %+v", got)
			}
		})
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
