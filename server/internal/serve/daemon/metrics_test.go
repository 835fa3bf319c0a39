package daemon

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/activity"
	"github.com/keywright/keywright/server/internal/operate/console"
)

// metricsOf returns the metrics of a daemon that does nothing else.
func metricsOf() *gatewayMetrics {
	return newMetrics(&daemon{recorder: activity.New(activity.Config{Clock: time.Now})})
}

// page returns the page of metrics, and checks that it has these lines.
func page(t *testing.T, m *gatewayMetrics, lines ...string) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	text := w.Body.String()
	for _, line := range lines {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("the page does not have %s:\n%s", line, text)
		}
	}
	return text
}

// A connector that is removed and added again counts from zero, and its metrics are shown.
func TestMetricsOfRestoredConnector(t *testing.T) {
	m := metricsOf()
	requested := func() {
		m.attempted(host.Attempt{Connector: "crm", Exchanges: 1, TokenTime: time.Second, KeyRequests: 2, KeyTime: 3 * time.Second, SandboxTime: time.Second, Fuel: 7})
		m.attempted(host.Attempt{Connector: "crm", Reused: true, Discoveries: 1})
		m.attempted(host.Attempt{Connector: "crm", Reused: true, Cached: true})
		m.attempted(host.Attempt{Connector: "crm", Ahead: true, Cached: true, Exchanges: 1, TokenTime: time.Second})
		m.attempted(host.Attempt{Connector: "crm", Consent: true, Exchanges: 1, TokenTime: time.Second})
		m.attempted(host.Attempt{Connector: "crm", Ahead: true, Err: errors.New("refused")})
		m.request(gateway.Event{Connector: "crm", Status: 200, Total: time.Second, Upstream: time.Second})
		m.request(gateway.Event{Connector: "crm", Status: 502, Problem: "upstream-failed", Total: time.Second})
	}
	want := []string{
		`keywright_authentications_total{connector="crm",from="plugin"} 1`, `keywright_authentications_total{connector="crm",from="reuse"} 1`,
		`keywright_authentications_total{connector="crm",from="cache"} 1`, `keywright_token_exchanges_total{connector="crm"} 3`,
		`keywright_key_requests_total{connector="crm"} 2`, `keywright_key_seconds_total{connector="crm"} 3`,
		`keywright_token_seconds_total{connector="crm"} 3`, `keywright_sandbox_seconds_total{connector="crm"} 1`, `keywright_fuel_total{connector="crm"} 7`,
		`keywright_discoveries_total{connector="crm"} 1`,
		`keywright_refreshes_ahead_total{connector="crm",result="done"} 1`, `keywright_refreshes_ahead_total{connector="crm",result="failed"} 1`,
		`keywright_requests_total{connector="crm",problem="",status="200"} 1`, `keywright_requests_total{connector="crm",problem="upstream-failed",status="502"} 1`,
		`keywright_request_seconds_count{connector="crm"} 2`, `keywright_upstream_seconds_count{connector="crm"} 1`,
	}
	for range 2 {
		requested()
		page(t, m, want...)
		m.forget("crm")
		if text := page(t, m); strings.Contains(text, `"crm"`) {
			t.Errorf("the connector is still on the page:\n%s", text)
		}
	}
}

// A user who has not connected an account is no failure, however often requests are made, so that no alert fires. A grant that the
// authorization server refuses is one.
func TestUnconnectedUsers(t *testing.T) {
	m := metricsOf()
	m.request(gateway.Event{Connector: "crm", Status: 403, Problem: "not-connected", Stage: "token"})
	if text := page(t, m, `keywright_requests_total{connector="crm",problem="not-connected",status="403"} 1`); strings.Contains(text, `keywright_authentication_failures_total{`) {
		t.Errorf("a user who has to connect is counted as\n%s", text)
	}
	refused := &host.Error{Stage: host.StageToken, Err: &host.GrantError{User: "ann", Condition: host.ConditionRefused}}
	m.request(gateway.Event{Connector: "crm", Status: 403, Problem: "not-connected", Stage: "token", Err: refused})
	page(t, m, `keywright_authentication_failures_total{connector="crm",stage="token"} 1`)
}

