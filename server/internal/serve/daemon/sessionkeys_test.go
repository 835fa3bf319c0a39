package daemon_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// An operator sees whether the keys of sessions can be read, and when they were. An issuer that is down when the gateway starts is
// found later.
func TestMetricsOfSessionKeys(t *testing.T) {
	var up atomic.Bool
	var address atomic.Value
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case !up.Load():
			w.WriteHeader(http.StatusBadGateway)
		case r.URL.Path == "/keys":
			_, _ = fmt.Fprint(w, `{"keys":[]}`)
		default:
			_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, address.Load(), address.Load().(string)+"/keys")
		}
	}))
	t.Cleanup(issuer.Close)
	address.Store(issuer.URL)
	w := start(t, version, "gateway: {user: {type: jwt, jwt: {bearer: true, issuer: '"+issuer.URL+"', audiences: gateway}}}\n"+echo)
	label := fmt.Sprintf(`{issuer=%q} `, issuer.URL)
	if status, body := w.get(w.operators + "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, "answers with status 502") {
		t.Errorf("/readyz answers %d %s", status, body)
	}
	_, page := w.get(w.operators + "/metrics")
	if !strings.Contains(page, "keywright_session_keys_available"+label+"0\n") || strings.Contains(page, "keywright_session_keys_read_timestamp_seconds{") ||
		!strings.Contains(page, "keywright_build_info{version=") {
		t.Errorf("/metrics has\n%s", page)
	}
	up.Store(true)
	w.eventually("the keys are there", func() bool {
		status, _ := w.get(w.operators + "/readyz")
		return status == http.StatusOK
	})
	if _, page := w.get(w.operators + "/metrics"); !strings.Contains(page, "keywright_session_keys_available"+label+"1\n") || !strings.Contains(page, "keywright_session_keys_read_timestamp_seconds"+label) {
		t.Errorf("/metrics has\n%s", page)
	}
}
