package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/server/identity"
	"github.com/keywright/keywright/server/internal/trial"
)

// httpProblem is an error that callers receive as a problem document (RFC 9457).
type httpProblem struct {
	status int
	// kind is the last part of the problem's type.
	kind   string
	detail string
	// stage is the stage of the host's error.
	stage string
	// retry is the value of Retry-After in seconds. If it is 0, there is no such header.
	retry int
	// cause goes into the log. Callers do not receive it, because it may contain a secret.
	cause error
	// alreadyLogged reports whether the host has logged the error already, once for all requests that it affects.
	alreadyLogged bool
}

func (p *httpProblem) Error() string {
	if p.cause != nil {
		return p.cause.Error()
	}
	return p.detail
}

func problemOf(err error) *httpProblem {
	var p *httpProblem
	var refusal *trial.Refusal
	var failed *host.Error
	var grant *host.GrantError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &refusal):
		kinds := map[int]string{http.StatusMethodNotAllowed: "method-not-allowed", http.StatusNotFound: "unknown-path", http.StatusBadRequest: "bad-request"}
		return &httpProblem{status: refusal.Status, kind: kinds[refusal.Status], detail: refusal.Detail}
	case errors.As(err, &large):
		return &httpProblem{status: http.StatusRequestEntityTooLarge, kind: "body-too-large", detail: fmt.Sprintf("the body has more than %d bytes", large.Limit)}
	case errors.Is(err, identity.ErrUnauthenticated):
		return &httpProblem{status: http.StatusUnauthorized, kind: "unauthenticated", detail: "this needs a valid session", cause: err}
	case errors.Is(err, identity.ErrAmbiguous):
		return &httpProblem{status: http.StatusBadRequest, kind: "ambiguous-session", detail: "the request names its user in more than one way", cause: err}
	case errors.Is(err, identity.ErrUnavailable):
		return &httpProblem{status: http.StatusServiceUnavailable, kind: "sessions-unavailable", detail: "sessions cannot be verified at the moment", retry: 5}
	case errors.Is(err, errUpstreamTime):
		return &httpProblem{status: http.StatusBadGateway, kind: "upstream-timeout", detail: "the API did not answer in time"}
	case errors.Is(err, host.ErrCredentialInResponse):
		return &httpProblem{status: http.StatusBadGateway, kind: "credential-echoed", detail: "the API's answer held the credential, and is not passed on", cause: err}
	case errors.As(err, &grant) && grant.Condition == host.ConditionUncertain:
		return &httpProblem{
			retry: max(1, int(math.Ceil(grant.RetryAfter.Seconds()))), alreadyLogged: true, status: http.StatusServiceUnavailable, kind: "grant-uncertain", stage: string(host.StageToken),
			detail: "nobody knows yet whether the authorization server still takes the grant, and the request was not sent", cause: err,
		}
	case errors.As(err, &failed) && failed.Stage == host.StageResponse, failed == nil && (errors.Is(err, answers.ErrCoding) || errors.Is(err, answers.ErrSwitched)):
		return &httpProblem{status: http.StatusBadGateway, kind: "answer-refused", detail: "the API's answer cannot be passed on", cause: err}
	case errors.As(err, &failed) && errors.Is(err, host.ErrBusy):
		return &httpProblem{status: http.StatusServiceUnavailable, kind: "too-many-requests", detail: "there are more requests that wait for tokens, signatures or their turn than this gateway takes", stage: string(failed.Stage), retry: 1, cause: err}
	case errors.As(err, &failed):
		p = unauthenticated(failed.Stage, err)
		p.retry = retryAfter(err)
		p.alreadyLogged = p.retry > 0
		return p
	}
	return &httpProblem{status: http.StatusBadGateway, kind: "upstream-failed", detail: "the API could not be reached, or broke off", cause: err}
}

// unauthenticated returns the problem for a request that was not sent, because authentication failed at a stage.
func unauthenticated(stage host.Stage, cause error) *httpProblem {
	return &httpProblem{status: http.StatusBadGateway, kind: "authentication-failed", stage: string(stage), detail: "the request could not be authenticated, and was not sent", cause: cause}
}

// retryAfter returns the number of seconds for which the host sends no more requests to a token endpoint that refused one, or to an
// issuer whose metadata cannot be read. It returns 0 if err has another cause.
func retryAfter(err error) int {
	if tokenErr, ok := errors.AsType[*host.TokenError](err); ok {
		return int(math.Ceil(tokenErr.RetryAfter.Seconds()))
	}
	if metadata, ok := errors.AsType[*host.DiscoveryError](err); ok {
		return int(math.Ceil(metadata.RetryAfter.Seconds()))
	}
	return 0
}

// problem is like problemOf, for an error of a request with this context. If the context has ended, its cause decides, because
// err may be only a consequence of that.
func (c *call) problem(ctx context.Context, err error) *httpProblem {
	const statusGone = 499 // the status of a request whose caller has gone away. It appears in logs and metrics only, as in other servers
	cause := context.Cause(ctx)
	if errors.Is(cause, errUpstreamTime) {
		return problemOf(cause)
	}
	p := problemOf(err)
	if grant, ok := errors.AsType[*host.GrantError](err); ok && grant.Condition != host.ConditionUncertain && grant.User != "" && c.connector != nil && c.connector.consents.NeedsConsent() {
		if grant.Condition == host.ConditionNotConnected {
			err = nil // it has the ID of the user, whom the log need not name
		}
		return &httpProblem{
			status: http.StatusForbidden, kind: "not-connected", stage: p.stage, cause: err,
			detail: "the user has to connect an account first, at /connect/" + c.connector.definition.Permalink,
		}
	}
	if errors.Is(cause, context.Canceled) && p.status >= http.StatusInternalServerError && !errors.Is(err, host.ErrCredentialInResponse) {
		return &httpProblem{status: statusGone, kind: "caller-gone", detail: "the caller did not wait for the answer", cause: err}
	}
	return p
}

