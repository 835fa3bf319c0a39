package gateway_test

import (
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/gateway"
	"github.com/keywright/keywright/host"
)

// threats.md 49: bodies that do not go on keep nobody else's from being shaped.
func TestSlowBodiesHoldUpNobody(t *testing.T) {
	release := make(chan struct{})
	w := newWorld(t, func(_ *options, d *gateway.Definition) {
		d.Methods, d.Request = []string{"GET", "POST"}, `{"q":{{ json_encode(body_text) }}}`
		d.Response.Body = "response.body"
	})
	slow := max(4, 2*runtime.GOMAXPROCS(0)) // as many as are shaped at once
	began := make(chan struct{}, 2*slow)
	w.answer = func(rw http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") == "slow" {
			_, _ = io.WriteString(rw, "a piece")
			rw.(http.Flusher).Flush()
			began <- struct{}{}
			<-release
		}
		_, _ = io.WriteString(rw, "done")
	}
	for name, begin := range map[string]func() (end func()){
		"of a caller": func() func() {
			body, more := io.Pipe()
			r := w.request("POST", "/connectors/weather", "")
			r.Body, r.ContentLength = body, -1
			ended := make(chan struct{})
			go func() { w.do(r); close(ended) }()
			_, _ = io.WriteString(more, "a piece")
			return func() { _ = more.Close(); <-ended }
		},
		"of the API": func() func() {
			ended := make(chan struct{})
			go func() { w.get("/connectors/weather", "Accept", "slow"); close(ended) }()
			<-began
			return func() { <-ended }
		},
	} {
		var ends []func()
		for range slow {
			ends = append(ends, begin())
		}
		got := make(chan answer, 1)
		go func() { got <- w.get("/connectors/weather") }()
		select {
		case a := <-got:
			if a.status != http.StatusOK {
				t.Errorf("%s: %+v", name, a)
			}
		case <-time.After(10 * time.Second):
			t.Errorf("%s: a request waits for them", name)
		}
		if name == "of the API" {
			close(release)
		}
		for _, end := range ends {
			end()
		}
	}
}

// An expression has no more time than the connector has for anything else.
func TestExpressionsEnd(t *testing.T) {
	var list strings.Builder
	for i := range 300_000 {
		_, _ = fmt.Fprintf(&list, ",%d", i)
	}
	for name, change := range map[string]change{
		"response.body":   func(_ *options, d *gateway.Definition) { d.Response.Body = "filter(response.body, # in response.body)" },
		"response.filter": func(_ *options, d *gateway.Definition) { d.Response.Filter = "record in response.body" },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, change, func(_ *options, d *gateway.Definition) { d.Timeout = time.Second })
			w.answer = func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(rw, "["+list.String()[1:]+"]")
			}
			got := make(chan answer, 1)
			go func() { got <- w.get("/connectors/weather") }()
			select {
			case a := <-got:
				if a.kind != "answer-not-shaped" {
					t.Errorf("the caller got %d %.100s", a.status, a.body)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it goes on")
			}
		})
	}
}

// Who has another name than before is no other user.
func TestLimitsAreOfTheUser(t *testing.T) {
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
