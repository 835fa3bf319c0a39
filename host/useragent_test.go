package host_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/keywright/keywright/host"
)

// specification.md "User-Agent": a request without one has that of the configuration, and without a configuration net/http's, on the wire.
func TestUserAgent(t *testing.T) {
	var received []string
	api := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { received = r.Header["User-Agent"] }))
	t.Cleanup(api.Close)
	for name, c := range map[string]struct {
		configured  string
		given, want []string
	}{
		"net/http's":            {"", nil, []string{"Go-http-client/1.1"}},
		"configured":            {"keywright/v1", nil, []string{"keywright/v1"}},
		"the caller's":          {"keywright/v1", []string{"acme"}, []string{"acme"}},
		"the caller wants none": {"keywright/v1", []string{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(h *host.Config) {
				h.UserAgent, h.Base, h.Egress = c.configured, nil, host.Egress{AllowHTTP: true, AllowPrivate: true}
			})
			w.canary("s")
			connector := w.connectTo(api.URL, credentials["custom header"])
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api.URL, nil)
			if err != nil {
				t.Fatal(err)
			}
			if c.given != nil {
				r.Header["User-Agent"] = c.given
			}
			response, err := connector.Transport(nil).RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if !slices.Equal(received, c.want) {
				t.Errorf("the API received %q, want %q", received, c.want)
			}
		})
	}
}

// A token request has the User-Agent of the configuration.
func TestUserAgentOfTokenRequests(t *testing.T) {
	w := newWorld(t, func(c *host.Config) { c.UserAgent = "keywright/v1" })
	w.canary("s")
	w.get(w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")))
	if got := w.login.Last().Header.Get("User-Agent"); got != "keywright/v1" {
		t.Errorf("the token endpoint received the User-Agent %q", got)
	}
}