// An operator sees how often a plugin failed, in which way, and how much fuel it takes. An auth type that is no longer in use is
// not shown.
func TestMetricsOfPlugins(t *testing.T) {
	m := metricsOf()
	m.attempted(host.Attempt{Connector: "crm", AuthType: "acme", Runs: 1, Fuel: 30_000, MostFuel: 30_000})
	m.attempted(host.Attempt{Connector: "crm", AuthType: "acme", Runs: 2, Fuel: 5_020_000, MostFuel: 5_000_001, Failure: host.FailureFuel, Err: errors.New("over")})
	m.attempted(host.Attempt{Connector: "crm", AuthType: "acme", Runs: 1, MostFuel: 7, Err: errors.New("the endpoint refused")})
	m.attempted(host.Attempt{Connector: "crm", AuthType: "acme", Reused: true})
	m.attempted(host.Attempt{Connector: "crm", AuthType: "acme", Err: errors.New("no secret")})
	m.attempted(host.Attempt{Connector: "other", AuthType: "none", Runs: 1, Failure: host.FailureTrap, Err: errors.New("trapped")})
	page(t, m,
		`keywright_plugin_calls_total{type="acme"} 3`, `keywright_plugin_failures_total{reason="fuel",type="acme"} 1`,
		`keywright_plugin_failures_total{reason="trap",type="acme"} 0`, `keywright_plugin_failures_total{reason="trap",type="none"} 1`,
		`keywright_plugin_fuel_bucket{type="acme",le="50000"} 2`, `keywright_plugin_fuel_bucket{type="acme",le="5e+06"} 2`, `keywright_plugin_fuel_count{type="acme"} 3`,
	)
	for authType, want := range map[string]console.Fuel{
		"acme": {Runs: 3, Median: 50_000, Worst: 5_000_001}, "none": {Runs: 1}, "unknown": {},
	} {
		if got := m.plugins.fuelOf(authType); got != want {
			t.Errorf("fuel of %s = %+v, want %+v", authType, got, want)
		}
	}
	m.plugins.keep(map[string]bool{"none": true})
	if text := page(t, m, `keywright_plugin_calls_total{type="none"} 1`); strings.Contains(text, `"acme"`) {
		t.Errorf("the page has\n%s", text)
	}
}

var errDown = errors.New("the database cannot be reached")

// failingStore fails while down is set, counts the rows that are read, and is observed as databases are.
type failingStore struct {
	state.Store
	shared *sharedState
	down   atomic.Bool
	asked  atomic.Int32
}

func (f *failingStore) Get(ctx context.Context, _ state.ID) (row state.Row, err error) {
	if f.asked.Add(1); f.down.Load() {
		err = errDown
	}
	f.shared.called(ctx, "read", 0, err)
	return row, err
}

// Metrics and the notice of /readyz say that the store of state fails, until it answers again. A caller who has gone says
// nothing about the store. threats.md 138
func TestFailingStoreShown(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	m := metricsOf()
	s := &sharedState{clock: func() time.Time { return now }}
	s.observe(m)
	failing := &failingStore{shared: s}
	get := func(ctx context.Context) { _, _ = failing.Get(ctx, state.ID{}) }
	check := func(notice string, lines ...string) {
		t.Helper()
		if got := s.notice(); notice == "" && got != "" || !strings.Contains(got, notice) {
			t.Errorf("the notice is %q, want %q", got, notice)
		}
		page(t, m, lines...)
	}
	get(t.Context())
	check("", "keywright_state_available 1")
	failing.down.Store(true)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	get(gone)
	check("", "keywright_state_available 1")
	get(t.Context())
	now = now.Add(time.Hour)
	s.called(t.Context(), "write", 0, errDown)
	check("has not answered since 2023-11-14T22:13:20Z", "keywright_state_available 0",
		`keywright_state_errors_total{operation="read"} 1`, `keywright_state_errors_total{operation="write"} 1`)
	failing.down.Store(false)
	get(t.Context())
	s.called(t.Context(), "wait", time.Second, nil)
	check("", "keywright_state_available 1", `keywright_state_errors_total{operation="read"} 1`, "keywright_state_waits_total 1", "keywright_state_wait_seconds_total 1")
}

