package gateway

import (
	"context"
	"log/slog"
)

// LogHandler returns a handler that adds the X-Request-Id, as request_id, to what is logged for a request of a gateway. Set a
// logger with it as Logger in the [host.Config] of the hosts whose connectors a gateway serves.
func LogHandler(h slog.Handler) slog.Handler { return logHandler{h} }

type logHandler struct{ slog.Handler }

// Handle implements [slog.Handler].
func (h logHandler) Handle(ctx context.Context, r slog.Record) error {
	if e, ok := ctx.Value(exchangesKey{}).(*exchanges); ok {
		r = r.Clone()
		r.AddAttrs(slog.String("request_id", e.id))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements [slog.Handler].
func (h logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return logHandler{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements [slog.Handler].
func (h logHandler) WithGroup(name string) slog.Handler { return logHandler{h.Handler.WithGroup(name)} }
