package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/internal/contract"
)

func attemptOf(c *Connector, a *event.Attempt, err error) Attempt {
	return Attempt{
		Source: c.main, Connector: c.config.Name, AuthType: c.auth.Type, Err: err,
		Runs: a.Runs, Fuel: a.Fuel, MostFuel: a.MostFuel, SandboxTime: a.SandboxTime, Failure: PluginFailure(a.Failure),
		Exchanges: a.Exchanges, TokenTime: a.TokenTime, Endpoint: a.Endpoint, Discoveries: a.Discoveries,
		KeyRequests: a.KeyRequests, KeyTime: a.KeyTime,
		Cached: a.Cached, Reused: a.Reused, Expires: a.Expires, Ahead: a.Ahead, Consent: a.Consent,
	}
}

type spans struct {
	connector *Connector
	tracer    Tracer
}

func (s spans) begin(ctx context.Context, e event.Span) (spanCtx context.Context, end func(event.End)) {
	span := Span{Name: e.Name, connector: s.connector.config.Name, authType: s.connector.config.Auth.Type(), about: e}
	if span.about.Method = ""; span.Client() {
		span.about.Method = methodName(e.Method)
	}
	spanCtx, endSpan := s.start(ctx, span)
	switch {
	case endSpan == nil:
		return ctx, nil
	case spanCtx == nil:
		spanCtx = ctx
	}
	name := span.Name // captured by value, so that span stays on the stack
	return spanCtx, func(e event.End) {
		result := s.end(name, e)
		defer s.recoverPanic(ctx)
		endSpan(result)
	}
}

// start calls the Tracer. If that panics, start returns nil.
func (s spans) start(ctx context.Context, span Span) (spanCtx context.Context, end func(SpanEnd)) {
	defer s.recoverPanic(ctx)
	return s.tracer.Start(ctx, span)
}

// recoverPanic recovers from a panic of the Tracer, which must not fail a request. In a run of a guest, it would be taken for the plugin's.
func (s spans) recoverPanic(ctx context.Context) {
	if p := recover(); p != nil {
		s.connector.log.warn(ctx, "", fmt.Sprintf("the Tracer panicked with a %T, and its span is lost", p)) // the value may hold anything
	}
}

func (s spans) end(name string, e event.End) (end SpanEnd) {
	if failure, ok := errors.AsType[*hostfn.Failure](e.Err); ok {
		e.Err = s.connector.failure(failure)
	}
	var failed *Error
	var refusal *TokenError
	var stage Stage
	var wait time.Duration
	retryable := false
	switch {
	case e.Err == nil:
		if name == event.Send && e.Status >= http.StatusBadRequest {
			end.Error = strconv.Itoa(e.Status)
		}
	case errors.As(e.Err, &failed):
		end.Error, stage, retryable = errorType(e.Err), failed.Stage, failed.Retryable()
	case name == event.Exchange && errors.As(e.Err, &refusal):
		end.Error, retryable, wait = errorType(e.Err), refusal.Retryable(), refusal.RetryAfter
	default:
		end.Error = errorType(e.Err)
		retryable = hostfn.IsPassing(e.Err) || errors.Is(e.Err, context.DeadlineExceeded) && !errors.Is(e.Err, context.Canceled)
	}
	all := texts(make([]slog.Attr, 0, 8), "error.type", end.Error, "keywright.stage", string(stage))
	if retryable && name != event.Send { // whether a request may be sent again depends on the API
		all = append(all, slog.Bool("keywright.retryable", true))
	}
	if e.Status != 0 {
		all = append(all, slog.Int("http.response.status_code", e.Status))
	}
	if wait > 0 {
		all = append(all, slog.Int64("keywright.retry_after_seconds", int64((wait+time.Second-1)/time.Second)))
	}
	if a := e.Attempt; a != nil {
		all = append(all, slog.Bool("keywright.reused", a.Reused), slog.Bool("keywright.cached", a.Cached), slog.Int("keywright.token_exchanges", a.Exchanges))
		if a.Runs > 0 {
			all = append(all, slog.Int("keywright.runs", a.Runs), slog.Int64("keywright.fuel", a.Fuel))
		}
		all = texts(all, "keywright.plugin_failure", a.Failure)
	}
	end.attributes = all
	return end
}

// methodName returns the method for a span. Callers of an embedder may choose methods.
func methodName(method string) string {
	switch method {
	case "":
		return http.MethodGet
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, http.MethodConnect, http.MethodTrace:
		return method
	}
	return otherError
}

// otherError is the value of error.type for what has no other, as in the semantic conventions of OpenTelemetry.
const otherError = "_OTHER"

// errorTypes has the words for errors to compare with errors.Is. The first that fits counts.
var errorTypes = []struct {
	err  error
	word string
}{
	{context.Canceled, "canceled"},
	{context.DeadlineExceeded, "timeout"},
	{ErrAddressRefused, "address_refused"},
	{ErrServerCertificate, "server_certificate"},
	{ErrSecretNotFound, "secret_not_found"},
	{ErrKeyNotFound, "key_not_found"},
	{ErrKeyRefused, "key_refused"},
	{ErrCredentialInResponse, "credential_in_response"},
	{state.ErrUnavailable, "state_unavailable"},
	{ErrClosed, "closed"},
	{io.EOF, "connection_closed"},
	{io.ErrUnexpectedEOF, "connection_closed"},
}

