package daemon

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/console"
)

// metricsOf returns the metrics of a daemon that does nothing else.
func metricsOf() *gatewayMetrics {
	return newMetrics(&daemon{recorder: console.NewRecorder(time.Now)})
}

func page(t *testing.T, m *gatewayMetrics) string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return w.Body.String()
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
		text := page(t, m)
		for _, line := range want {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("the page does not have %s", line)
			}
		}
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
	text := page(t, m)
	if !strings.Contains(text, `keywright_requests_total{connector="crm",problem="not-connected",status="403"} 1`) || strings.Contains(text, `keywright_authentication_failures_total{`) {
		t.Errorf("a user who has to connect is counted as\n%s", text)
	}
	refused := &host.Error{Stage: host.StageToken, Err: &host.GrantError{User: "ann", Condition: host.ConditionRefused}}
	m.request(gateway.Event{Connector: "crm", Status: 403, Problem: "not-connected", Stage: "token", Err: refused})
	if text := page(t, m); !strings.Contains(text, `keywright_authentication_failures_total{connector="crm",stage="token"} 1`) {
		t.Errorf("a refused grant is counted as\n%s", text)
	}
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
	text := page(t, m)
	for _, line := range []string{
		`keywright_plugin_calls_total{type="acme"} 3`, `keywright_plugin_failures_total{reason="fuel",type="acme"} 1`,
		`keywright_plugin_failures_total{reason="trap",type="acme"} 0`, `keywright_plugin_failures_total{reason="trap",type="none"} 1`,
		`keywright_plugin_fuel_bucket{type="acme",le="50000"} 2`, `keywright_plugin_fuel_bucket{type="acme",le="5e+06"} 2`, `keywright_plugin_fuel_count{type="acme"} 3`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("the page does not have %s", line)
		}
	}
	for authType, want := range map[string]console.Fuel{
		"acme": {Runs: 3, Median: 50_000, Worst: 5_000_001}, "none": {Runs: 1}, "unknown": {},
	} {
		if got := m.plugins.fuelOf(authType); got != want {
			t.Errorf("fuel of %s = %+v, want %+v", authType, got, want)
		}
	}
	m.plugins.keep(map[string]bool{"none": true})
	if text := page(t, m); strings.Contains(text, `"acme"`) || !strings.Contains(text, `keywright_plugin_calls_total{type="none"} 1`) {
		t.Errorf("the page has\n%s", text)
	}
}
