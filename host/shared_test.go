package host_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/host"
)

// changing is a base that changes and keeps all requests that it gets: their headers and their URL. It refuses every third one of a user.
type changing struct {
	t  *testing.T
	mu sync.Mutex
	// kept has the requests of each user.
	kept map[string][]*http.Request
}

func (b *changing) RoundTrip(r *http.Request) (*http.Response, error) {
	user := r.Header.Get("X-User")
	if got := r.Header["X-Key"]; len(got) != 1 || got[0] != "key of "+user {
		b.t.Errorf("a request of %s has the credential %q", user, got)
	}
	b.mu.Lock()
	b.kept[user] = append(b.kept[user], r)
	status := http.StatusOK
	if len(b.kept[user])%3 == 1 {
		status = http.StatusUnauthorized
	}
	b.mu.Unlock()
	for name := range r.Header {
		r.Header.Add(name, "more of "+user)
	}
	r.Header["X-Key"][0] = "changed"
	r.URL.Host, r.URL.Path, r.Host = "elsewhere.test", "/"+user, "elsewhere.test"
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

// A base may change the headers and the URL of the request that it gets, and keep it. Neither the caller's request nor that of somebody
// else changes, with and without a guard and spans (threats.md 283).
func TestRequestsShareNothingMutable(t *testing.T) {
	for name, change := range map[string]func(*host.Config){"without spans": func(*host.Config) {}, "with spans": withTracer(&spans{})} {
		t.Run(name, func(t *testing.T) {
			base := &changing{t: t, kept: map[string][]*http.Request{}}
			w := newWorld(t, change)
			w.setSecret("prefix", "key of ")
			c := w.connect("api_key", config{"key": "X-Key", "in": "header", "value": "{{ get_secret('prefix') }}{{ user.id }}"})
			identity := []string{"identity"} // shared by all requests, as in a gateway
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					user := fmt.Sprint("user-", i)
					for round := range 20 {
						transport := c.Transport(base)
						if round%2 == 1 {
							transport = c.GuardedTransport(base)
						}
						r := get(host.WithUser(t.Context(), host.User{ID: user}))
						room := append(make([]string, 0, 8), "a value") // with room behind it
						r.Header = http.Header{"X-User": {user}, "X-Room": room, "Accept-Encoding": identity}
						url := r.URL.String()
						response, err := transport.RoundTrip(r)
						if err != nil {
							t.Error(err)
							return
						}
						_ = response.Body.Close()
						if response.Request != r || r.URL.String() != url || len(r.Header) != 3 || len(r.Header["X-Room"]) != 1 || room[:2][1] != "" || identity[0] != "identity" {
							t.Errorf("the request of %s has become %s %v", user, r.URL, r.Header)
						}
					}
				})
			}
			all.Wait()
		})
	}
}
