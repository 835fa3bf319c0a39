package host_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/internal/event"
)

// Spans show each part of a request: what came from the cache, what was asked, which attempt it was, and where it failed.
func TestSpansOfRequests(t *testing.T) {
	made := &spans{}
	w := newWorld(t, withTracer(made))
	c := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
	w.login.Answer(tokens(3600))
	do := func() { _, _ = w.try(c, get(t.Context())) }
	const (
		exchange = "    exchange http.request.method=POST url.scheme=https server.address=login.test server.port=443 field=token_url | "
		send     = "  send http.request.method=GET url.scheme=https server.address=api.test server.port=443"
		asked    = "  authenticate | reused=false cached=false token_exchanges=1 runs=2\n" + exchange + "http.response.status_code=200\n"
		reused   = "  authenticate | reused=true cached=true token_exchanges=0\n"
		well     = "request | http.response.status_code=200\n"
	)
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"without a token", do, well + asked + send + " | http.response.status_code=200\n"},
		{"with a token of the cache", do, well + "  authenticate | reused=false cached=true token_exchanges=0 runs=1\n" + send + " | http.response.status_code=200\n"},
		{"with the mutation of before", do, well + reused + send + " | http.response.status_code=200\n"},
		{"a request that the API refuses", func() {
			w.api.Answer(status(http.StatusBadRequest))
			do()
		}, "request | http.response.status_code=400\n" + reused + send + " | error.type=400 http.response.status_code=400\n"},
		{"a token that the API refuses", func() {
			w.api.Answer(func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.Header.Get("Authorization"), "t1") {
					return status(http.StatusUnauthorized)(r)
				}
				return status(http.StatusOK)(r)
			})
			w.Advance(time.Minute)
			do()
		}, well + reused + send + " | error.type=401 http.response.status_code=401\n" +
			strings.Replace(asked, " |", " second=true |", 1) + send + " http.request.resend_count=1 | http.response.status_code=200\n"},
		{"an API that cannot be reached", func() {
			w.api.Answer(func(*http.Request) (*http.Response, error) { return nil, errors.New("no network") })
			do()
		}, "request | error.type=_OTHER\n  authenticate | reused=false cached=true token_exchanges=0 runs=1\n" + send + " | error.type=_OTHER\n"},
		{"a token endpoint that refuses", func() {
			w.login.Answer(respond(http.StatusUnauthorized, `{"error":"invalid_client"}`))
			w.Advance(2 * time.Hour)
			do()
		}, "request | error.type=invalid_client stage=token\n" +
			"  authenticate | error.type=invalid_client stage=token reused=false cached=false token_exchanges=1 runs=2\n" +
			exchange + "error.type=invalid_client http.response.status_code=401 retry_after_seconds=1\n"},
		{"a refusal that is known", do, "request | error.type=invalid_client stage=token\n" +
			"  authenticate | error.type=invalid_client stage=token reused=false cached=false token_exchanges=0 runs=2\n"},
		{"a token endpoint that is down", func() {
			w.login.Answer(status(http.StatusServiceUnavailable))
			w.Advance(time.Minute)
			do()
		}, "request | error.type=503 stage=token retryable=true\n" +
			"  authenticate | error.type=503 stage=token retryable=true reused=false cached=false token_exchanges=1 runs=2\n" +
			exchange + "error.type=503 retryable=true http.response.status_code=503\n"},
		{"a token endpoint that cannot be reached", func() {
			w.login.Answer(func(*http.Request) (*http.Response, error) { return nil, errors.New("no network") })
			w.Advance(time.Minute)
			do()
		}, "request | error.type=_OTHER stage=token retryable=true\n" +
			"  authenticate | error.type=_OTHER stage=token retryable=true reused=false cached=false token_exchanges=1 runs=2\n" +
			exchange + "error.type=_OTHER retryable=true\n"},
		{
			"a secret that is missing", func() {
				_, _ = w.try(w.connect("api_key", config{"key": "X-Key", "value": "{{ get_secret('none') }}", "in": "header"}), get(t.Context()))
			},
			"request | error.type=secret_not_found stage=template\n" +
				"  authenticate | error.type=secret_not_found stage=template reused=false cached=false token_exchanges=0\n",
		},
		{"another origin", func() {
			r := get(t.Context())
			r.URL.Host = "elsewhere.test"
			_, _ = w.try(c, r)
		}, "request | error.type=_OTHER stage=origin\n"},
	} {
		step.do()
		if diff := cmp.Diff(step.want, made.tree()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", step.name, diff)
		}
	}
}

