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
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
)

// still is a gateway without a network, for a synctest bubble. The test calls its handler, and acts as the API.
type still struct {
	t       *testing.T
	host    *host.Host
	gateway *gateway.Gateway

	mu  sync.Mutex
	api []chan string // receive the bodies of the answers, one channel for each request at the API
}

func newStill(t *testing.T, observe func(gateway.Event)) *still {
	t.Helper()
	h := testworld.Must(host.New(t.Context(), host.Config{Secrets: host.MapSecrets{"key": secret}, CodeCache: codeCache}))(t)
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

// answer sends the API's answer to its oldest request, or to the last one.
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

// use calls Use with one connector for each permalink, all with the same limits.
func (s *still) use(limits gateway.Limits, permalinks ...string) (wait func()) {
	s.t.Helper()
	users := users(func(r *http.Request) (host.User, error) { return host.User{ID: r.Header.Get("Authorization")}, nil })
	setup := gateway.Setup{Users: users}
	for _, permalink := range permalinks {
		auth := keyAuth("X-API-Key", "header")
		c := testworld.Must(gateway.NewConnector(s.t.Context(), s.host, gateway.Definition{Name: permalink, Permalink: permalink, URL: "https://api.test/", Auth: auth, Limits: limits}))(s.t)
		setup.Connectors = append(setup.Connectors, c)
	}
	return s.gateway.Use(setup)
}

// ask sends a request of a user. It returns a channel for the answer.
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

// refused sends a request, and returns the status if it does not reach the API. Otherwise it answers the request and returns 0.
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

// A request finishes with the connectors that it began with. The function that Use returns waits until it has been answered
// and Observe has been called for it, so that its host is still open and its metrics are complete.
func TestUseWaitsForRequestsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over, observed, early := atomic.Bool{}, atomic.Int32{}, atomic.Bool{}
		s := newStill(t, func(e gateway.Event) {
			if e.Connector == "weather" {
				<-time.After(time.Second) // in the bubble's time, so that a wait that is too short ends
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

// threats.md 66: a reload does not reset the counts of limits.
func TestUseKeepsLimitCounts(t *testing.T) {
	for name, c := range map[string]struct {
		limits, next gateway.Limits
		between      []string // the connectors of a setup in between; nil means there is none
		again        bool     // the counts start at zero
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
				s := newStill(t, nil)
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
				<-time.After(time.Minute) // in the bubble's time: rates have recovered, and the slot is free
				if got := s.refused("weather", "ann"); got != 0 {
					t.Errorf("once all are over: %d", got)
				}
			})
		})
	}
}
