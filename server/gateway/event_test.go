package gateway_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/trial"
)

// An event has all that metrics by tenant need, and of the path only its pattern: a path may have personal data.
func TestEventRequest(t *testing.T) {
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
			w := newWorld(t, func(o *options, d *gateway.Definition) {
				o.Users = users(func(*http.Request) (host.User, error) { return host.User{ID: "ann", TenantID: "acme"}, nil })
				d.Paths, d.Methods = []string{"/users/*", "/open/**"}, []string{"GET", "BREW"}
			})
			w.answer = func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(http.StatusTeapot) }
			e := w.event(c.method, c.path)
			if e.Method != c.wantMethod || e.Pattern != c.wantPattern || e.Status != c.status || e.UpstreamStatus != c.upstream || e.Tenant != "acme" || e.User != "ann" ||
				e.Sends != min(c.upstream, 1) || (e.Host != "") != (c.upstream > 0) || e.Use != map[bool]gateway.Use{true: gateway.UseRequest}[c.upstream > 0] {
				t.Errorf("the event is %+v", e)
			}
		})
	}
}

// An event has the reason of a failure: the error with its types, and what the API says about a refusal.
func TestEventSaysWhyARequestFailed(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		header map[string]string
		ahead  time.Duration
		want   gateway.Refused
	}{
		"an answer that is fine":     {status: 200, ahead: time.Hour},
		"a scope that is missing":    {status: 403, header: map[string]string{"Www-Authenticate": `Bearer realm="x", error="insufficient_scope", scope="a"`}, want: gateway.Refused{Code: "insufficient_scope"}},
		"a code that nobody knows":   {status: 401, header: map[string]string{"Www-Authenticate": `Bearer error="s3cret"`}},
		"clocks that differ":         {status: 401, ahead: time.Hour, want: gateway.Refused{Offset: time.Hour}},
		"the clock of a cache":       {status: 401, ahead: time.Hour, header: map[string]string{"Age": "1"}},
		"clocks 10 seconds apart":    {status: 401, ahead: 10 * time.Second, want: gateway.Refused{Offset: 10 * time.Second}},
		"clocks that hardly differ":  {status: 401, ahead: 8 * time.Second},
		"a status that says nothing": {status: 404, ahead: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
			w := newWorld(t, func(o *options, _ *gateway.Definition) { o.Clock = func() time.Time { return now } })
			w.answer = func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Date", now.Add(c.ahead).Format(http.TimeFormat))
				for name, value := range c.header {
					rw.Header().Set(name, value)
				}
				rw.WriteHeader(c.status)
			}
			if e := w.event("GET", ""); e.Refusal != c.want || e.Err != nil {
				t.Errorf("the event is %+v", e)
			}
		})
	}
	w := newWorld(t, func(_ *options, d *gateway.Definition) {
		d.Auth[0].Config["value"] = "{{ get_secret('nobody-has-it') }}"
	})
	if e := w.event("GET", ""); !errors.Is(e.Err, host.ErrSecretNotFound) || e.Stage != "template" {
		t.Errorf("the event is %+v", e)
	}
}

// An event has the way in which the plugin failed, also if another attempt follows that does not fail.
func TestEventSaysHowThePluginFailed(t *testing.T) {
	for _, failure := range []host.PluginFailure{"", host.FailureFuel} {
		w := newWorld(t, func(o *options, _ *gateway.Definition) {
			o.Base = testworld.Answer(func(r *http.Request) (*http.Response, error) {
				gateway.Observe(r.Context(), host.Attempt{Failure: failure})
				gateway.Observe(r.Context(), host.Attempt{})
				return answerOf(r, http.StatusOK, "", ""), nil
			})
		})
		if e := w.event("GET", ""); e.Attempt.Failure != failure {
			t.Errorf("after %q, the event is %+v", failure, e)
		}
	}
}

// threats.md 179: a credential whose use could not be recorded is not used: not for a caller, and not for an operator.
func TestUnrecordedUse(t *testing.T) {
	w := newWorld(t, func(o *options, _ *gateway.Definition) {
		o.Recordable = func() error { return errors.New("the disk is full") }
	})
	test := w.request("POST", "/", "{}")
	test.SetPathValue("permalink", "weather")
	for name, send := range map[string]func(http.ResponseWriter){
		"request": func(rw http.ResponseWriter) {
			w.gateway.Handler().ServeHTTP(rw, w.request("GET", "/connectors/weather", ""))
		},
		"test": func(rw http.ResponseWriter) { w.gateway.Test().ServeHTTP(rw, test) },
	} {
		got := httptest.NewRecorder()
		send(got)
		e := w.events[len(w.events)-1]
		refused := got.Code == http.StatusServiceUnavailable && got.Header().Get("Retry-After") == "5"
		if name == "test" {
			refused = strings.Contains(got.Body.String(), `"status":503,`) && strings.Contains(got.Body.String(), `{"name":"Retry-After","value":"5"}`)
		}
		if !refused || e.Problem != "not-recorded" || e.Use != "" || e.Test != (name == "test") {
			t.Errorf("%s: %d, and the event is %+v", name, got.Code, e)
		}
	}
	if n := w.received(); n != 0 {
		t.Errorf("the API got %d requests", n)
	}
}

// The span of a request begins when the request comes, its context goes to the API's transport, and it ends with the event that Observe
// gets. The test of an operator makes no span.
func TestTraceOfARequest(t *testing.T) {
	type key struct{}
	var begun, ended []gateway.Event
	sent := ""
	w := newWorld(t, func(o *options, _ *gateway.Definition) {
		o.Trace = func(ctx context.Context, e gateway.Event) (context.Context, func(gateway.Event)) {
			begun = append(begun, e)
			return context.WithValue(ctx, key{}, e.ID), func(e gateway.Event) { ended = append(ended, e) }
		}
		o.Base = testworld.Answer(func(r *http.Request) (*http.Response, error) {
			sent, _ = r.Context().Value(key{}).(string)
			return http.DefaultTransport.RoundTrip(r)
		})
	})
	r := w.request("GET", "/connectors/weather", "")
	r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	w.serve(r)
	if len(begun) != 1 || len(ended) != 1 || len(w.events) != 1 {
		t.Fatalf("begun: %+v\nended: %+v\nobserved: %+v", begun, ended, w.events)
	}
	observed := w.events[0]
	const id = "0af7651916cd43dd8448eb211c80319c"
	if e := begun[0]; e.ID != id || e.Method != http.MethodGet || e.Traceparent != r.Header.Get("Traceparent") || e.Began != observed.Began {
		t.Errorf("it began with %+v", e)
	}
	if ended[0].ID != observed.ID || ended[0].Total != observed.Total || ended[0].Status != http.StatusOK || sent != id {
		t.Errorf("the span ended with %+v, Observe got %+v, and the API's request had %q", ended[0], observed, sent)
	}
	if _, err := trial.Run(t.Context(), w.gateway, "weather", trial.Try{}); err != nil || len(begun) != 1 || len(w.events) != 2 {
		t.Errorf("a test: %v, %d spans, %d events", err, len(begun), len(w.events))
	}
}
