package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
)

// still is a gateway without a network, for a bubble of synctest: the test calls its handler, and is the API.
type still struct {
	t       *testing.T
	host    *host.Host
	gateway *gateway.Gateway

	mu  sync.Mutex
	api []chan string // for each request at the API, what it is to answer
}

func newStill(t *testing.T, codeCache string, observe func(gateway.Event)) *still {
	t.Helper()
	h, err := host.New(t.Context(), host.Config{Secrets: host.MapSecrets{"key": secret}, CodeCache: codeCache})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close(context.Background()) })
	s := &still{t: t, host: h}
	s.gateway = gateway.New(gateway.Config{Observe: observe, Base: s})
	return s
}

// RoundTrip implements [http.RoundTripper].
func (s *still) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := make(chan string)
	s.mu.Lock()
	s.api = append(s.api, answer)
	s.mu.Unlock()
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(<-answer)), Request: r}, nil
}

// answer answers the request that has been at the API for the longest time, or the last one.
func (s *still) answer(last bool, text string) {
	s.mu.Lock()
	n := 0
	if last {
		n = len(s.api) - 1
	}
	answer := s.api[n]
	s.api = slices.Delete(s.api, n, n+1)
	s.mu.Unlock()
	answer <- text
	synctest.Wait()
}

// use has the gateway serve a connector for each permalink, all with the same limits.
func (s *still) use(limits gateway.Limits, permalinks ...string) (wait func()) {
	s.t.Helper()
	users := users(func(r *http.Request) (host.User, error) { return host.User{ID: r.Header.Get("Authorization")}, nil })
	setup := gateway.Setup{Users: users}
	for _, permalink := range permalinks {
		auth := host.Auth{Type: "api_key", Config: map[string]any{"key": "X-API-Key", "value": "{{ get_secret('key') }}", "in": "header"}}
		c, err := gateway.Connect(s.t.Context(), s.host, gateway.Definition{Name: permalink, Permalink: permalink, URL: "https://api.test/", Auth: auth, Limits: limits})
		if err != nil {
			s.t.Fatal(err)
		}
		setup.Connectors = append(setup.Connectors, c)
	}
	return s.gateway.Use(setup)
}

// ask sends a request of a user; the answer comes later.
func (s *still) ask(permalink, user string) chan *httptest.ResponseRecorder {
	answered := make(chan *httptest.ResponseRecorder, 1)
	go func() {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "http://localhost/connectors/"+permalink, nil)
		r.Header.Set("Authorization", user)
		w := httptest.NewRecorder()
		s.gateway.Handler().ServeHTTP(w, r)
		answered <- w
	}()
	synctest.Wait()
	return answered
}

// refused is the status of a request that does not reach the API, or 0 when it does; it is answered then.
func (s *still) refused(permalink, user string) int {
	answered := s.ask(permalink, user)
	select {
	case w := <-answered:
		return w.Code
	default:
		s.answer(true, "")
		<-answered
		return 0
	}
}

// Who began before other connectors came into use finishes on what was there then. Its host is not closed, and its
// metrics are not forgotten, before it has been answered and counted.
func TestUseWaitsForRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, observed, early := atomic.Bool{}, atomic.Int32{}, atomic.Bool{}
		s := newStill(t, "", func(e gateway.Event) {
			if e.Connector == "weather" {
				<-time.After(time.Second) // of the bubble: time for who does not wait
				early.Store(early.Load() || over.Load())
				observed.Add(1)
			}
		})
		s.use(gateway.Limits{}, "weather")
		first, second := s.ask("weather", "ann"), s.ask("weather", "bob")
		wait := s.use(gateway.Limits{})
		if got := (<-s.ask("weather", "ann")).Code; got != http.StatusNotFound {
			t.Errorf("a request after it: %d", got)
		}
		go func() { wait(); over.Store(true) }()
		synctest.Wait()
		for i, answered := range []chan *httptest.ResponseRecorder{first, second} {
			if over.Load() {
				t.Fatalf("nobody waited for the last of the requests in flight, of which %d are over", i)
			}
			s.answer(false, "late")
			if got := (<-answered).Body.String(); got != "late" {
				t.Errorf("a request in flight got %q", got)
			}
		}
		synctest.Wait()
		if !over.Load() || observed.Load() != 2 || early.Load() {
			t.Errorf("the wait is over: %t; Observe was told of %d requests, after the wait: %t", over.Load(), observed.Load(), early.Load())
		}
	})
}

// threats.md 66: to have a configuration read again is no way around limits.
func TestUseKeepsWhatLimitsHaveCounted(t *testing.T) {
	codeCache := t.TempDir()
	for name, c := range map[string]struct {
		limits, next gateway.Limits
		between      []string // what is in use for a moment in between
		again        bool     // it counts from nothing
	}{
		"per_user":          {gateway.Limits{PerUser: 1}, gateway.Limits{PerUser: 1}, []string{"weather", "other"}, false},
		"total":             {gateway.Limits{Total: 1}, gateway.Limits{Total: 1}, []string{"weather"}, false},
		"concurrent":        {gateway.Limits{Concurrent: 1}, gateway.Limits{Concurrent: 1}, []string{"weather"}, false},
		"sizes change":      {gateway.Limits{Total: 1}, gateway.Limits{Total: 1, RequestBytes: 10, ResponseBytes: 10}, []string{"weather"}, false},
		"per_user changes":  {gateway.Limits{PerUser: 1}, gateway.Limits{PerUser: 1.5}, nil, true},
		"total changes":     {gateway.Limits{Total: 1}, gateway.Limits{Total: 1.5}, nil, true},
		"concurrent change": {gateway.Limits{Concurrent: 1}, gateway.Limits{Concurrent: 2}, nil, true},
		"it was taken away": {gateway.Limits{Total: 1}, gateway.Limits{Total: 1}, []string{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStill(t, codeCache, nil)
				s.use(c.limits, "weather")
				held := s.ask("weather", "ann")
				if got := s.refused("weather", "ann"); got == 0 {
					t.Fatal("the limit does not count")
				}
				if c.between != nil {
					s.use(c.limits, c.between...)
				}
				s.use(c.next, "weather", "third")
				if got := s.refused("weather", "ann"); (got == 0) != c.again {
					t.Errorf("the next request: %d", got)
				}
				if got := s.refused("third", "ann"); got != 0 {
					t.Errorf("another connector: %d", got)
				}
				s.answer(false, "")
				<-held
				<-time.After(time.Minute) // of the bubble: rates have recovered, and the place is free
				if got := s.refused("weather", "ann"); got != 0 {
					t.Errorf("once all are over: %d", got)
				}
			})
		})
	}
}
