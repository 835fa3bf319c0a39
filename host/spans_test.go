package host_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
)

// spans is a Tracer that keeps its spans. Their order is that in which they began.
type spans struct {
	mu  sync.Mutex
	all []*keptSpan
	// began, if not nil, is called when a span has begun.
	began func(host.Span)
}

type keptSpan struct {
	host.Span
	parent *keptSpan
	// ends has what the span ended with. One is right.
	ends []host.SpanEnd
}

type spanKey struct{}

// spanOf returns the span of a context, or nil.
func spanOf(ctx context.Context) *keptSpan {
	s, _ := ctx.Value(spanKey{}).(*keptSpan)
	return s
}

func (s *spans) Start(ctx context.Context, span host.Span) (context.Context, func(host.SpanEnd)) {
	kept := &keptSpan{Span: span, parent: spanOf(ctx)}
	s.mu.Lock()
	s.all = append(s.all, kept)
	s.mu.Unlock()
	if s.began != nil {
		s.began(span)
	}
	return context.WithValue(ctx, spanKey{}, kept), func(e host.SpanEnd) {
		s.mu.Lock()
		defer s.mu.Unlock()
		kept.ends = append(kept.ends, e)
	}
}

// withTracer returns a change of a configuration that adds a Tracer.
func withTracer(t host.Tracer) func(*host.Config) { return func(c *host.Config) { c.Tracer = t } }

// tree returns the spans as text, each within its parent and with its attributes, and forgets them. The connector, its type and the
// fuel, which is another after each change of a plugin, are left out.
func (s *spans) tree() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	var within func(parent *keptSpan, indent string)
	within = func(parent *keptSpan, indent string) {
		for _, kept := range s.all {
			if kept.parent == parent {
				b.WriteString(indent + kept.text() + "\n")
				within(kept, indent+"  ")
			}
		}
	}
	within(nil, "")
	s.all = nil
	return b.String()
}

func (s *keptSpan) text() string {
	text := string(s.Name)
	add := func(attributes []slog.Attr) {
		for _, a := range attributes {
			switch a.Key {
			case "keywright.connector", "keywright.type", "keywright.fuel":
			default:
				text += fmt.Sprintf(" %s=%v", strings.TrimPrefix(a.Key, "keywright."), a.Value)
			}
		}
	}
	add(s.Attributes())
	if len(s.ends) != 1 {
		return fmt.Sprintf("%s (ended %d times)", text, len(s.ends))
	}
	if text += " |"; len(s.ends[0].Attributes()) > 0 {
		add(s.ends[0].Attributes())
	}
	return text
}

// whole returns all that the spans hold, for a search.
func (s *spans) whole() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, kept := range s.all {
		fmt.Fprintf(&b, "%+v %v %+v", kept.Span, kept.Attributes(), kept.ends)
		for _, e := range kept.ends {
			fmt.Fprintf(&b, " %v %+v", e.Attributes(), e.Attempt)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// The spans of requests to other servers are those of a client.
func TestSpansOfAClient(t *testing.T) {
	var clients []host.SpanName
	for _, name := range []host.SpanName{
		host.SpanRequest, host.SpanAuthenticate, host.SpanRefresh, host.SpanConsent, host.SpanDiscover, host.SpanWait, host.SpanExchange, host.SpanKey, host.SpanSend,
	} {
		if (host.Span{Name: name}).Client() {
			clients = append(clients, name)
		}
	}
	if diff := cmp.Diff([]host.SpanName{host.SpanExchange, host.SpanSend}, clients); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A span of an exchange names the field with its URL, also if the plugin has read another URL before.
func TestFieldOfAnExchange(t *testing.T) {
	url := func(name string) abi.Field {
		return abi.Field{Name: name, Kind: abi.KindURL, Sinks: []string{abi.SinkToken}}
	}
	g := &guest{about: abi.Description{Uses: contract.Groups, Anonymous: true, Fields: []abi.Field{url("first_url"), url("second_url"), url("third_url")}}}
	g.authenticate = func(env contract.Env) (string, error) {
		_, _, _ = value(env, "first_url"), value(env, "third_url"), value(env, "second_url")
		env.TokenRequest([]byte(marshal(contract.TokenRequest{URL: value(env, "second_url")})))
		return "{}", nil
	}
	made := &spans{}
	w := newWorld(t, withoutBuiltIns, withGuest(g), withTracer(made))
	_, _ = w.try(w.connect("custom", config{"first_url": tokenURL + "/1", "second_url": tokenURL + "/2", "third_url": tokenURL + "/3"}), get(t.Context()))
	if got := made.tree(); strings.Count(got, "field=") != 1 || !strings.Contains(got, "field=second_url ") {
		t.Errorf("the spans are\n%s", got)
	}
}

// The seconds of an attribute are whole, and no less than the time.
func TestRetryAfterOfASpan(t *testing.T) {
	for after, want := range map[time.Duration]int64{1: 1, 30 * time.Second: 30, 30*time.Second + 1: 31} {
		if got := (host.SpanEnd{RetryAfter: after}).Attributes(); len(got) != 1 || got[0].Key != "keywright.retry_after_seconds" || got[0].Value.Int64() != want {
			t.Errorf("%v is %v, want %d", after, got, want)
		}
	}
	if got := (host.SpanEnd{}).Attributes(); len(got) != 0 {
		t.Errorf("no time is %v", got)
	}
}

// Many requests make spans at once, each with its own parts.
func TestSpansOfManyRequests(t *testing.T) {
	made := &spans{}
	w := newWorld(t, withTracer(made))
	w.canary("s")
	c := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() { _, _ = w.try(c, get(t.Context())) })
	}
	all.Wait()
	parts := map[*keptSpan]string{}
	for _, kept := range made.all {
		if len(kept.ends) != 1 {
			t.Errorf("%s ended %d times", kept.Name, len(kept.ends))
		}
		if kept.parent == nil || kept.parent.Name == host.SpanRequest {
			parts[kept.parent] += " " + string(kept.Name)
		}
	}
	if delete(parts, nil); len(parts) != 50 {
		t.Errorf("there are %d requests", len(parts))
	}
	for _, got := range parts {
		if got != " authenticate send" {
			t.Errorf("a request has the parts%s", got)
		}
	}
}
