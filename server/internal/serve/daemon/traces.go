package daemon

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"regexp"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
)

// traces sends a span for each request of a caller, with those of the host within it. Its attributes are only from the event of the
// request, so they cannot contain a URL, a header or a body.
type traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// newTraces returns traces that sends spans to a URL. If url is empty, it uses the variables OTEL_EXPORTER_OTLP_….
func newTraces(ctx context.Context, url string, logger *slog.Logger) (*traces, error) {
	var options []otlptracehttp.Option
	if url != "" {
		options = append(options, otlptracehttp.WithEndpointURL(url))
	}
	exporter, err := otlptracehttp.New(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	about, err := resource.New(ctx, resource.WithAttributes(attribute.String("service.name", "keywright")), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("traces: OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	provider := sdk.NewTracerProvider(sdk.WithBatcher(&loggingExporter{exporter, logger}), sdk.WithResource(about), sdk.WithIDGenerator(requestIDs{}))
	return &traces{provider, provider.Tracer("github.com/keywright/keywright")}, nil
}

func (t *traces) close() {
	const lastExport = 5 * time.Second // limits the export of the remaining spans when the gateway ends
	ctx, cancel := context.WithTimeout(context.Background(), lastExport)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the exporter has logged the error
}

// begin begins the span of a request that has come. It implements [gateway.Config].Trace.
func (t *traces) begin(ctx context.Context, e gateway.Event) (context.Context, func(gateway.Event)) {
	ctx = context.WithValue(ctx, requestIDKey{}, e.ID)
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": e.Traceparent})
	ctx, span := t.tracer.Start(ctx, "no connector", trace.WithTimestamp(e.Began), trace.WithSpanKind(trace.SpanKindServer))
	return ctx, func(e gateway.Event) {
		if e.Connector != "" {
			span.SetName("connector " + e.Connector)
		}
		for _, a := range []attribute.KeyValue{
			attribute.String("keywright.connector", e.Connector), attribute.Int("http.response.status_code", e.Status),
			attribute.String("error.type", e.Problem), attribute.String("keywright.stage", e.Stage),
		} {
			if value := a.Value.AsInterface(); value != "" && value != int64(0) {
				span.SetAttributes(a)
			}
		}
		if e.Status >= http.StatusInternalServerError {
			span.SetStatus(codes.Error, e.Problem)
		}
		span.End(trace.WithTimestamp(e.Began.Add(e.Total)))
	}
}

type requestIDKey struct{}

// requestIDs makes the ID of a request that of its trace, if the caller sent none, so that X-Request-Id finds the trace.
type requestIDs struct{}

func (g requestIDs) NewIDs(ctx context.Context) (id trace.TraceID, span trace.SpanID) {
	text, _ := ctx.Value(requestIDKey{}).(string)
	_, _ = hex.Decode(id[:], []byte(text)[:min(len(text), 2*len(id))])
	return id, g.NewSpanID(ctx, id)
}

func (requestIDs) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	for !id.IsValid() {
		for i := range id {
			id[i] = byte(rand.Uint32()) // need not be unpredictable
		}
	}
	return id
}

// loggingExporter is an exporter that logs its errors and does not return them.
type loggingExporter struct {
	sdk.SpanExporter
	logger *slog.Logger
}

var anyURL = regexp.MustCompile(`https?://[^\s"]+`)

func (e *loggingExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		// The URL of a collector may contain a credential.
		e.logger.Warn("traces could not be sent", slog.Int("spans", len(spans)), slog.String("error", host.Printable(anyURL.ReplaceAllString(err.Error(), "the collector"))))
	}
	return nil
}

// hostTracer makes the spans of the hosts of all sets. It makes none before the first set says where traces go.
type hostTracer struct {
	traces atomic.Pointer[traces]
	clock  func() time.Time
}

// Start implements [host.Tracer]. Only requests of callers have spans, if they are sampled. The span of the gateway is that of the whole
// request, so the host's is left out.
func (h *hostTracer) Start(ctx context.Context, s host.Span) (context.Context, func(host.SpanEnd)) {
	t := h.traces.Load()
	if t == nil || s.Name == "request" || !trace.SpanContextFromContext(ctx).IsSampled() {
		return ctx, nil
	}
	kind := trace.SpanKindInternal
	if s.Client() {
		kind = trace.SpanKindClient
	}
	ctx, span := t.tracer.Start(ctx, s.Name, trace.WithSpanKind(kind), trace.WithTimestamp(h.clock()), trace.WithAttributes(attributes(s.Attributes())...))
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
