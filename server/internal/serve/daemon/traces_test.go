package daemon_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	span "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collected holds the traces that a collector received.
type collected struct {
	mu    sync.Mutex
	all   []*span.Span
	bytes []byte // raw
}

// collect starts a collector.
func collect(t *testing.T) (*collected, *httptest.Server) {
	t.Helper()
	c := &collected{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var request collector.ExportTraceServiceRequest
		if err == nil {
			err = proto.Unmarshal(body, &request)
		}
		if err != nil || r.URL.Path != "/v1/traces" {
			t.Errorf("the collector got %s: %v", r.URL, err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.bytes = append(c.bytes, body...)
		for _, resource := range request.ResourceSpans {
			for _, scope := range resource.ScopeSpans {
				c.all = append(c.all, scope.Spans...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(server.Close)
	return c, server
}

// tree returns the spans of a trace as text: each with its attributes and status, and its child spans below it.
func (c *collected) tree(traceID string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := map[string]bool{}
	for _, s := range c.all {
		ids[string(s.SpanId)] = true
	}
	var b strings.Builder
	var within func(parent *span.Span, indent string)
	within = func(parent *span.Span, indent string) {
		fmt.Fprintf(&b, "%s%s\n", indent, shown(parent))
		for _, part := range c.all {
			if string(part.ParentSpanId) != string(parent.SpanId) {
				continue
			}
			within(part, indent+"  ")
			if part.StartTimeUnixNano < parent.StartTimeUnixNano || part.EndTimeUnixNano > parent.EndTimeUnixNano {
				fmt.Fprintf(&b, "%s  which is not within its parent\n", indent)
			}
		}
	}
	for _, root := range c.all {
		if hex.EncodeToString(root.TraceId) == traceID && !ids[string(root.ParentSpanId)] {
			within(root, "")
		}
	}
	return b.String()
}

// shown returns a span as text. Parts have no connector and no type in it, and neither the port nor the fuel, which differ.
func shown(s *span.Span) string {
	text := strings.ToLower(strings.TrimPrefix(s.Kind.String(), "SPAN_KIND_")) + " " + s.Name
	for _, a := range s.Attributes {
		left := a.Key == "keywright.connector" && s.Kind != span.Span_SPAN_KIND_SERVER || a.Key == "keywright.type" || a.Key == "keywright.fuel" || a.Key == "server.port"
		switch v := a.Value.Value.(type) {
		case *common.AnyValue_StringValue:
			if !left {
				text += " " + a.Key + "=" + v.StringValue
			}
		case *common.AnyValue_IntValue:
			if !left {
				text += fmt.Sprintf(" %s=%d", a.Key, v.IntValue)
			}
		case *common.AnyValue_BoolValue:
			text += fmt.Sprintf(" %s=%t", a.Key, v.BoolValue)
		}
	}
	if s.Status.GetCode() == span.Status_STATUS_CODE_ERROR {
		text += " error: " + s.Status.Message
	}
	return text
}

const traced = `gateway:
  traces: COLLECTOR/v1/traces?key=collector-key-123
connectors:
  - name: Echo
    url: API/echo
    auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('key') }}", in: header}}
  - name: Passing
    url: API/passing
    headers: [{name: Traceparent, value: "", overridable: true}]
    auth: {type: none}
  - name: Token
    url: API/with-token
    auth: {type: oauth_client_credentials, config: {client_id: c, client_secret: "{{ get_secret('key') }}", token_url: API/token}}
  - name: Refused
    url: API/refused
    auth: {type: oauth_client_credentials, config: {client_id: c, client_secret: "{{ get_secret('key') }}", token_url: API/no-token}}
  - name: Broken
    url: API/broken
    auth: {type: none}
`

func TestTraces(t *testing.T) {
	c, server := collect(t)
	var mu sync.Mutex
	parents := map[string]string{} // received by the API
	w := start(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		parents[r.URL.Path] = r.Header.Get("Traceparent")
		mu.Unlock()
		switch r.URL.Path {
		case "/token":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"access_token":"t0ken-of-the-endpoint","token_type":"Bearer","expires_in":3600}`)
		case "/no-token":
			http.Error(w, `{"error":"invalid_client"}`, http.StatusUnauthorized)
		case "/broken":
			panic(http.ErrAbortHandler)
		}
	}, strings.ReplaceAll(traced, "COLLECTOR", server.URL))
	const sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ids := map[string]string{}
	ask := func(name, path, parent string) {
		t.Helper()
		header := http.Header{"X-Own": {"of-a-caller"}}
		if parent != "" {
			header.Set("Traceparent", parent)
		}
		response, _ := w.ask(http.MethodGet, w.callers+path+"?q=of-a-caller", header, "")
		ids[name] = response.Header.Get("X-Request-Id")
	}
	ask("traced by the caller", "/connectors/echo", sampled)
	ask("not traced by the caller", "/connectors/echo", strings.Replace(sampled[:52], "0af7", "0bf7", 1)+"-00")
	ask("passing", "/connectors/passing", strings.Replace(sampled, "0af7", "0cf7", 1))
	ask("half a traceparent", "/connectors/echo", strings.Replace(sampled, "0af7", "0DF7", 1))
	ask("first", "/connectors/token", "")
	ask("second", "/connectors/token", "")
	ask("refused", "/connectors/refused", "")
	ask("broken", "/connectors/broken", "")
	ask("unknown", "/connectors/of-a-caller", "")
	if response, body := w.ask(http.MethodPost, w.operators+"/connectors/token/test", nil, `{}`); response.StatusCode != http.StatusOK {
		t.Errorf("the operator's test: %d %s", response.StatusCode, body)
	}
	w.stop()
	known := slices.Collect(maps.Values(ids))
	for _, s := range c.all {
		if id := hex.EncodeToString(s.TraceId); !slices.Contains(known, id) {
			t.Errorf("the span %s belongs to no request of a caller", s.Name)
		}
	}
	const (
		sent   = "  client send http.request.method=GET url.scheme=http server.address=127.0.0.1"
		well   = sent + " http.response.status_code=200\n"
		asked  = "    client exchange http.request.method=POST url.scheme=http server.address=127.0.0.1 keywright.field=token_url"
		run    = "  internal authenticate keywright.reused=false keywright.cached=false keywright.token_exchanges=0 keywright.runs=1\n"
		reused = "  internal authenticate keywright.reused=true keywright.cached=false keywright.token_exchanges=0\n"
	)
	root := func(name string) string {
		return "server connector " + name + " keywright.connector=" + name + " http.response.status_code=200\n"
	}
	for name, want := range map[string]string{
		"traced by the caller":     root("echo") + run + well,
		"not traced by the caller": "",
		"passing":                  root("passing") + run + well,
		"half a traceparent":       root("echo") + reused + well,
		"first":                    root("token") + strings.ReplaceAll(strings.ReplaceAll(run, "runs=1", "runs=2"), "exchanges=0", "exchanges=1") + asked + " http.response.status_code=200\n" + well,
		"second":                   root("token") + strings.Replace(run, "cached=false", "cached=true", 1) + well,
		"refused": `server connector refused keywright.connector=refused http.response.status_code=502 error.type=authentication-failed keywright.stage=token error: authentication-failed
  internal authenticate error.type=invalid_client keywright.stage=token keywright.reused=false keywright.cached=false keywright.token_exchanges=1 keywright.runs=2 error: invalid_client
` + asked + ` error.type=invalid_client http.response.status_code=401 keywright.retry_after_seconds=1 error: invalid_client
`,
		"broken": "server connector broken keywright.connector=broken http.response.status_code=502 error.type=upstream-failed error: upstream-failed\n" +
			run + sent + " error.type=connection_closed error: connection_closed\n",
		"unknown": "server no connector http.response.status_code=404 error.type=unknown-connector\n",
	} {
		if got := c.tree(ids[name]); got != want {
			t.Errorf("%s: the trace %s is\n%swant\n%s", name, ids[name], got, want)
		}
	}
	if root := c.all[0]; hex.EncodeToString(root.TraceId) != "0af7651916cd43dd8448eb211c80319c" {
		t.Errorf("the caller's trace is not the first, but %x", root.TraceId)
	}
	for _, word := range []string{secret, "t0ken", "of-a-caller", "collector-key", "/echo"} { // threats.md 18, 230
		if strings.Contains(string(c.bytes), word) {
			t.Errorf("the collector got %q", word)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if parents["/echo"] != "" || parents["/passing"] != strings.Replace(sampled, "0af7", "0cf7", 1) {
		t.Errorf("the API got %q: only what the definition lets through", parents)
	}
}

// Requests succeed without a collector, and the log has no part of its URL.
func TestTracesWithoutACollector(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	w := start(t, version, "gateway: {traces: '"+server.URL+"/v1/traces?key=collector-key-123'}\n"+echo)
	w.gets(w.callers+"/connectors/echo", http.StatusOK, "1 true")
	w.refuses("gateway: {traces: 'https://elsewhere.example.com/v1/traces'}\n"+echo, "gateway.traces cannot be changed while this runs: restart it")
	w.stop()
	if log := w.log.String(); !strings.Contains(log, `"traces could not be sent","spans":3`) || strings.Contains(log, "collector-key") {
		t.Errorf("the log is %s", log)
	}
}
