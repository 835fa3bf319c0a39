package api

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"hash/maphash"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/server/internal/operate/login"
)

// recorded is an answer that is not sent yet.
type recorded struct {
	bytes.Buffer
	header http.Header
	status int
}

func (r *recorded) Header() http.Header { return r.header }

func (r *recorded) WriteHeader(status int) { r.status = status }

func record(c huma.Context, r *http.Request, next func(huma.Context)) *recorded {
	answer := &recorded{header: http.Header{}, status: http.StatusOK}
	next(humago.NewContext(c.Operation(), r, answer))
	return answer
}

func (r *recorded) send(w http.ResponseWriter) {
	for name, values := range r.header {
		w.Header()[name] = values
	}
	w.WriteHeader(r.status)
	_, _ = w.Write(r.Bytes()) // the operator is gone
}

// tag adds an ETag to answers, and answers 304 if the operator has the same one already (RFC 9110 section 13.1.2).
func tag(c huma.Context, next func(huma.Context)) {
	r, w := humago.Unwrap(c)
	answer := record(c, r, next)
	if answer.status == http.StatusOK {
		etag := fmt.Sprintf(`"%x"`, sha256.Sum256(answer.Bytes()))
		answer.header.Set("ETag", etag)
		if strings.Contains(r.Header.Get("If-None-Match"), etag) {
			answer.status = http.StatusNotModified
			answer.Reset()
		}
	}
	answer.send(w)
}

const idempotencyKey = "Idempotency-Key"

// repeats has the answers to requests with a key (draft-ietf-httpapi-idempotency-key-header-07).
type repeats struct {
	// seed is that of hashes: a body may be a secret.
	seed maphash.Seed
	all  *lru.Cache[uint64, repeat]
}

// repeat is a request with a key. Its answer is nil while it is being done.
type repeat struct {
	request uint64
	began   time.Time
	answer  *recorded
}

func newRepeats() repeats {
	const maxRepeats = 10_000
	all, _ := lru.New[uint64, repeat](maxRepeats) // the only error is for sizes below one
	return repeats{maphash.MakeSeed(), all}
}

// begin returns the request with a key that was before. Without one, this one begins.
func (r *repeats) begin(key uint64, this repeat) (earlier repeat, ok bool) {
	const repeatTime = 24 * time.Hour
	if earlier, ok = r.all.Peek(key); ok && this.began.Sub(earlier.began) >= repeatTime {
		r.all.Remove(key)
	}
	earlier, ok, _ = r.all.PeekOrAdd(key, this)
	return earlier, ok
}

// once does requests with the same key once a day. One that fails in the gateway may be done again.
func (s *server) once(c huma.Context, next func(huma.Context)) {
	const maxKey, maxKept = 255, 8 << 10 // bytes of a key, and of an answer that is kept
	r, w := humago.Unwrap(c)
	text := r.Header.Get(idempotencyKey)
	if text == "" {
		next(c)
		return
	}
	deny := func(status int, text string) { _ = huma.WriteErr(s.api, c, status, idempotencyKey+": "+text) }
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxFile))
	if err != nil || len(text) > maxKey {
		deny(http.StatusRequestEntityTooLarge, fmt.Sprintf("the key may have %d bytes, and the body %d", maxKey, maxFile))
		return
	}
	key := maphash.Comparable(s.repeats.seed, [2]string{login.OperatorOf(r.Context()).Name, text})
	request := maphash.Comparable(s.repeats.seed, [4]string{r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), string(body)})
	this := repeat{request: request, began: s.Clock()}
	switch earlier, ok := s.repeats.begin(key, this); {
	case !ok:
	case earlier.request != this.request:
		deny(http.StatusUnprocessableEntity, "another request had this key: take a new one")
		return
	case earlier.answer == nil:
		deny(http.StatusConflict, "the request with this key is being done, or its answer was too large to be kept")
		return
	default:
		earlier.answer.send(w)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	failed := true
	defer func() {
		if failed {
			s.repeats.all.Remove(key)
		}
	}()
	done := record(c, r, next)
	if failed = done.status >= http.StatusInternalServerError; !failed && done.Len() <= maxKept {
		this.answer = done
		s.repeats.all.Add(key, this)
	}
	done.send(w)
}
