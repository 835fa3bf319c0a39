package host_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/keywright/keywright/host"
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