// The spans of a request that waits show for what, and those of a caller who goes away go on without it.
func TestSpansOfWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		made := &spans{}
		w := newWorld(t, withTracer(made), func(c *host.Config) { c.Limits.ConcurrentExchanges = 1 })
		one, other := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")), w.connectAs("other", "oauth_client_credentials", oauth("{{ get_secret('s') }}"))
		issue := make(chan struct{})
		w.login.Answer(func(r *http.Request) (*http.Response, error) { <-issue; return token("a-token-of-waiting", 3600)(r) })
		var all sync.WaitGroup
		ask := func(c *host.Connector, ctx context.Context) {
			all.Go(func() { _, _ = w.try(c, get(ctx)) })
			synctest.Wait()
		}
		gone, leave := context.WithCancel(t.Context())
		ask(one, gone)
		ask(one, t.Context())
		ask(other, t.Context())
		leave()
		synctest.Wait()
		close(issue)
		all.Wait()
		synctest.Wait()
		want := `request | error.type=canceled stage=token
  authenticate | error.type=canceled stage=token reused=false cached=false token_exchanges=0 runs=1
    exchange http.request.method=POST url.scheme=https server.address=login.test server.port=443 field=token_url | http.response.status_code=200
request | http.response.status_code=200
  authenticate | reused=false cached=true token_exchanges=0 runs=2
    wait awaits=request |
  send http.request.method=GET url.scheme=https server.address=api.test server.port=443 | http.response.status_code=200
request | http.response.status_code=200
  authenticate | reused=false cached=false token_exchanges=1 runs=2
    wait awaits=place |
    exchange http.request.method=POST url.scheme=https server.address=login.test server.port=443 field=token_url | http.response.status_code=200
  send http.request.method=GET url.scheme=https server.address=api.test server.port=443 | http.response.status_code=200
`
		equal(t, want, made.tree())
	})
}

// Consents, turns, nodes, metadata, keys of a store and tokens that are replaced ahead have spans of their own.
func TestSpansOfOtherParts(t *testing.T) {
	const login = "url.scheme=https server.address=login.test server.port=443"
	t.Run("a consent and its grant", func(t *testing.T) {
		made := &spans{}
		w := newWorld(t, withState(t, &failingStore{}), withTracer(made), withAuthCode)
		c := w.connect("oauth_authorization_code", with(oauth("{{ get_secret('s') }}"), "authorization_url", "https://login.test/authorize"))
		w.login.Answer(respond(http.StatusOK, `{"access_token":"a1","refresh_token":"r1","token_type":"Bearer","expires_in":3600}`))
		check(t, finish(t, w, c, host.User{}, back(begin(t, c, host.User{}), "a-code")))
		w.get(c)
		want := `consent export=consent | reused=false cached=false token_exchanges=0 runs=1
consent export=connect | reused=false cached=false token_exchanges=1 runs=1
  exchange http.request.method=POST ` + login + ` field=token_url | http.response.status_code=200
request | http.response.status_code=200
  authenticate | reused=false cached=false token_exchanges=1 runs=2
    wait awaits=node |
    wait awaits=turn |
    exchange http.request.method=POST ` + login + ` field=token_url | http.response.status_code=200
  send http.request.method=GET url.scheme=https server.address=api.test server.port=443 | http.response.status_code=200
`
		equal(t, want, made.tree())
	})
	t.Run("the metadata of an issuer", func(t *testing.T) {
		made := &spans{}
		w := newWorld(t, withTracer(made))
		w.login.Answer(metadata(loginDocument))
		w.get(w.connect("oauth_client_credentials", discovering()))
		if got, want := made.tree(), "    discover "+login+" |\n    exchange http.request.method=POST "+login+" field=token_url |"; !strings.Contains(got, want) {
			t.Errorf("no\n%s in\n%s", want, got)
		}
	})
	t.Run("a key of a store", func(t *testing.T) {
		made, keys := &spans{}, &fakeKeys{}
		keys.add("api", "HS256")
		w := newWorld(t, withKeys(keys), withTracer(made))
		w.get(w.connect("jwt", storedJWT("HS256")))
		if got := made.tree(); strings.Count(got, "    key field=private_key |\n") != 1 {
			t.Errorf("the spans are\n%s", got)
		}
	})
	t.Run("a token ahead of its end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			made := &spans{}
			w := newWorld(t, withTracer(made))
			w.login.Answer(tokens(3600))
			c := w.connectAhead("oauth_client_credentials", oauth("{{ get_secret('s') }}"), 10*time.Minute)
			w.get(c)
			w.get(c)
			made.tree()
			w.Advance(50 * time.Minute)
			w.get(c)
			synctest.Wait()
			want := `request | http.response.status_code=200
  authenticate | reused=true cached=true token_exchanges=0
    refresh | reused=false cached=false token_exchanges=1 runs=1
      exchange http.request.method=POST ` + login + ` field=token_url | http.response.status_code=200
  send http.request.method=GET url.scheme=https server.address=api.test server.port=443 | http.response.status_code=200
`
			equal(t, want, made.tree())
		})
	})
}