// report logs a problem and adds it to the event.
func (c *call) report(ctx context.Context, p *httpProblem) {
	const maxNameLogged = 200 // bytes of a name for which there is no connector
	c.event.Problem, c.event.Stage, c.event.Err, c.failure = p.kind, p.stage, cmp.Or[error](p.cause, p), p
	level := slog.LevelInfo // for mistakes of the caller
	switch {
	case p.alreadyLogged:
		level = slog.LevelDebug
	case p.status >= http.StatusInternalServerError:
		level = slog.LevelWarn
	}
	attrs := []slog.Attr{slog.String("request_id", c.event.ID), slog.Int("status", p.status), slog.String("problem", p.kind)}
	if c.connector != nil {
		attrs = append(attrs, slog.String("connector", c.connector.definition.Permalink))
	}
	if p.stage != "" {
		attrs = append(attrs, slog.String("stage", p.stage))
	}
	if c.connector == nil && p.status == http.StatusNotFound && c.callerURL != nil { // the rest of the path may be personal, or a secret
		name, _, _ := strings.Cut(strings.TrimPrefix(c.callerURL.EscapedPath(), "/connectors/"), "/")
		attrs = append(attrs, slog.String("connector", host.Printable(name[:min(len(name), maxNameLogged)])))
	}
	if c.connector != nil && c.event.Tenant != "" && errors.Is(p.cause, host.ErrSecretNotFound) && slices.ContainsFunc(c.connector.Secrets(), func(name string) bool { return strings.HasPrefix(name, "tenants/") }) {
		attrs = append(attrs, slog.String("tenant", host.Printable(c.event.Tenant)))
	}
	if c.event.UpstreamStatus != 0 {
		attrs = append(attrs, slog.Int("upstream_status", c.event.UpstreamStatus))
	}
	c.gateway.config.Logger.LogAttrs(ctx, level, "request failed", append(attrs, slog.String("error", host.Printable(p.Error())))...)
}

// fail writes the problem document for an error, or a page if a person reads the answer, and logs the error with its cause.
func (c *call) fail(ctx context.Context, w http.ResponseWriter, err error) {
	const typeBase = "urn:keywright:problem:" // the beginning of each problem's type. docs/gateway.md lists the types
	p := c.problem(ctx, err)
	document := struct {
		Type      string `json:"type"`
		Title     string `json:"title"`
		Status    int    `json:"status"`
		Detail    string `json:"detail"`
		Connector string `json:"connector,omitempty"`
		Stage     string `json:"stage,omitempty"`
		RequestID string `json:"request_id"`
		// Cause goes to operators only.
		Cause string `json:"cause,omitempty"`
	}{typeBase + p.kind, http.StatusText(p.status), p.status, p.detail, "", p.stage, c.event.ID, ""}
	if c.byOperator {
		document.Cause = host.Printable(p.Error())
	}
	header := w.Header()
	if c.connector != nil {
		document.Connector = c.connector.definition.Permalink
		if p.status == http.StatusMethodNotAllowed {
			header.Set("Allow", strings.Join(c.connector.definition.Methods, ", "))
		}
	}
	c.report(ctx, p)
	body, _ := json.Marshal(document)
	header.Set("Content-Type", "application/problem+json")
	if c.page != nil {
		body = c.page.words.Render(header, c.page.problemPage(p), c.event.Began)
	}
	header.Set("Cache-Control", "no-store")
	if p.retry > 0 {
		header.Set("Retry-After", strconv.Itoa(p.retry))
	}
	if session, ok := errors.AsType[*identity.Error](err); ok && session.Challenge != "" {
		header.Set("WWW-Authenticate", session.Challenge)
	}
	c.write(w, p.status, body)
}

// timing returns the value of Server-Timing, in milliseconds. upstream is the time from sending the request to the API until the
// API's answer began, token is the time of the token endpoint, key is that of the store of keys if it was used, and auth is the
// rest of the time until the answer began. If the host sent the request again after a 401, upstream has both attempts.
func (c *call) timing() string {
	e := &c.event
	c.exchanges.fill(e)
	answered := e.Sent.Add(e.Upstream)
	if e.Sent.IsZero() {
		answered = c.gateway.config.Clock()
	}
	auth, key := max(0, answered.Sub(e.Began)-e.API-e.Attempt.TokenTime-e.Attempt.KeyTime), ""
	duration := func(d time.Duration) string { return strconv.FormatFloat(milliseconds(d), 'f', -1, 64) }
	if e.Attempt.KeyRequests > 0 {
		key = ", key;dur=" + duration(e.Attempt.KeyTime)
	}
	return "auth;dur=" + duration(auth) + ", token;dur=" + duration(e.Attempt.TokenTime) + key + ", upstream;dur=" + duration(e.API)
}
