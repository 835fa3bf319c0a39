// Package httpapi serves the content of a community over HTTP: a product update, a list of articles, a reply.
//
// It checks a request in this order: path (404), method (405), caller (401), limit of concurrent requests (503),
// parameters (422). Only then does it read from the store. A record that does not exist, a record that the caller may
// not see and a path that does not exist get the same response 404, equal in all of its headers and its body.
package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/internal/fairqueue"
	"github.com/keywright/keywright/internal/urlcheck"
	"github.com/keywright/keywright/server/content"
)

// Config configures a handler.
type Config struct {
	// Store is required.
	Store content.Store
	// Embeds resolves the embeds of requests with resolveEmbeds=true. If it is nil, bodies are not changed.
	Embeds Embedder
	// Base is the path below which the operations are, such as /community/v1. "" means the root.
	Base string
	// Callers authenticates callers. If it is nil, everybody may call, and see all records with a valid moderatorId.
	Callers Callers
	// If Logger is nil, logs are dropped.
	Logger *slog.Logger
	// If not nil, Observe is called after each response. It must be safe for concurrent use.
	Observe func(Event)
	// If Clock is nil, time.Now is used.
	Clock func() time.Time
	// If Random is nil, crypto/rand.Reader is used. It is for the IDs of requests.
	Random io.Reader
	// Requests is the maximum number of requests that are processed at once, before their response is written. A caller
	// has at most half of them. Further requests wait up to 5 seconds and then get 503. 0 means [DefaultRequests].
	Requests int
}

// DefaultRequests is the default of [Config].Requests.
const DefaultRequests = 128

// Embedder resolves embeds. It must be safe for concurrent use.
type Embedder interface {
	// Resolve returns html with the HTML of providers in place of URLs that stand alone. Others stay.
	Resolve(ctx context.Context, html string) string
}

// Event describes a request and its response.
type Event struct {
	// ID is the value of the answer's X-Request-Id: random, with 32 hexadecimal digits.
	ID string
	// Operation is productUpdate, articles, reply or openapi. It is "" if the path belongs to none of them.
	Operation string
	// Caller is the Name of the [Caller]. It is "" if the request was not authenticated.
	Caller string
	// Status is the status of the response, or 499 if the caller went away before there was one.
	Status int
	// Problem is the last part of the type of the problem document. It is "" if the response was not one.
	Problem string
	// Total is the time from the beginning of the request to the end of the response.
	Total time.Duration
}

type handler struct {
	config Config
	// document is openapi.json.
	document []byte
	// places limits concurrent requests and the memory of responses. Its owners are callers.
	places *fairqueue.Queue
}

// New returns a handler. It returns an error if c.Store is nil, c.Base fails [CheckBase] or c.Requests is negative.
//
// The handler routes by the escaped path of the request, because an id may contain any character. So no handler in
// front of it may clean paths, as http.ServeMux does.
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
	if c.Clock == nil {
		c.Clock = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	c.Random = cmp.Or(c.Random, rand.Reader)
	c.Requests = cmp.Or(c.Requests, DefaultRequests)
	const mostHeld = 512 << 20 // bytes of bodies that are being written. A slow client holds those of its response, and nothing else (threats.md 80)
	document := bytes.Replace(openAPI, []byte(`"url": "/"`), []byte(`"url": "`+cmp.Or(c.Base, "/")+`"`), 1)
	return &handler{config: c, document: document, places: fairqueue.New(c.Requests, mostHeld)}, nil
}

