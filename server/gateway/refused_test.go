package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
)

// threats.md 62: if the secret of a connector is wrong, callers get a Retry-After, and neither the token endpoint nor the log
// gets one entry for each request. The host's only line names the endpoint, and the request for which that was asked.
func TestRefusingTokenEndpoint_threats_62(t *testing.T) {
	var asked atomic.Int32
	w := newWorld(t)
	w.answer = func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/token" {
			return
		}
		asked.Add(1)
		rw.Header().Set("Retry-After", "600")
		rw.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(rw, `{"error":"invalid_client"}`)
	}
	w.gateway.Use(gateway.Setup{Connectors: []*gateway.Connector{w.connector(gateway.Definition{
		Name: "Weather", Permalink: "weather", URL: w.api.URL + "/v1",
		Auth: host.Auth{Type: "oauth_client_credentials", Config: map[string]any{
			"client_id": "me", "client_secret": "{{ get_secret('key') }}", "token_url": w.api.URL + "/token",
		}},
	})}})
	var ids sync.Map
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			for range 20 {
				got := w.get("/connectors/weather")
				ids.Store(got.header.Get("X-Request-Id"), true)
				if retry := got.header.Get("Retry-After"); got.status != http.StatusBadGateway || got.kind != "authentication-failed" || len(retry) != 3 || retry < "500" {
					t.Errorf("a caller got %d %s, Retry-After %q", got.status, got.kind, retry)
					return
				}
			}
		})
	}
	clients.Wait()
	if asked.Load() != 1 || w.received() != 1 {
		t.Errorf("the token endpoint was asked %d times, and the API %d times", asked.Load(), w.received()-1)
	}
	if w.log.String() != "" {
		t.Errorf("the gateway's log has %s", w.log.String())
	}
	var line struct {
		Level, Connector, Endpoint string
		ID                         string `json:"request_id"`
	}
	if err := json.Unmarshal([]byte(w.hostLog.String()), &line); err != nil {
		t.Fatalf("the host's log has %s: %v", w.hostLog.String(), err)
	}
	if _, ok := ids.Load(line.ID); !ok || line.ID == "" || line.Level != "WARN" || line.Connector != "weather" || "http://"+line.Endpoint != w.api.URL {
		t.Errorf("the host's log has %s", w.hostLog.String())
	}
}

// threats.md 142: if the metadata of an issuer cannot be read, callers get a Retry-After, and neither the issuer nor the log gets one
// entry for each request.
func TestFailingIssuer(t *testing.T) {
	var asked atomic.Int32
	now := time.Now()
	w := newWorld(t, func(o *options, _ *gateway.Definition) { o.HostClock = func() time.Time { return now } })
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		rw.WriteHeader(http.StatusInternalServerError)
	}
	w.gateway.Use(gateway.Setup{Connectors: []*gateway.Connector{w.connector(gateway.Definition{
		Name: "Weather", Permalink: "weather", URL: w.api.URL + "/v1",
		Auth: host.Auth{Type: "oauth_client_credentials", Config: map[string]any{
			"client_id": "me", "client_secret": "{{ get_secret('key') }}", "token_url": "{{ discover('" + w.api.URL + "', 'token_endpoint') }}",
		}},
	})}})
	for range 5 {
		got := w.get("/connectors/weather")
		if retry := got.header.Get("Retry-After"); got.status != http.StatusBadGateway || got.kind != "authentication-failed" || retry != "1" {
			t.Errorf("a caller got %d %s, Retry-After %q", got.status, got.kind, retry)
		}
	}
	if asked.Load() != 1 || w.log.String() != "" || strings.Count(w.hostLog.String(), "the metadata of an issuer cannot be read") != 1 {
		t.Errorf("the issuer was asked %d times, and the logs are\n%s\n%s", asked.Load(), w.log.String(), w.hostLog.String())
	}
}
