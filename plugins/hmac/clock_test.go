package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/plugins/internal/plugintest"
)

// Once the API has refused a request and its clock is ahead, later requests have its time (specification.md "the clock of an API
// that checks signatures"). The refused request is not sent again.
func TestClockOfTheAPI(t *testing.T) {
	run(t, func(t *testing.T, h *hosttest.Harness) {
		key := h.Canary("key")
		h.API(plugintest.Dated(h, hosttest.JSON(http.StatusUnauthorized, `{}`), 10*time.Minute), hosttest.JSON(http.StatusOK, `{}`))
		const message = "{timestamp} {timestamp_ms} {iso8601} {time:%H:%M}"
		got := h.Authenticate(config(message), hosttest.GET("https://api.test/"))
		wantSigned(t, got, key, "1767323045 1767323045000 2026-01-02T03:04:05Z 03:04")
		if got.Attempts != 1 {
			t.Errorf("%d attempts", got.Attempts)
		}
		wantSigned(t, h.Authenticate(config(message), hosttest.GET("https://api.test/")), key, "1767323645 1767323645000 2026-01-02T03:14:05Z 03:14")
	})
}
