package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
)

// threats.md 57: an expression that would run for hours ends with an error.
func TestExpressionsEnd(t *testing.T) {
	list := strings.Repeat(",1", 20_000)
	for name, change := range map[string]change{
		"response.body": func(_ *options, d *gateway.Definition) {
			d.Response.Body = "all(response.body, not (2 in response.body))"
		},
		"response.filter": func(_ *options, d *gateway.Definition) { d.Response.Filter = "not (2 in response.body)" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, change, func(_ *options, d *gateway.Definition) { d.Timeout = time.Hour })
			w.answer = func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(rw, "["+list[1:]+"]")
			}
			if got := w.get("/connectors/weather"); got.kind != "answer-not-shaped" || !strings.Contains(w.log.String(), "steps") {
				t.Errorf("the caller got %d %.100s, and the log is %s", got.status, got.body, w.log.String())
			}
		})
	}
}

// threats.md 58: many bodies of one connector do not block the bodies of another.
func TestOneConnectorHasNotAllPlaces(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Response.Body = "'shaped'" })
	var leave []func()
	for range w.gateway.Share() {
		leave = append(leave, w.gateway.Shape(t.Context(), "flooded"))
	}
	waiting, stop := context.WithCancel(t.Context())
	var flood sync.WaitGroup
	for range 20 {
		flood.Go(func() { w.gateway.Shape(waiting, "flooded") })
	}
	if got := w.get("/connectors/weather"); got.body != "shaped" {
		t.Errorf("the caller of another connector got %+v", got)
	}
	stop()
	flood.Wait()
	for _, leave := range leave {
		leave()
	}
}

// With a filter, the header Link does not pass: it may name records that the user may not see.
func TestFilteredLinks(t *testing.T) {
	const next = `<https://api.example.com/orders?after=bob-7>; rel="next"`
	for filter, want := range map[string]string{"": next, "record.owner == 'ann'": "", "true": ""} {
		w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Response.Filter = filter })
		w.answer = func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Link", next)
			rw.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(rw, `[{"owner":"ann"},{"owner":"bob"}]`)
		}
		if got := w.get("/connectors/weather"); got.status != http.StatusOK || got.header.Get("Link") != want {
			t.Errorf("with the filter %q, the caller got %d and Link %q", filter, got.status, got.header.Get("Link"))
		}
	}
}

// Limits identify a user by ID, so that a change of the name does not help.
func TestLimitsPerUser(t *testing.T) {
	w := newWorld(t, func(o *options, d *gateway.Definition) {
		o.Users = users(func(r *http.Request) (host.User, error) {
			return host.User{TenantID: "t", ID: "ann", Username: r.Header.Get("Authorization"), Email: r.Header.Get("Authorization") + "@example.com"}, nil
		})
		o.Clock = func() time.Time { return time.Unix(1_800_000_000, 0) }
		d.Limits.PerUser = 1
	})
	first, second := w.get("/connectors/weather", "Authorization", "ann"), w.get("/connectors/weather", "Authorization", "anne")
	if first.status != http.StatusOK || second.status != http.StatusTooManyRequests {
		t.Errorf("the caller got %d, and %d under another name", first.status, second.status)
	}
}