// threats.md 230: any field may take its value from a secret, also the host of a token URL. A span has neither it, nor the path, the
// query and the credential of a request to the API.
func TestSpansOmitSecretURL_threats_230(t *testing.T) {
	made := &spans{}
	w := newWorld(t, withTracer(made))
	name := w.Hide("a host", strings.ToLower(w.Word("a word")))
	w.setSecret("host", name+".test:8443")
	w.canary("s")
	w.api.Answer(tokens(3600)) // which answers for all hosts but login.test
	path := w.Word("a path of the API")
	c := w.connect("oauth_client_credentials", with(oauth("{{ get_secret('s') }}"), "token_url", "https://{{ get_secret('host') }}/"+w.Word("a path")+"?x={{ get_secret('s') }}"))
	r := get(t.Context())
	r.URL.Path, r.URL.RawQuery, r.Method = "/"+path, "q="+w.Word("a query"), w.Word("a method")
	must(w.try(c, r))(t)
	for _, kept := range made.all {
		w.Out("a span", fmt.Sprintf("%+v %v", kept.Span, kept.Attributes()))
		for _, e := range kept.ends {
			w.Out("the end of a span", fmt.Sprintf("%+v %v", e, e.Attributes()))
		}
	}
	for _, call := range w.calls {
		w.Out("an attempt", fmt.Sprintf("%+v", call))
	}
	got := made.tree()
	for _, want := range []string{"exchange http.request.method=POST url.scheme=https field=token_url |", "send http.request.method=_OTHER url.scheme=https server.address=api.test"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

// threats.md 231: an API, a token endpoint or a plugin cannot write into a span. It has their numbers, and registered words.
func TestSpansHaveNoTextsOfOthers_threats_231(t *testing.T) {
	made := &spans{}
	w := newWorld(t, withTracer(made))
	c := w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}"))
	words := []string{w.Word("an error code"), w.Word("a description"), w.Word("a header"), w.Word("an error of the network")}
	w.login.Answer(respond(http.StatusBadRequest, `{"error":"`+words[0]+`","error_description":"`+words[1]+`"}`, "X-"+words[2], words[2]))
	_, _ = w.try(c, get(t.Context()))
	w.Out("the spans of a refusal", made.whole())
	if got := made.tree(); strings.Count(got, "error.type=400 ") != 3 {
		t.Errorf("the spans are\n%s", got)
	}
	w.login.Answer(token("a-token-of-words", 3600))
	w.api.Answer(func(*http.Request) (*http.Response, error) { return nil, errors.New(words[3]) })
	w.Advance(time.Hour)
	err := roundTripError(c.Transport(nil).RoundTrip(get(t.Context())))
	if err == nil || !strings.Contains(err.Error(), words[3]) {
		t.Fatalf("the error is %v", err)
	}
	w.Out("the spans of a failure", made.whole())
}

// threats.md 232: the context of a span goes to the base, which may send a traceparent. The host adds none, and the caller's request is
// the one of the answer.
func TestTheBaseGetsTheSpan_threats_232(t *testing.T) {
	made := &spans{}
	var mu sync.Mutex
	got := map[string]string{}
	w := newWorld(t, withTracer(made), func(c *host.Config) {
		base := c.Base
		c.Base = answer(func(r *http.Request) (*http.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			got[r.URL.Host] = spanOf(r.Context()).Name + r.Header.Get("Traceparent") + r.Header.Get("Tracestate") + r.Header.Get("Baggage")
			return base.RoundTrip(r)
		})
	})
	r := get(t.Context())
	response := must(w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")).Transport(nil).RoundTrip(r))(t)
	defer response.Body.Close()
	if response.Request != r {
		t.Error("the request of the answer is not the caller's")
	}
	equal(t, map[string]string{"login.test": "exchange", "api.test": "send"}, got)
}

// tracer is a Tracer that is a function.
type tracer func(context.Context, host.Span) (context.Context, func(host.SpanEnd))

func (f tracer) Start(ctx context.Context, s host.Span) (context.Context, func(host.SpanEnd)) {
	return f(ctx, s)
}

// A Tracer that does not do what it should fails no request, and no plugin is blamed for it.
func TestATracerFailsNoRequest(t *testing.T) {
	for name, c := range map[string]struct {
		tracer tracer
		logged string
	}{
		"it wants no span": {func(context.Context, host.Span) (context.Context, func(host.SpanEnd)) { return nil, nil }, ""},
		"it returns no context": {func(context.Context, host.Span) (context.Context, func(host.SpanEnd)) {
			return nil, func(host.SpanEnd) {}
		}, ""},
		"it returns another, no span": {func(context.Context, host.Span) (context.Context, func(host.SpanEnd)) {
			return context.Background(), nil
		}, ""},
		"it panics at the beginning": {func(context.Context, host.Span) (context.Context, func(host.SpanEnd)) { panic(errors.New("a-text")) }, "the Tracer panicked with a *errors.errorString"},
		"it panics at the end": {func(ctx context.Context, _ host.Span) (context.Context, func(host.SpanEnd)) {
			return ctx, func(host.SpanEnd) { panic("a-text") }
		}, "the Tracer panicked with a string"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, withTracer(c.tracer))
			w.get(w.connect("oauth_client_credentials", oauth("{{ get_secret('s') }}")))
			if n := w.logged(c.logged); c.logged != "" && n != 1 || strings.Contains(w.log.String(), "a-text") {
				t.Errorf("the log has %d lines with %q:\n%s", n, c.logged, w.log.String())
			}
			for _, call := range w.calls {
				if call.Err != nil || call.Failure != "" {
					t.Errorf("Observe got %+v", call)
				}
			}
		})
	}
}

