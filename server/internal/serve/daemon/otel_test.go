package daemon_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// From here to the mark, the documentation of host.Tracer has this code.

type tracer struct{ trace.Tracer }

func (t tracer) Start(ctx context.Context, s host.Span) (context.Context, func(host.SpanEnd)) {
	kind := trace.SpanKindInternal
	if s.Client() {
		kind = trace.SpanKindClient
	}
	ctx, span := t.Tracer.Start(ctx, s.Name, trace.WithSpanKind(kind), trace.WithAttributes(keyValues(s.Attributes())...))
	return ctx, func(e host.SpanEnd) {
		span.SetAttributes(keyValues(e.Attributes())...)
		if e.Error != "" {
			span.SetStatus(codes.Error, e.Error)
		}
		span.End()
	}
}

func keyValues(all []slog.Attr) (list []attribute.KeyValue) {
	for _, a := range all {
		switch a.Value.Kind() {
		case slog.KindInt64:
			list = append(list, attribute.Int64(a.Key, a.Value.Int64()))
		case slog.KindBool:
			list = append(list, attribute.Bool(a.Key, a.Value.Bool()))
		default:
			list = append(list, attribute.String(a.Key, a.Value.String()))
		}
	}
	return list
}

// mark

// The code in the documentation of host.Tracer makes spans of OpenTelemetry.
func TestTheTracerOfTheDocumentation(t *testing.T) {
	exporter := tracetest.NewInMemoryExporter()
	provider := sdk.NewTracerProvider(sdk.WithSyncer(exporter))
	h := testworld.Must(host.New(t.Context(), host.Config{
		Secrets: host.MapSecrets{"key": secret}, Tracer: tracer{provider.Tracer("example")}, Base: testworld.Respond(http.StatusTeapot, ""),
	}))(t)
	defer h.Close(t.Context())
	c := testworld.Must(h.NewConnector(t.Context(), host.ConnectorConfig{Name: "crm", Origins: []string{"https://api.example.com"}, Auth: []host.Auth{{
		Type: "api_key", Config: map[string]any{"key": "key", "value": "{{ get_secret('key') }}", "in": "query"},
	}}}))(t)
	response := testworld.Must((&http.Client{Transport: c.Transport(nil)}).Get("https://api.example.com/orders"))(t)
	defer response.Body.Close()
	var b strings.Builder
	for _, s := range exporter.GetSpans() {
		fmt.Fprintf(&b, "%s %s %s %d\n", s.SpanKind, s.Name, s.Status.Description, len(s.Attributes))
		for _, a := range s.Attributes {
			if strings.Contains(a.Value.String(), secret) {
				t.Errorf("%s has the secret", s.Name)
			}
		}
	}
	if got, want := b.String(), "internal authenticate  7\nclient send 418 8\ninternal request  3\n"; got != want {
		t.Errorf("the spans are\n%swant\n%s", got, want)
	}
}

// The documentation has the code that is tested here.
func TestTheDocumentationHasTheTracer(t *testing.T) {
	file := testworld.Must(os.ReadFile("otel_test.go"))(t)
	_, code, _ := strings.Cut(string(file), "this code.\n\n")
	code, _, _ = strings.Cut(code, "\n// mark")
	documented := testworld.Must(os.ReadFile("../../../../host/trace.go"))(t)
	var b strings.Builder
	for line := range strings.Lines(code) {
		if line == "\n" {
			b.WriteString("//\n")
		} else {
			b.WriteString("//\t" + line)
		}
	}
	if !strings.Contains(string(documented), b.String()) {
		t.Errorf("host/trace.go does not have\n%s", b.String())
	}
}
