package httpapi

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/keywright/keywright/server/content"
)

// answer is a successful response that has not been written yet.
type answer struct {
	status int
	// tag is the value of ETag.
	tag string
	// encoding is the value of Content-Encoding. It is "" if the body is not compressed.
	encoding string
	body     []byte
	// next is the value of Link (RFC 8288). It is "" if there is no next page.
	next string
}

// found returns the response with a JSON document, or a response 304 for a client whose copy is the same.
func found(r *http.Request, body []byte) *answer {
	const worthGzip = 1024 // the minimum length in bytes of a body that is compressed. Shorter ones fit into one packet anyway
	digest := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(digest[:16]) + `"`
	a := &answer{status: http.StatusOK, tag: "W/" + tag, body: body} // weak, because it is the same for all encodings
	if matches(strings.Join(r.Header.Values("If-None-Match"), ","), tag) {
		a.status, a.body = http.StatusNotModified, nil
	} else if len(body) >= worthGzip && takesGzip(strings.Join(r.Header.Values("Accept-Encoding"), ",")) {
		a.encoding, a.body = "gzip", compress(body)
	}
	return a
}

func (a *answer) write(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("ETag", a.tag)
	if a.next != "" {
		header.Set("Link", a.next)
	}
	if a.status == http.StatusNotModified {
		w.WriteHeader(a.status)
		return
	}
	header.Set("Content-Type", "application/json")
	if a.encoding != "" {
		header.Set("Content-Encoding", a.encoding)
	}
	write(w, r, a.status, a.body)
}

func write(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // an error means that the client is gone
	}
}

// matches reports whether If-None-Match has a tag, which has no comma, by weak comparison (RFC 9110 section 13.1.2).
func matches(list, tag string) bool {
	for entry := range strings.SplitSeq(list, ",") {
		if entry = strings.TrimSpace(entry); entry == "*" || strings.TrimPrefix(entry, "W/") == tag {
			return true
		}
	}
	return false
}

var compressors = sync.Pool{New: func() any {
	c, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // it fails only for an unknown level
	return c
}}

// compress returns body in gzip, all of it, so that responses to HEAD and GET have a Content-Length.
func compress(body []byte) []byte {
	c := compressors.Get().(*gzip.Writer)
	defer compressors.Put(c)
	var to bytes.Buffer
	to.Grow(len(body) / 3)
	c.Reset(&to)
	_, _ = c.Write(body) // writing to memory does not fail
	_ = c.Close()
	return to.Bytes()
}

// takesGzip reports whether Accept-Encoding has gzip or * with a weight above zero (RFC 9110 section 12.5.3).
func takesGzip(list string) bool {
	accepted := false
	for entry := range strings.SplitSeq(list, ",") {
		coding, parameters, _ := strings.Cut(entry, ";")
		name, weight, _ := strings.Cut(parameters, "=")
		zero := strings.EqualFold(strings.TrimSpace(name), "q") && strings.Trim(strings.TrimSpace(weight), "0.") == ""
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip":
			return !zero
		case "*":
			accepted = !zero
		}
	}
	return accepted
}

// httpProblem is an error that the caller gets as a problem document (RFC 9457), without its cause.
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

type fieldProblem struct {
	Parameter string `json:"parameter"`
	Detail    string `json:"detail"`
}

func (p *httpProblem) Error() string { return p.detail }

var (
	// notFound is the problem of a path or record that does not exist, or is hidden from the caller (threats.md 53).
	notFound           = &httpProblem{status: http.StatusNotFound, kind: "not-found", detail: "there is nothing at this path"}
	methodNotAllowed   = &httpProblem{status: http.StatusMethodNotAllowed, kind: "method-not-allowed", detail: "this can only be read: use GET or HEAD"}
	unauthenticated    = &httpProblem{status: http.StatusUnauthorized, kind: "unauthenticated", detail: "this needs a valid API key or bearer token"}
	callersUnavailable = &httpProblem{status: http.StatusServiceUnavailable, kind: "callers-unavailable", detail: "API keys and tokens cannot be verified at the moment", retry: 5}
	busy               = &httpProblem{status: http.StatusServiceUnavailable, kind: "busy", detail: "too many requests are being answered; try again", retry: 1}
	timedOut           = &httpProblem{status: http.StatusServiceUnavailable, kind: "timeout", detail: "this took too long; try again", retry: 5}
	storeUnavailable   = &httpProblem{status: http.StatusServiceUnavailable, kind: "store-unavailable", detail: "the content cannot be read at the moment; try again", retry: 5}
	storeFailed        = &httpProblem{status: http.StatusInternalServerError, kind: "store-failed", detail: "the content could not be read"}
)

func problemOf(err error) *httpProblem {
	if p, ok := errors.AsType[*httpProblem](err); ok {
		return p
	}
	switch {
	case errors.Is(err, content.ErrNotFound):
		return notFound
	case errors.Is(err, content.ErrUnavailable):
		return storeUnavailable.withCause(err)
	case errors.Is(err, context.DeadlineExceeded):
		return timedOut.withCause(err)
	}
	return storeFailed.withCause(err)
}

func (p httpProblem) withCause(cause error) *httpProblem {
	p.cause = cause
	return &p
}

func (h *handler) fail(w http.ResponseWriter, r *http.Request, event *Event, err error) {
	const typeBase = "urn:keywright:problem:" // the first part of the type of each problem
	const statusGone = 499                    // in events of callers that went away. It is never sent
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
