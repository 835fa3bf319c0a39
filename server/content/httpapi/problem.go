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

// httpProblem is an error that the caller gets as a problem document (RFC 9457). The document contains no part of the
// request and not the cause.
type httpProblem struct {
	status int
	// kind is the last part of the problem's type.
	kind   string
	detail string
	fields []fieldProblem
	// challenges are the values of WWW-Authenticate.
	challenges []string
	// retry is the value of Retry-After in seconds. 0 means no such header.
	retry int
	// cause is logged.
	cause error
}

// fieldProblem describes an invalid parameter.
type fieldProblem struct {
	Parameter string `json:"parameter"`
	Detail    string `json:"detail"`
}

func (p *httpProblem) Error() string { return p.detail }

// typeBase is the first part of the type of each problem.
const typeBase = "urn:keywright:problem:"

var (
	// notFound is the problem of a path or a record that does not exist, and of a record that the caller may not see
	// (threats.md 53).
	notFound           = &httpProblem{status: http.StatusNotFound, kind: "not-found", detail: "there is nothing at this path"}
	methodNotAllowed   = &httpProblem{status: http.StatusMethodNotAllowed, kind: "method-not-allowed", detail: "this can only be read: use GET or HEAD"}
	unauthenticated    = &httpProblem{status: http.StatusUnauthorized, kind: "unauthenticated", detail: "this needs a valid API key or bearer token"}
	callersUnavailable = &httpProblem{status: http.StatusServiceUnavailable, kind: "callers-unavailable", detail: "API keys and tokens cannot be verified at the moment", retry: 5}
	busy               = &httpProblem{status: http.StatusServiceUnavailable, kind: "busy", detail: "too many requests are being answered; try again", retry: 1}
	timedOut           = &httpProblem{status: http.StatusServiceUnavailable, kind: "timeout", detail: "this took too long; try again", retry: 5}
	storeUnavailable   = &httpProblem{status: http.StatusServiceUnavailable, kind: "store-unavailable", detail: "the content cannot be read at the moment; try again", retry: 5}
	storeFailed        = &httpProblem{status: http.StatusInternalServerError, kind: "store-failed", detail: "the content could not be read"}
)

// problemOf returns the problem that reports err to the caller.
func problemOf(err error) *httpProblem {
	if p, ok := errors.AsType[*httpProblem](err); ok {
		return p
	}
	if errors.Is(err, content.ErrNotFound) {
		return notFound
	}
	p := *storeFailed
	switch {
	case errors.Is(err, content.ErrUnavailable):
		p = *storeUnavailable
	case errors.Is(err, context.DeadlineExceeded):
		p = *timedOut
	}
	p.cause = err
	return &p
}

// fail writes the problem document of an error, and logs its cause.
func (h *handler) fail(w http.ResponseWriter, r *http.Request, event *Event, err error) {
	p := problemOf(err)
	event.Status, event.Problem = p.status, p.kind
	if p.cause != nil {
		if errors.Is(r.Context().Err(), context.Canceled) { // the caller went away: not an error of this server
			event.Status, event.Problem = statusGone, ""
		} else {
			h.config.Logger.LogAttrs(r.Context(), slog.LevelError, "request failed", slog.String("request_id", event.ID), slog.String("operation", event.Operation),
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
