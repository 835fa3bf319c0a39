package daemon

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/keywright/keywright/host"
)

// hostTracer makes the spans of the hosts of all sets. It makes none before the first set says where traces go.
type hostTracer struct {
	traces atomic.Pointer[traces]
	clock  func() time.Time
}

var _ host.Tracer = (*hostTracer)(nil)

// Start implements [host.Tracer]. Only requests of callers have spans, if they are sampled. The span of the gateway is that of the whole
// request, so the host's is left out.
func (h *hostTracer) Start(ctx context.Context, s host.Span) (context.Context, func(host.SpanEnd)) {
	t := h.traces.Load()
	if t == nil || s.Name == host.SpanRequest || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, nil
	}
	kind := trace.SpanKindInternal
	if s.Client() {
		kind = trace.SpanKindClient
	}
	ctx, span := t.tracer.Start(ctx, string(s.Name), trace.WithSpanKind(kind), trace.WithTimestamp(h.clock()), trace.WithAttributes(attributes(s.Attributes())...))
	return ctx, func(e host.SpanEnd) {
		span.SetAttributes(attributes(e.Attributes())...)
		if e.Error != "" {
			span.SetStatus(codes.Error, e.Error)
		}
		span.End(trace.WithTimestamp(h.clock()))
	}
}

// attributes returns the attributes of a span of the host for OpenTelemetry.
func attributes(all []slog.Attr) []attribute.KeyValue {
	list := make([]attribute.KeyValue, len(all))
	for i, a := range all {
		switch a.Value.Kind() {
		case slog.KindInt64:
			list[i] = attribute.Int64(a.Key, a.Value.Int64())
		case slog.KindBool:
			list[i] = attribute.Bool(a.Key, a.Value.Bool())
		default:
			list[i] = attribute.String(a.Key, a.Value.String())
		}
	}
	return list
}
