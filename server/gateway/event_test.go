package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
)

// An event has all that metrics by tenant need, and of the path only its pattern: a path may have personal data.
func TestEventSaysWhatWasAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		method, path            string
		wantMethod, wantPattern string
		status, upstream        int
	}{
		"no path":              {"GET", "", "GET", "", 418, 418},
		"pattern of the path":  {"GET", "/users/ann?mail=ann", "GET", "/users/*", 418, 418},
		"pattern of any depth": {"BREW", "/open/a/b", "BREW", "/open/**", 418, 418},
		"path without pattern": {"GET", "/ann", "GET", "", 404, 0},
		"other method":         {"ANN", "/users/ann", "OTHER", "", 405, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var events []gateway.Event
			w := newWorld(t, func(o *options, d *gateway.Definition) {
				o.Observe = func(e gateway.Event) { events = append(events, e) }
				o.Users = users(func(*http.Request) (host.User, error) { return host.User{ID: "ann", TenantID: "acme"}, nil })
				d.Paths, d.Methods = []string{"/users/*", "/open/**"}, []string{"GET", "BREW"}
			})
			w.answer = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusTeapot) }
			w.gateway.Handler().ServeHTTP(httptest.NewRecorder(), w.request(c.method, "/connectors/weather"+c.path, ""))
			if len(events) != 1 {
				t.Fatalf("events: %+v", events)
			}
			e := events[0]
			if e.Method != c.wantMethod || e.Pattern != c.wantPattern || e.Status != c.status || e.UpstreamStatus != c.upstream || e.Tenant != "acme" || e.User != "ann" {
				t.Errorf("the event is %+v", e)
			}
		})
	}
}
