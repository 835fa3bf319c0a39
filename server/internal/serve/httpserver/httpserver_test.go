package httpserver_test

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/serve/httpserver"
)

// start runs the servers with a handler for callers, and returns their URLs.
func start(t *testing.T, h http.HandlerFunc) (callers, operators string) {
	t.Helper()
	return startWith(t, httpserver.Config{Handler: h, Logger: slog.New(slog.DiscardHandler)})
}

// startWith runs the servers until the test ends. Without c.Admin, operators have a free port of 127.0.0.1.
func startWith(t *testing.T, c httpserver.Config) (callers, operators string) {
	t.Helper()
	callers, operators, _ = run(t, c)
	return callers, operators
}

// run is like startWith. The test may end the servers.
func run(t *testing.T, c httpserver.Config) (callers, operators string, end func() error) {
	t.Helper()
	c.Listen, c.Admin = "127.0.0.1:0", cmp.Or(c.Admin, "127.0.0.1:0")
	return testworld.Serve(t, &c.Started, func(ctx context.Context) error { return httpserver.Run(ctx, c) })
}

// threats.md 46: a page of another site that makes an operator's browser send requests does not reach the operators'
// paths.
func TestPagesDoNotReachOperatorsPaths(t *testing.T) {
	_, operators := start(t, func(http.ResponseWriter, *http.Request) {})
	for name, c := range map[string]struct {
		host   string
		header []string
		status int
	}{
		"curl":            {"", nil, 200},
		"localhost":       {"localhost:8081", nil, 200},
		"an address":      {"10.1.2.3:8081", nil, 200},
		"IPv6":            {"[::1]:8081", nil, 200},
		"typed":           {"", []string{"Sec-Fetch-Site", "none"}, 200},
		"rebound name":    {"rebound.evil.example", nil, 421},
		"image of a page": {"", []string{"Sec-Fetch-Site", "cross-site"}, 403},
	} {
		answer, _ := get(t, http.DefaultClient, http.MethodGet, operators+"/healthz", append([]string{"Host", c.host}, c.header...)...)
		if answer.StatusCode != c.status {
			t.Errorf("%s: %d, want %d", name, answer.StatusCode, c.status)
		}
	}
}

// Request and response bodies pass unchanged through the reader and the writer with deadlines.
func TestBodiesPassInBothDirections(t *testing.T) {
	callers, _ := start(t, func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Context().Err() != nil {
			t.Error(err, r.Context().Err())
		}
		_, _ = w.Write(body)
	})
	for range 3 { // on one connection
		body := strings.Repeat("x", 1<<20)
		response := testworld.Must(http.Post(callers, "text/plain", strings.NewReader(body)))(t)
		got, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || string(got) != body {
			t.Errorf("%d bytes came back: %v", len(got), err)
		}
	}
}

// logged sends the lines of a log to a channel.
type logged chan string

func (l logged) Write(line []byte) (int, error) {
	l <- string(line)
	return len(line), nil
}

// The panic of a handler is logged. The client loses its connection, and other clients do not.
func TestPanicLog(t *testing.T) {
	log := make(logged, 2) // a client may repeat a request whose kept connection was closed
	callers, _ := startWith(t, httpserver.Config{
		Logger: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelError})),
		Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/bad" {
				panic("a mistake of ours")
			}
		}),
	})
	for path, ok := range map[string]bool{"/bad": false, "/good": true} {
		r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, callers+path, nil))(t)
		response, err := http.DefaultClient.Do(r)
		if (err == nil) != ok {
			t.Errorf("%s: err = %v", path, err)
		}
		if err == nil {
			_ = response.Body.Close()
		}
	}
	if line := <-log; !strings.Contains(line, "a mistake of ours") {
		t.Error(line)
	}
}

// With a drain delay, /readyz refuses first, while callers are still served, and the listener closes afterwards.
func TestDrainDelay(t *testing.T) {
	delayed, elapse := make(chan time.Duration, 1), make(chan time.Time)
	callers, operators, end := run(t, httpserver.Config{
		Logger: slog.New(slog.DiscardHandler), Handler: http.NotFoundHandler(), DrainDelay: 7 * time.Second,
		After: func(d time.Duration) <-chan time.Time { delayed <- d; return elapse },
	})
	status := func(url string) int {
		transport := &http.Transport{DisableKeepAlives: true} // a connection of its own
		r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil))(t)
		response, err := transport.RoundTrip(r)
		if err != nil {
			return 0
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	if got := status(operators + "/readyz"); got != http.StatusOK {
		t.Errorf("before the end: %d", got)
	}
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	if d := <-delayed; d != 7*time.Second {
		t.Errorf("the delay is %s", d)
	}
	if ready, caller := status(operators+"/readyz"), status(callers+"/"); ready != http.StatusServiceUnavailable || caller != http.StatusNotFound {
		t.Errorf("during the delay: readiness %d, callers %d", ready, caller)
	}
	close(elapse)
	testworld.Check(t, <-ended)
	if got := status(callers + "/"); got != 0 {
		t.Errorf("after the end: %d", got)
	}
}