// A process without requests learns that a store of state which failed answers again. It does not ask one that has not failed.
// threats.md 138
func TestFailedStoreProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sharedState{clock: time.Now}
		s.observe(metricsOf())
		store := &failingStore{shared: s}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.probe(ctx, store)
		}()
		store.down.Store(true)
		probed := func(want int32, fails bool) {
			t.Helper()
			time.Sleep(probeInterval)
			synctest.Wait()
			if asked, failing := store.asked.Load(), !s.since().IsZero(); asked != want || failing != fails {
				t.Errorf("the store was asked %d times, want %d; it is taken for failing: %t, want %t", asked, want, failing, fails)
			}
		}
		probed(0, false)
		s.called(ctx, "read", 0, errDown)
		probed(1, true)
		store.down.Store(false)
		probed(2, false)
		probed(2, false)
		cancel()
		<-ended
	})
}

// A store of state that is open only when the process has ended already, as on a disk that hangs, is closed again.
func TestLateStore(t *testing.T) {
	s := &sharedState{clock: time.Now}
	testworld.Check(t, s.close())
	file := filepath.Join(t.TempDir(), "state.db")
	text := fmt.Sprintf("connectors: [{name: a, url: 'https://api.test', auth: {type: none}}]\nstate: {type: sqlite, path: %q, keys: \"{{ get_secret('k') }}\"}", file)
	var late error
	_, err := connectors.Read(t.Context(), "connectors.yaml", []byte(text), connectors.Options{
		Host: host.Config{Secrets: host.MapSecrets{"k": base64.StdEncoding.EncodeToString([]byte("a state key of 32 bytes, for all"))}},
		OpenState: func(ctx context.Context, settings *connectors.State, c *host.Config) error {
			_, late = s.start(ctx, settings, *c, metricsOf())
			return late
		},
	})
	if err == nil || !errors.Is(late, context.Canceled) {
		t.Errorf("the errors are %v and %v", err, late)
	}
	if _, err := os.Stat(file + "-wal"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the store is open: %v", err)
	}
}

// A connector whose requests fail is in a gauge, and its remembered refusals are in the log once a minute, with their number.
func TestFailingConnector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log testworld.Log
		d := newDaemon(Config{Logger: log.Logger()})
		refusal := gateway.Event{Connector: "crm", ID: "0a", Status: 502, Problem: "authentication-failed", Stage: "token", Err: &host.TokenError{Status: 401, Code: "invalid_client", Remembered: true, RetryAfter: time.Hour}}
		fail := func(count int) {
			for range count {
				refusal.Began = time.Now()
				d.recorder.Request(&refusal)
			}
		}
		fail(5)
		d.recorder.Request(&gateway.Event{Connector: "shop", Status: 200, Began: time.Now()})
		page(t, d.metrics, `keywright_connector_failing{connector="crm"} 1`, `keywright_connector_failing{connector="shop"} 0`)
		time.Sleep(time.Minute)
		fail(2)
		if text := log.String(); strings.Count(text, "count=") != 2 || !strings.Contains(text, "count=1") || !strings.Contains(text, "count=5") || !strings.Contains(text, "request_id=0a") || !strings.Contains(text, "connector=crm") {
			t.Errorf("the log is %s", text)
		}
	})
}
