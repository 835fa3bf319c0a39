// Package httpapi serves the content of a community over HTTP: a product update, a list of articles, a reply.
//
// A request is checked in this order: path (404), method (405), caller (401), whether there is a place (503), parameters (422).
// Only then the store is asked.
// What it does not have, and what it does not show to this caller, get the same 404 as a path that does not exist: in all that
// the answer has, they cannot be told apart.
package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/keywright/keywright/server/content"
	"github.com/keywright/keywright/server/internal/places"
)

// Config configures a handler.
type Config struct {
	Store  content.Store
	Embeds Embedder // for resolveEmbeds=true; nil: bodies stay as they are
	// Base is the path below which the operations are, such as /community/v1. Empty: the root.
	Base string
	// Callers says who may ask. Nil: anybody, and a valid moderatorId is enough to see everything.
	Callers Callers
	Logger  *slog.Logger // nil: logs are dropped
	// Observe is told of each request once it has been answered. Nil: nobody.
	Observe func(Event)
	Clock   func() time.Time // nil is time.Now
	// Requests is how many answers are made at once. A caller has no more than half of these. Further requests wait for 5
	// seconds at most, and then get 503. 0 is [DefaultRequests].
	Requests int
}

// DefaultRequests is [Config].Requests when that is 0.
const DefaultRequests = 128

// Embedder puts the HTML of providers in the place of URLs that stand alone. What it cannot resolve, it leaves as it is.
type Embedder interface {
	Resolve(ctx context.Context, html string) string
}

// Event is a request that has been answered.
type Event struct {
	Operation string // productUpdate, articles, reply or openapi; "" when the path is none of them
	Caller    string // [Caller].Name; "" when nobody proved to be one
	Status    int    // 499 when the caller went away before there was an answer
	Problem   string // the last part of the problem's type; "" when there was none
	Total     time.Duration
}

// statusGone is the status in events of callers that went away. It never goes over the wire.
const statusGone = 499

// answerTime is how long an operation may take. Without an end, requests would pile up behind a database that hangs.
const answerTime = 15 * time.Second

// Limits of all answers. A slow client holds the memory of its answer, and nothing else (threats.md 80).
const (
	placeTime = 5 * time.Second // of waiting to be answered
	mostHeld  = 512 << 20       // bytes of answers that are being written
)

type handler struct {
	config   Config
	document []byte         // openapi.json
	places   *places.Places // for answers; their owners are callers
}

// New makes a handler. It routes by the path as it was sent, because an id may have any character: nothing before it may clean
// paths, as http.ServeMux does.
func New(c Config) (http.Handler, error) {
	if c.Store == nil {
		return nil, errors.New("httpapi: there is no Store")
	}
	if err := CheckBase(c.Base); err != nil {
		return nil, fmt.Errorf("httpapi: Base: %w", err)
	}
	if c.Requests < 0 {
		return nil, fmt.Errorf("httpapi: Requests is %d: give a positive number, or 0 for the default", c.Requests)
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Requests == 0 {
		c.Requests = DefaultRequests
	}
	return &handler{config: c, document: document(c.Base), places: places.New(c.Requests, mostHeld)}, nil
}

var plainPath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*$`)

// CheckBase says what is wrong with a [Config].Base, or nil.
func CheckBase(base string) error {
	for segment := range strings.SplitSeq(base, "/") {
		if segment == "." || segment == ".." {
			return errors.New("a segment . or .. never reaches a server: leave it out")
		}
	}
	if !plainPath.MatchString(base) {
		return errors.New("this is no path such as /community/v1: letters, digits, - . _ ~ in its segments, and no slash at the end")
	}
	return nil
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := h.config.Clock()
	var event Event
	h.prepare(w.Header())
	if err := h.serve(w, r, &event); err != nil {
		h.fail(w, r, &event, err)
	}
	if h.config.Observe != nil {
		event.Total = h.config.Clock().Sub(began)
		h.config.Observe(event)
	}
}

// prepare sets what all answers have.
func (h *handler) prepare(header http.Header) {
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Vary", "Accept-Encoding")
	if h.config.Callers != nil {
		header.Set("Vary", "Accept-Encoding, Authorization, X-API-Key")
	}
}

const allowed = "GET, HEAD, OPTIONS"

// serve answers a request. When there is an error, it has not written anything.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, event *Event) error {
	operation, ids := h.route(r.URL)
	if operation == nil {
		return notFound
	}
	header := w.Header()
	event.Operation = operation.name
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		header.Set("Allow", allowed)
		event.Status = http.StatusNoContent
		w.WriteHeader(event.Status)
		return nil
	default:
		header.Set("Allow", allowed)
		return methodNotAllowed
	}
	caller, owner := Caller{Moderate: true}, addressOf(r)
	if h.config.Callers != nil && !operation.open {
		var err error
		if caller, err = h.config.Callers.Caller(r); err != nil {
			return callerProblem(err)
		}
		event.Caller, owner = caller.Name, caller.owner()
	}
	asked := &question{ids: ids, query: parseQuery(r.URL.RawQuery), moderate: caller.Moderate}
	header.Set("Cache-Control", h.cacheControl(asked.query))
	answer, err := h.build(r, operation, asked, owner)
	if err != nil {
		return err
	}
	held := int64(len(answer.body))
	defer h.places.Hold(owner, -held)
	if !h.places.Hold(owner, held) {
		return busy
	}
	event.Status = answer.status
	answer.write(w, r)
	return nil
}

// build makes the answer of an operation. It has a place meanwhile, and no longer: writing the answer takes as long as the
// client likes.
func (h *handler) build(r *http.Request, o *operation, asked *question, owner string) (*answer, error) {
	leave, err := h.places.Enter(r.Context(), owner, placeTime)
	if errors.Is(err, places.ErrNone) {
		return nil, busy
	}
	if err != nil {
		return nil, fmt.Errorf("waiting to be answered: %w", err)
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	body, err := o.answer(h, ctx, asked)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) { // not every database says that this is why
			err = errors.Join(err, ctx.Err())
		}
		return nil, err
	}
	return found(r, body), nil
}

// cacheControl says who may keep an answer. None is used again without asking: a moderator may have trashed the record since.
// What was asked in the name of a moderator is kept by nobody, also when that one does not exist: the answer must not tell.
func (h *handler) cacheControl(q *query) string {
	switch {
	case q.has(moderatorID):
		return "private, no-store"
	case h.config.Callers != nil:
		return "private, no-cache"
	}
	return "public, no-cache"
}
