package daemon_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// A token endpoint that answers 101 keeps neither its caller, nor a place, nor the end of the process (threats.md 320).
func TestSwitchingTokenEndpoint_threats_320(t *testing.T) {
	defer noneLeft(t)()
	w := start(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
		_, _ = io.Copy(io.Discard, conn) // until the client closes it
	}, `connectors:
  - name: Switches
    url: API/v1
    auth: {type: oauth_client_credentials, config: {client_id: me, client_secret: "{{ get_secret('key') }}", token_url: API/token}}
`)
	// It is no answer of the API.
	if status, body := w.get(w.callers + "/connectors/switches"); status != http.StatusBadGateway || !strings.Contains(body, ":authentication-failed") {
		t.Errorf("status = %d, body = %s, want authentication-failed", status, body)
	}
	w.stop()
	w.api.Close()
}
