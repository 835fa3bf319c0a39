package gateway_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/gateway"
	"github.com/keywright/keywright/host"
)

// threats.md 27: a user's value stays in its segment of the connector's URL, or is refused.
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
		{"/v1/{{ user.id }}/x", "..", "url: the path has a segment . or .., which would leave the connector's url"},

		// A character that a URL has to have encoded changes nothing of that.
		{"/räume/{{ user.id }}/x", "ann", "/r%C3%A4ume/ann/x"},
		{"/räume/{{ user.id }}/x", "a/b", refused},
		{"/a b/{{ user.id }}", "a/b", refused},
		{"/a|b/{{ user.id }}", "a/b", refused},
		{"/v1/{{ user.id }}/é", "a/b", refused},
		{"/räume%2F1", "", "/r%C3%A4ume%2F1"},
	} {
		connector := w.connector(gateway.Definition{Permalink: "x", URL: w.api.URL + c.url, Auth: host.Auth{Type: "none"}})
		out, err := connector.Outgoing(host.WithUser(t.Context(), host.User{ID: c.user}), gateway.Incoming{Method: http.MethodGet})
		var got string
		if err != nil {
			got = err.Error()
		} else {
			got = strings.TrimPrefix(out.URL.String(), w.api.URL)
		}
		var refusal *gateway.Refusal
		if got != c.want || errors.As(err, &refusal) != (c.want == refused) || refusal != nil && refusal.Status != http.StatusBadRequest {
			t.Errorf("%s for %s: %s (%T), want %s", c.url, c.user, got, err, c.want)
		}
	}
}
