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

// traces has a span for each request of a caller, with the parts of it below. Spans are made when the request has ended, of
// what its event says: nothing else can get into one. So there is no URL, no header and no body in them.
type traces struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
}

// lastExport is how long what is left may take to be sent when the gateway ends.
const lastExport = 5 * time.Second

// newTraces has spans sent to a URL, or where the variables OTEL_EXPORTER_OTLP_… say when it is empty.
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
	provider := sdk.NewTracerProvider(sdk.WithBatcher(&telling{exporter, logger}), sdk.WithResource(about), sdk.WithIDGenerator(requestIDs{}))
	return &traces{provider, provider.Tracer("github.com/keywright/keywright")}, nil
}

// close sends what is left.
func (t *traces) close() {
	ctx, cancel := context.WithTimeout(context.Background(), lastExport)
	defer cancel()
	_ = t.provider.Shutdown(ctx) // the exporter has told of it
}

// request makes the spans of a request.
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
		if strings.HasPrefix(e.Problem, "upstream-") { // the others are about what was made of its answer
			problem = e.Problem
		}
		t.part(ctx, "upstream", e.Sent, until, problem, trace.WithSpanKind(trace.SpanKindClient))
	}
	span.End(trace.WithTimestamp(end))
}

// part makes the span of one part of a request.
func (t *traces) part(ctx context.Context, name string, from, until time.Time, problem string, options ...trace.SpanStartOption) {
	_, span := t.tracer.Start(ctx, name, append(options, trace.WithTimestamp(from))...)
	if problem != "" {
		span.SetStatus(codes.Error, problem)
	}
	span.End(trace.WithTimestamp(until))
}

type requestIDKey struct{}

// requestIDs makes the request's id the id of its trace, also where the caller has none: who has X-Request-Id, or a line of
// the log, finds the trace.
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
			id[i] = byte(rand.Uint32()) // nobody has to be unable to guess it
		}
	}
	return id
}

// telling is an exporter whose failures are in the log, and nowhere else.
type telling struct {
	sdk.SpanExporter
	logger *slog.Logger
}

var anyURL = regexp.MustCompile(`https?://[^\s"]+`)

// ExportSpans implements sdk.SpanExporter.
func (e *telling) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	err := e.SpanExporter.ExportSpans(ctx, spans)
	if err != nil {
		// Some collectors have a credential in their URL.
		e.logger.Warn("traces could not be sent", slog.Int("spans", len(spans)), slog.String("error", host.Printable(anyURL.ReplaceAllString(err.Error(), "the collector"))))
	}
	return nil
}
