package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/keywright/keywright/server/content"
)

// httpProblem is an error as callers see it, RFC 9457. It has nothing of what they sent, and nothing of its cause.
type httpProblem struct {
	status     int
	kind       string // the last part of its type
	detail     string
	fields     []fieldProblem
	challenges []string
	retry      int   // seconds
	cause      error // for the log
}

// fieldProblem is a problem of one parameter.
type fieldProblem struct {
	Parameter string `json:"parameter"`
	Detail    string `json:"detail"`
}

func (p *httpProblem) Error() string { return p.detail }

// typeBase begins the type of each problem.
const typeBase = "urn:keywright:problem:"

var (
	// notFound is for all that is not there: a path, a record, and a record that this caller may not see (threats.md 53).
	notFound           = &httpProblem{status: http.StatusNotFound, kind: "not-found", detail: "there is nothing at this path"}
	methodNotAllowed   = &httpProblem{status: http.StatusMethodNotAllowed, kind: "method-not-allowed", detail: "this can only be read: use GET or HEAD"}
	unauthenticated    = &httpProblem{status: http.StatusUnauthorized, kind: "unauthenticated", detail: "this needs a valid API key or bearer token"}
	callersUnavailable = &httpProblem{status: http.StatusServiceUnavailable, kind: "callers-unavailable", detail: "API keys and tokens cannot be verified at the moment", retry: 5}
	busy               = &httpProblem{status: http.StatusServiceUnavailable, kind: "busy", detail: "too many requests are being answered; try again", retry: 1}
	timedOut           = &httpProblem{status: http.StatusServiceUnavailable, kind: "timeout", detail: "this took too long; try again", retry: 5}
	storeFailed        = &httpProblem{status: http.StatusInternalServerError, kind: "store-failed", detail: "the content could not be read"}
)

// problemOf says what a caller is told of an error.
func problemOf(err error) *httpProblem {
	if p, ok := errors.AsType[*httpProblem](err); ok {
		return p
	}
	if errors.Is(err, content.ErrNotFound) {
		return notFound
	}
	p := *storeFailed
	if errors.Is(err, context.DeadlineExceeded) {
		p = *timedOut
	}
	p.cause = err
	return &p
}

// fail writes an error, and logs what the caller is not told.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, event *Event, err error) {
	p := problemOf(err)
	event.Status, event.Problem = p.status, p.kind
	if p.cause != nil {
		if errors.Is(r.Context().Err(), context.Canceled) { // nobody reads the answer, and nothing is wrong here
			event.Status, event.Problem = statusGone, ""
		} else {
			h.config.Logger.LogAttrs(r.Context(), slog.LevelError, "request failed", slog.String("operation", event.Operation),
				slog.Int("status", p.status), slog.String("error", p.cause.Error()))
		}
	}
	body, _ := json.Marshal(struct {
		Type   string         `json:"type"`
		Title  string         `json:"title"`
		Status int            `json:"status"`
		Detail string         `json:"detail"`
		Errors []fieldProblem `json:"errors,omitempty"`
	}{typeBase + p.kind, http.StatusText(p.status), p.status, p.detail, p.fields})
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Type", "application/problem+json")
	if p.retry > 0 {
		header.Set("Retry-After", strconv.Itoa(p.retry))
	}
	for _, challenge := range p.challenges {
		header.Add("WWW-Authenticate", challenge)
	}
	write(w, r, p.status, body)
}
