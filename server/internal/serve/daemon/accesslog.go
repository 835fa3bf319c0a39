package daemon

import (
	"context"
	"log/slog"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
)

// logRequest logs a request if gateway.access_log is true. The line has no path and no query of a caller, because they may have
// personal data or a secret.
func (d *daemon) logRequest(e gateway.Event) {
	settings := d.current().Settings
	if !settings.AccessLog {
		return
	}
	line := make([]slog.Attr, 0, 11)
	line = append(line, slog.String("request_id", e.ID), slog.String("method", e.Method), slog.String("connector", e.Connector),
		slog.String("pattern", e.Pattern), slog.String("tenant", host.Printable(e.Tenant)))
	if settings.AccessLogUsers {
		line = append(line, slog.String("user", host.Printable(e.User)))
	}
	line = append(line, slog.Int("status", e.Status), slog.Int("upstream_status", e.UpstreamStatus), slog.String("problem", e.Problem),
		slog.Float64("total_ms", milliseconds(e.Total)), slog.Float64("upstream_ms", milliseconds(e.Upstream)))
	d.config.Logger.LogAttrs(context.Background(), slog.LevelInfo, "request", line...)
}

// milliseconds returns a time in milliseconds, to three decimals.
func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