var plainPath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*$`)

// CheckBase returns an error if base is not valid as [Config].Base.
func CheckBase(base string) error {
	if segments := strings.Split(base, "/"); slices.Contains(segments, ".") || slices.Contains(segments, "..") {
		return errors.New("a segment . or .. never reaches a server: leave it out")
	}
	if !plainPath.MatchString(base) {
		return errors.New("this is no path such as /community/v1: letters, digits, - . _ ~ in its segments, and no slash at the end")
	}
	return nil
}

func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began := h.config.Clock()
	var id [16]byte
	_, _ = io.ReadFull(h.config.Random, id[:]) // without randomness, requests have the same ID
	event := Event{ID: hex.EncodeToString(id[:])}
	header := w.Header()
	header.Set("X-Request-Id", event.ID)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Vary", "Accept-Encoding")
	if h.config.Callers != nil {
		header.Set("Vary", "Accept-Encoding, Authorization, X-API-Key")
	}
	if err := h.serve(w, r, &event); err != nil {
		h.fail(w, r, &event, err)
	}
	if h.config.Observe != nil {
		event.Total = h.config.Clock().Sub(began)
		h.config.Observe(event)
	}
}

// serve handles a request. If it returns an error, it has not written a response.
func (h *handler) serve(w http.ResponseWriter, r *http.Request, event *Event) error {
	const methods = "GET, HEAD, OPTIONS"
	operation, ids := h.route(r.URL)
	if operation == nil {
		return notFound
	}
	header := w.Header()
	event.Operation = operation.name
	switch r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodOptions:
		header.Set("Allow", methods)
		event.Status = http.StatusNoContent
		w.WriteHeader(event.Status)
		return nil
	default:
		header.Set("Allow", methods)
		return methodNotAllowed
	}
	caller, owner := Caller{Moderate: true}, urlcheck.Network(r.RemoteAddr).String() // an owner of places
	if h.config.Callers != nil && !operation.open {
		var err error
		if caller, err = h.config.Callers.Caller(r); err != nil {
			return callerProblem(err)
		}
		event.Caller, owner = caller.Name, "caller "+caller.Name+" "+caller.ID
	}
	args := &arguments{ids: ids, query: parseQuery(r.URL.RawQuery), moderate: caller.Moderate}
	header.Set("Cache-Control", h.cacheControl(args.query))
	answer, err := h.build(r, operation, args, owner)
	if err != nil {
		return err
	}
	size := int64(len(answer.body))
	defer h.places.Hold(owner, -size)
	if !h.places.Hold(owner, size) {
		return busy
	}
	event.Status = answer.status
	answer.write(w, r)
	return nil
}

// build runs an operation and returns its response. It holds one of the places meanwhile, but not while the response is
// written, since a slow client decides how long that takes.
func (h *handler) build(r *http.Request, o *operation, args *arguments, owner string) (*answer, error) {
	const placeTime = 5 * time.Second   // limits the wait for a place
	const answerTime = 15 * time.Second // limits an operation. Without a limit, requests would pile up behind a database that hangs
	leave, err := h.places.Enter(r.Context(), placeTime, owner)
	if errors.Is(err, fairqueue.ErrNone) {
		return nil, busy
	}
	if err != nil {
		return nil, fmt.Errorf("waiting to be answered: %w", err)
	}
	defer leave()
	ctx, cancel := context.WithTimeout(r.Context(), answerTime)
	defer cancel()
	body, next, err := o.answer(h, ctx, args)
	if err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) { // not every database reports the deadline as the reason
			err = errors.Join(err, ctx.Err())
		}
		return nil, err
	}
	a := found(r, body)
	if next != "" {
		a.next = "<" + sentPath(r.URL) + "?" + next + `>; rel="next"`
	}
	return a, nil
}

// cacheControl returns the value of Cache-Control. No response may be reused without revalidation, because a moderator
// may have trashed the record. Responses to requests with a moderatorId must not be stored at all. That holds for
// invalid ids too, so that the header does not reveal which ids are valid.
func (h *handler) cacheControl(q *query) string {
	switch {
	case q.contains(moderatorID):
		return "private, no-store"
	case h.config.Callers != nil:
		return "private, no-cache"
	}
	return "public, no-cache"
}

// Callers authenticates callers. It must be safe for concurrent use.
type Callers interface {
	// Caller returns the sender of a request. The error is an [*UnauthenticatedError] if the request does not prove who
	// sent it. Any other, such as [ErrUnavailable], is logged: callers cannot be authenticated at the moment.
	Caller(r *http.Request) (Caller, error)
}

// Caller is the authenticated sender of a request.
type Caller struct {
	// Name is the name of the caller in events.
	Name string
	// ID distinguishes callers of one name, so that each has its own share of the concurrent requests.
	ID string
	// Moderate reports whether a moderatorId in the caller's requests has an effect.
	Moderate bool
}

// UnauthenticatedError is the error of a request that does not prove who sent it.
type UnauthenticatedError struct {
	// Challenges are the values of WWW-Authenticate, such as `Bearer error="invalid_token"` (RFC 9110 section 11.6.1).
	// If it is empty, the value is Bearer.
	Challenges []string
}

func (*UnauthenticatedError) Error() string { return "the request does not prove who sent it" }

// ErrUnavailable is the error of a request whose sender cannot be authenticated at the moment.
var ErrUnavailable = errors.New("callers cannot be told at the moment")

func callerProblem(err error) *httpProblem {
	if unproven, ok := errors.AsType[*UnauthenticatedError](err); ok {
		p := *unauthenticated
		p.challenges = unproven.Challenges
		if len(p.challenges) == 0 {
			p.challenges = []string{"Bearer"}
		}
		return &p
	}
	return callersUnavailable.withCause(err)
}
