package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/trial"
)

// threats.md 27: for any caller's request and any user, the request to the API stays below the definition's URL, in its paths,
// and has only its parameters and headers.
func FuzzOutgoing(f *testing.F) {
	for _, seed := range [][3]string{
		{"users/1", "q=x", "ann"},
		{"users/..%2f..", "q=x&key=mine", "../admin"},
		{"//evil.test/x", "q=a%26key=b", "a/b"},
		{"users/%252e%252e", "q=1;key=2", "a?b#c"},
		{"users/@evil.test", "%71=1&q", "\\evil.test"},
		{"users/a;b", "q=%00", ".."},
		{"open/a/b/c?x", "q=#", "%2e%2e"},
		{"open/a%3fb", "q=1", "u"},
		{"open/%2523/%5c", "q=1", "u"},
		{"open/．．/．．", "q=1", "u"},
	} {
		f.Add(seed[0], seed[1], seed[2], "a header")
	}
	h := testworld.Must(host.New(context.Background(), host.Config{}))(f)
	d := gateway.Definition{
		Name: "A", Permalink: "a", URL: "https://api.test/ü1/{{ user.id }}/x?who={{ user.id }}", Auth: []host.Auth{{Type: "none"}}, Paths: []string{"/users/*", "/open/**"},
		Headers: []gateway.Parameter{{Name: "X-Lang", Value: "en", Overridable: true}}, Query: []gateway.Parameter{{Name: "q", Overridable: true}},
	}
	c := testworld.Must(gateway.NewConnector(context.Background(), h, d))(f)
	f.Fuzz(func(t *testing.T, path, query, user, header string) {
		ctx := host.WithUser(context.Background(), host.User{ID: user})
		out, err := trial.NewOutgoing(ctx, c, trial.Incoming{Path: path, Query: query, Header: http.Header{"X-Lang": {header}, "X-Key": {header}}})
		var refused *trial.Refusal
		if err != nil {
			if errors.As(err, &refused) && (refused.Status < 400 || refused.Status > 499) {
				t.Errorf("status %d", refused.Status)
			}
			return
		}
		again := testworld.Must(url.Parse(out.URL.String()))(t) // as a server reads it
		if again.Scheme != "https" || again.Host != "api.test" || again.User != nil || again.Fragment != "" {
			t.Errorf("the URL is %s", again)
		}
		segments := strings.Split(again.EscapedPath(), "/")
		if len(segments) < 4 || segments[1] != "%C3%BC1" || segments[2] != url.PathEscape(user) || segments[3] != "x" {
			t.Errorf("the path is %s", again.EscapedPath())
		}
		for _, segment := range segments {
			for range 3 {
				if segment == "." || segment == ".." {
					t.Errorf("the path goes up: %s", again.EscapedPath())
				}
				if strings.ContainsAny(segment, `?#\`) && user == url.PathEscape(user) {
					t.Errorf("a server may see the end of the path in %s", again.EscapedPath())
				}
				segment, _ = url.PathUnescape(segment)
			}
		}
		if len(segments) > 4 && segments[4] != "users" && segments[4] != "open" || len(segments) > 5 && segments[4] == "users" && len(segments) != 6 {
			t.Errorf("the path is none of the definition's: %s", again.EscapedPath())
		}
		values, err := url.ParseQuery(again.RawQuery)
		if err != nil || len(values["q"]) > 1 || len(values) != 1+len(values["q"]) || len(values["who"]) != 1 || values.Get("who") != user {
			t.Errorf("the query is %s: %v", again.RawQuery, err)
		}
		if len(out.Header) != 1 && header != "" {
			t.Errorf("the headers are %v", out.Header)
		}
	})
}