// errorType returns the value of error.type for an error: a word of a list, so that no text of an error gets into a span.
func errorType(err error) string {
	var grant *GrantError
	var tokenErr *TokenError
	var network net.Error
	switch {
	case errors.As(err, &grant):
		return "grant_" + strings.ReplaceAll(string(grant.Condition), " ", "_")
	case errors.As(err, &tokenErr) && tokenErr.Code != "" && tokenErr.Code != "other":
		return tokenErr.Code
	case tokenErr != nil && tokenErr.Status >= http.StatusBadRequest:
		return strconv.Itoa(tokenErr.Status)
	case tokenErr != nil:
		return "no_token"
	case errors.As(err, new(*http.MaxBytesError)):
		return "body_too_large"
	case errors.As(err, new(*CertificateError)):
		return "client_certificate"
	}
	for _, entry := range errorTypes {
		if errors.Is(err, entry.err) {
			return entry.word
		}
	}
	switch {
	case errors.As(err, &network) && network.Timeout():
		return "timeout"
	case errors.As(err, new(*net.DNSError)):
		return "name_not_found"
	case errors.As(err, new(*net.OpError)):
		return "connection_failed"
	case errors.As(err, new(*DiscoveryError)):
		return "metadata"
	}
	return otherError
}

// connectorLog writes the log of one connector and its plugin.
//
// It logs each warning once, and at most 32 warnings of the host and 32 of the plugin. The separate limits keep a
// plugin from suppressing the host's warnings.
type connectorLog struct {
	logger              *slog.Logger
	clock               func() time.Time
	connector, authType string
	// report is Config.Warn.
	report func(connector string, p Problem)

	mu                  sync.Mutex
	warned, guestWarned map[Problem]bool
	refusals            pace
}

const maxWarnings = 32 // of the host, and as many of the plugin

// line logs a text at a level of the host function log.
func (l *connectorLog) line(ctx context.Context, level contract.Level, text string) {
	l.write(ctx, level, text)
}

func (l *connectorLog) write(ctx context.Context, level contract.Level, text string, more ...slog.Attr) {
	levels := [...]slog.Level{slog.LevelDebug - 4, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}
	attrs := append([]slog.Attr{slog.String("connector", Printable(l.connector)), slog.String("type", l.authType)}, more...)
	l.logger.LogAttrs(ctx, levels[min(level, contract.LevelError)], text, attrs...)
}

// warn logs a warning of the host about a member of the connector, or with path "" about something else.
func (l *connectorLog) warn(ctx context.Context, path, text string) {
	l.once(ctx, &l.warned, Problem{Path: path, Message: text})
}

// once logs or reports a warning, unless problems contains it or is full.
func (l *connectorLog) once(ctx context.Context, problems *map[Problem]bool, p Problem) {
	l.mu.Lock()
	skip := (*problems)[p] || len(*problems) >= maxWarnings
	if !skip {
		if *problems == nil {
			*problems = map[Problem]bool{}
		}
		(*problems)[p] = true
	}
	l.mu.Unlock()
	switch {
	case skip:
	case l.report != nil:
		l.report(l.connector, p)
	default:
		l.line(ctx, contract.LevelWarn, strings.TrimPrefix(p.Path+": "+p.Message, ": "))
	}
}

// minRefusalGap is the minimum time between two logged refusals of a connector. Each user of a connector may have
// refusals of their own. The same inputs are never refused again sooner than this.
const minRefusalGap = 800 * time.Millisecond

// seldom logs a refusal, unless another one was logged just before.
func (l *connectorLog) seldom(ctx context.Context, text string, attrs ...slog.Attr) {
	if l.refusals.due(l.clock(), minRefusalGap) {
		l.write(ctx, contract.LevelWarn, text, attrs...)
	}
}

// metadata logs that the metadata of an issuer has changed, or that it cannot be read.
func (l *connectorLog) metadata(ctx context.Context, issuer, text string, err error) {
	attributes := []slog.Attr{slog.String("issuer", Printable(issuer))}
	level := contract.LevelInfo
	if err != nil {
		level = contract.LevelWarn
		attributes = append(attributes, slog.String("error", Printable(err.Error())))
	}
	l.write(ctx, level, text, attributes...)
}

// pace keeps something from happening too often. It is safe for concurrent use.
type pace struct {
	mu   sync.Mutex
	last time.Time
}

// due reports whether now is a gap after the last one, or before it, as after a clock was set back. If so, due records now.
func (p *pace) due(now time.Time, gap time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if since := now.Sub(p.last); !p.last.IsZero() && since >= 0 && since < gap {
		return false
	}
	p.last = now
	return true
}
