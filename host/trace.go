package host

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/view"
)

// Trace records what a request of a [Connector] makes the host send and get. Put it into the context of the request with
// [WithTrace]. The zero value is ready for use. A Trace is safe for concurrent use.
//
// It holds no secret, token, code, assertion or key, and, without Descriptions, no text that only an answer has. The masked texts begin with
// masked- and a number. User names and other values of templates that are no secrets show as in an [Explanation].
type Trace struct {
	// Descriptions asks for the error_description of each refusal of a token endpoint. The endpoint wrote that text: show it to the
	// operator who asked, and keep it out of logs and answers to callers. Set it before WithTrace.
	Descriptions bool
	// AskAnew asks token endpoints although the host remembers that they have refused the same request ([TokenError].RetryAfter), unless
	// that is less than a second ago. It is for an operator who has repaired something: each request may count as a failed login there.
	// Set it before WithTrace.
	AskAnew bool

	record event.Trace
}

// WithTrace returns a context with whose requests t records the exchanges with token endpoints and the answers of the API. A request
// that gets its token from the cache, or that waits for the exchange of another request, records no exchange. If t is
// nil, nothing is recorded, not even by a Trace that ctx has.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	if t == nil {
		return event.WithTrace(ctx, nil)
	}
	return event.WithTrace(ctx, t.record.With(t.Descriptions, t.AskAnew))
}

// Exchanges returns the exchanges so far, in order. Each has its Answer.
func (t *Trace) Exchanges() []view.Exchange { return stepsOf[view.Exchange](t) }

// Answers returns the API's answers so far, one for each time that the request was sent.
func (t *Trace) Answers() []view.Answer { return stepsOf[view.Answer](t) }

func stepsOf[T fmt.Stringer](t *Trace) []T {
	all := []T{}
	for _, step := range t.record.Steps() {
		if s, ok := step.(T); ok {
			all = append(all, s)
		}
	}
	return all
}

// String returns the trace for people to read: exchanges and the API's answers in order, each with a line that says what it is, and
// then its text with two spaces before each line. Control characters are escaped.
func (t *Trace) String() string {
	var b strings.Builder
	for _, step := range t.record.Steps() {
		if _, ok := step.(view.Answer); ok {
			b.WriteString("the request to the API\n")
		}
		b.WriteString(step.String())
	}
	return b.String()
}

// Tracer makes spans of what a host does for a request, such as those of OpenTelemetry. Set it as [Config].Tracer. Nothing in a span is
// a secret, a token, a path, a query, or a text of an API, a token endpoint, a plugin or a caller: a span has names of the configuration,
// the method and the server of a request, numbers, and words of the host. So a Tracer can go where the logs do.
//
// These are the names of spans:
//
//   - request: a request of a [Connector.Transport] or a [Connector.GuardedTransport], until its answer begins. The API's refusal is no
//     error of it. Within it are authenticate and send, twice if the request is sent once more.
//   - authenticate: an attempt to authenticate a request. It ends before the request is sent, or when the caller goes away.
//   - refresh: the replacement of a token ahead of its end. No request waits for it.
//   - consent: a call of a plugin for a consent. Its attribute keywright.export is the function: consent, connect or disconnect.
//   - discover: a wait for the metadata of an issuer, which this call or another one reads.
//   - wait: a wait for something else. Its attribute keywright.awaits says for what: request, if another request of this host asks
//     for the same token; node, if the store of state decides which node asks for it; turn, if one request at a time uses a grant;
//     place, if as many requests wait as [Limits].ConcurrentExchanges or ConcurrentKeys allows.
//   - exchange: a request to a token endpoint, until its answer has been dealt with. Its attribute keywright.field is the field with
//     the URL, such as token_url.
//   - key: a use of the store of keys. Its attribute keywright.field is the field with the key.
//   - send: the request to the API, until its answer begins.
//
// There is an authenticate, a refresh or a consent for each [Attempt], and the spans behind these in the list are within it, but send.
//
// A Tracer is safe for concurrent use. It does not block. If it panics, the host logs that once, and goes on without the span.
//
// This one makes spans of OpenTelemetry, if Config.Tracer is tracer{otel.Tracer("example.com/crm")}:
//
//	type tracer struct{ trace.Tracer }
//
//	func (t tracer) Start(ctx context.Context, s host.Span) (context.Context, func(host.SpanEnd)) {
//		kind := trace.SpanKindInternal
//		if s.Client() {
//			kind = trace.SpanKindClient
//		}
//		ctx, span := t.Tracer.Start(ctx, s.Name, trace.WithSpanKind(kind), trace.WithAttributes(keyValues(s.Attributes())...))
//		return ctx, func(e host.SpanEnd) {
//			span.SetAttributes(keyValues(e.Attributes())...)
//			if e.Error != "" {
//				span.SetStatus(codes.Error, e.Error)
//			}
//			span.End()
//		}
//	}
//
//	func keyValues(all []slog.Attr) (list []attribute.KeyValue) {
//		for _, a := range all {
//			switch a.Value.Kind() {
//			case slog.KindInt64:
//				list = append(list, attribute.Int64(a.Key, a.Value.Int64()))
//			case slog.KindBool:
//				list = append(list, attribute.Bool(a.Key, a.Value.Bool()))
//			default:
//				list = append(list, attribute.String(a.Key, a.Value.String()))
//			}
//		}
//		return list
//	}
type Tracer interface {
	// Start begins a span within that of the context, and returns the context for what happens in the span and the function that ends
	// it. The context is derived from ctx; nil means ctx itself. The host calls end once, on any goroutine. If end is nil, there is no
	// span: the host uses ctx, and what happens is within the span around it.
	//
	// The context of a send or an exchange is that of the request to [Config].Base, or to the base of the transport. Such a base
	// may read the span from it and send a traceparent. The host itself sends none.
	//
	// A span may end after those around it: a caller that goes away does not end the request to a token endpoint.
	Start(ctx context.Context, s Span) (spanCtx context.Context, end func(SpanEnd))
}