// Without a Tracer, and with one that wants no spans, a request costs no more objects than those that it needs anyway.
func TestUnwantedSpansCost(t *testing.T) {
	cost := func(tracer host.Tracer) float64 {
		ok := &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody}
		h := must(host.New(t.Context(), host.Config{
			Secrets: host.MapSecrets{"s": "a-secret-of-a-measurement"}, CodeCache: codeCache, Tracer: tracer,
			Base: answer(func(*http.Request) (*http.Response, error) { return ok, nil }),
		}))(t)
		defer h.Close(t.Context())
		c := must(h.NewConnector(t.Context(), host.ConnectorConfig{Name: "crm", Origins: []string{apiOrigin}, Auth: []host.Auth{{
			Type: "api_key", Config: config{"key": "X-Key", "value": "{{ get_secret('s') }}", "in": "header"},
		}}}))(t)
		transport, r := c.Transport(nil), get(t.Context())
		return testing.AllocsPerRun(100, func() {
			_ = must(transport.RoundTrip(r))(t).Body.Close()
		})
	}
	none := cost(nil)
	inert := cost(tracer(func(ctx context.Context, _ host.Span) (context.Context, func(host.SpanEnd)) { return ctx, nil }))
	if none > 8 || inert > none {
		t.Errorf("a request costs %v objects, and %v with a Tracer that wants no spans", none, inert)
	}
}

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
	// ends has the ends of the span. One is right.
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
	text := s.Name
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
			fmt.Fprintf(&b, " %v", e.Attributes())
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// The spans of requests to other servers are those of a client.
func TestSpansOfAClient(t *testing.T) {
	var clients []string
	for _, name := range []string{
		event.Request, event.Authenticate, event.Refresh, event.Consent, event.Discover, event.Wait, event.Exchange, event.Key, event.Send,
	} {
		if (host.Span{Name: name}).Client() {
			clients = append(clients, name)
		}
	}
	equal(t, []string{event.Exchange, event.Send}, clients)
}

// Many requests make spans at once, each with its own parts.
func TestSpansOfManyRequests(t *testing.T) {
	made := &spans{}
	w := newWorld(t, withTracer(made))
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
		if kept.parent == nil || kept.parent.Name == event.Request {
			parts[kept.parent] += " " + kept.Name
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
