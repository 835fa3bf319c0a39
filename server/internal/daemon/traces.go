package daemon

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strings"
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

// traces sends a span for each request of a caller, with child spans for its parts. Spans are created at the end of the
// request, only from its event, so they cannot contain a URL, a header or a body.
type traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// lastExport limits the export of the remaining spans when the gateway ends.
const lastExport = 5 * time.Second

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

// close sends the remaining spans.
func (t *traces) close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastExport)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the exporter has logged the error
}

// request creates the spans of a request.
func (t *traces) request(e gateway.Event) {
	ctx := context.WithValue(context.Background(), requestIDKey{}, e.ID)
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": e.Traceparent})
	name := "no connector"
	var attributes []attribute.KeyValue
	if e.Connector != "" {
		name = "connector " + e.Connector
		attributes = append(attributes, attribute.String("keywright.connector", e.Connector))
	}
	if e.Status != 0 {
		attributes = append(attributes, attribute.Int("http.response.status_code", e.Status))
	}
	if e.Problem != "" {
		attributes = append(attributes, attribute.String("error.type", e.Problem))
	}
	if e.Stage != "" {
		attributes = append(attributes, attribute.String("keywright.stage", e.Stage))
	}
	end := e.Began.Add(e.Total)
	ctx, span := t.tracer.Start(ctx, name, trace.WithTimestamp(e.Began), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(attributes...))
	if e.Status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, e.Problem)
	}
	if !e.Ready.IsZero() {
		until := end
		if !e.Sent.IsZero() {
			until = e.Sent
		}
		t.part(ctx, "authenticate", e.Ready, until, e.Stage, trace.WithAttributes(attribute.Int("keywright.token_exchanges", e.Exchanges)))
	}
	if !e.Sent.IsZero() {
		until, problem := end, ""
		if e.Upstream > 0 {
			until = e.Sent.Add(e.Upstream)
		}
		if strings.HasPrefix(e.Problem, "upstream-") { // the other problems concern what the gateway made of the response
			problem = e.Problem
		}
		t.part(ctx, "upstream", e.Sent, until, problem, trace.WithSpanKind(trace.SpanKindClient))
	}
	span.End(trace.WithTimestamp(end))
}

// part creates the span of one part of a request.
func (t *traces) part(ctx context.Context, name string, from, until time.Time, problem string, options ...trace.SpanStartOption) {
	_, span := t.tracer.Start(ctx, name, append(options, trace.WithTimestamp(from))...)
	if problem != "" {
		span.SetStatus(codes.Error, problem)
	}
	span.End(trace.WithTimestamp(until))
}

type requestIDKey struct{}

// requestIDs uses the ID of the request as the ID of its trace if the caller sent no trace ID, so that the trace can be found
// with X-Request-Id or a line of the log.
type requestIDs struct{}

// NewIDs implements sdk.IDGenerator.
func (g requestIDs) NewIDs(ctx context.Context) (id trace.TraceID, span trace.SpanID) {
	text, _ := ctx.Value(requestIDKey{}).(string)
	_, _ = hex.Decode(id[:], []byte(text)[:min(len(text), 2*len(id))])
	return id, g.NewSpanID(ctx, id)
}

// NewSpanID implements sdk.IDGenerator.
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

// ExportSpans implements sdk.SpanExporter.
func (e *loggingExporter) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		// The URL of a collector may contain a credential.
		e.logger.Warn("traces could not be sent", slog.Int("spans", len(spans)), slog.String("error", host.Printable(anyURL.ReplaceAllString(err.Error(), "the collector"))))
	}
	return nil
}