// Span describes what begins.
type Span struct {
	// Name is one of the names in the comment of [Tracer].
	Name string

	connector, authType string
	// about says what begins. Its Method is "_OTHER" if it is not one of net/http.
	about event.Span
}

// Client reports whether the span is about a request to another server.
func (s Span) Client() bool { return s.Name == event.Send || s.Name == event.Exchange }

// Attributes returns what is known of the span as attributes, whose values are of the kinds String, Int64 and Bool. Their names are those
// of the semantic conventions of OpenTelemetry, where these have one, and begin with keywright. otherwise.
func (s Span) Attributes() []slog.Attr {
	all := append(make([]slog.Attr, 0, 8), slog.String("keywright.connector", s.connector), slog.String("keywright.type", s.authType))
	all = texts(all, "http.request.method", s.about.Method, "url.scheme", s.about.Scheme)
	if s.about.Host != "" {
		all = server(all, s.about.Scheme, s.about.Host)
	}
	if s.about.Second && s.Name == event.Send {
		all = append(all, slog.Int("http.request.resend_count", 1))
	} else if s.about.Second {
		all = append(all, slog.Bool("keywright.second", true))
	}
	return texts(all, "keywright.field", s.about.Field, "keywright.awaits", s.about.Awaits, "keywright.export", s.about.Export)
}

// texts appends the attributes whose values are not empty. pairs has names and values by turns.
func texts(all []slog.Attr, pairs ...string) []slog.Attr {
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			all = append(all, slog.String(pair[0], pair[1]))
		}
	}
	return all
}

// server appends the address and the port of a server.
func server(all []slog.Attr, scheme, hostPort string) []slog.Attr {
	address, port, err := net.SplitHostPort(hostPort)
	if err != nil {
		address, port = hostPort, map[string]string{"https": "443", "http": "80"}[scheme]
	}
	all = append(all, slog.String("server.address", address))
	if n, err := strconv.Atoi(port); err == nil {
		all = append(all, slog.Int("server.port", n))
	}
	return all
}

// SpanEnd describes how a span has ended.
type SpanEnd struct {
	// Error says what went wrong, in one word: the status of an HTTP request from 400 on, the registered error code of a token endpoint,
	// or a word of the host, such as timeout or address_refused. "_OTHER" is anything else. It is "" if nothing did.
	Error string

	attributes []slog.Attr
}

// Attributes returns what is known of the end as attributes, like [Span.Attributes].
func (e SpanEnd) Attributes() []slog.Attr { return e.attributes }

// Attempt describes one attempt to authenticate a request, to replace a token ahead of its end, or a part of a consent.
type Attempt struct {
	// Source is the connector. Connector is its name, and AuthType is its auth type.
	Source              *Connector
	Connector, AuthType string
	// SandboxTime is the time that the guest and its host functions took. It does not include waits for token endpoints, for the
	// store of keys, and for other guests.
	SandboxTime time.Duration
	// Fuel is the work of the guest, in the units of [Limits].Fuel. A call with the same inputs always uses the same fuel.
	Fuel int64
	// Runs is the number of times that the guest ran: more than once if it needed an entry of the token cache or the request's
	// body, and 0 if it did not. MostFuel is the fuel of the run that used most, which [Limits].Fuel bounds.
	Runs     int
	MostFuel int64
	// Failure says in which way the plugin failed, if it is the plugin that has failed the attempt.
	Failure PluginFailure
	// Exchanges is the number of token requests that were sent, and TokenTime is the time that their endpoints took.
	Exchanges int
	TokenTime time.Duration
	// Endpoint is the origin of the endpoint that was asked last, such as https://login.example.com. It is "" if none was, or
	// if a secret is a part of its host.
	Endpoint string
	// Discoveries is the number of times that the attempt had the metadata of an issuer read, which takes one or two requests. Others
	// that wait for the same metadata do not count it.
	Discoveries int
	// KeyRequests is the number of times that a key of [Config].Keys was used, and KeyTime is the time that this took.
	KeyRequests int
	KeyTime     time.Duration
	// Cached reports whether the call read a value of the token cache.
	Cached bool
	// Expires is the time at which the first of the cached values that went into the request ends, or the value that the attempt has
	// fetched and stored. It is zero if there is none, and for an auth type that asks no token endpoint.
	Expires time.Time
	// Ahead reports whether the call was made to replace a token ahead of its end ([ConnectorConfig].RefreshAhead). No request
	// waited for it, and none gets Err.
	Ahead bool
	// Consent reports whether the call was made to begin or end the consent of a user, or to take one back, and for no request.
	Consent bool
	// Reused reports whether an earlier call was used or repeated, so that the plugin did not run.
	Reused bool
	// Err is the error of the attempt. It is nil if the plugin returned a mutation that can be applied.
	Err error
}
