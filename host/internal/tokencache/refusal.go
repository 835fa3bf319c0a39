package tokencache

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// A refused question is asked again after firstWait, and after twice as long each time up to lastWait, at random up to a
// fifth less. When the endpoint sends Retry-After, RFC 9110 section 10.2.3, that counts instead, from firstWait to
// longestWait.
const (
	firstWait   = time.Second
	lastWait    = 5 * time.Minute
	longestWait = time.Hour
)

// Refusal is an answer of a token endpoint without a token.
type Refusal struct {
	Status  int           // of HTTP
	Code    string        // the error code, RFC 6749 section 5.2
	Problem string        // what is wrong with an answer that should have a token
	Wait    time.Duration // until the endpoint is asked again
}

// Refusals remember what token endpoints refused, so that nobody asks the same again at once. They are safe for
// concurrent use.
type Refusals struct {
	now func() time.Time

	mu  sync.Mutex
	all *simplelru.LRU[[32]byte, *refused]
}

type refused struct {
	Refusal
	at     time.Time
	next   time.Duration // how long the one after this is to wait
	asking bool          // somebody asks again, now that the wait is over
}

// newRefusals makes an empty memory for so many refusals. When there is no room, the least recently used one goes.
func newRefusals(size int, now func() time.Time) *Refusals {
	return &Refusals{now: now, all: newLRU[[32]byte, *refused](size)}
}

// Question is one that its holder may ask, and must End.
type Question struct {
	refusals *Refusals
	key      [32]byte
	turn     bool // it was refused before, and its holder is the one who asks again
}

// Ask reports whether a question may be asked now. The key is a digest of all that the answer depends on. If it may not
// be asked, before is the refusal that it met. When the wait is over, one caller has the turn to ask; the others wait
// on until that one has an answer.
func (r *Refusals) Ask(key [32]byte) (q *Question, before Refusal, may bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	it, ok := r.all.Get(key)
	if !ok {
		return &Question{refusals: r, key: key}, Refusal{}, true
	}
	now := r.now()
	switch waits := within(it.at, now, it.Wait); {
	case waits:
		before = it.Refusal
		before.Wait -= now.Sub(it.at)
		return nil, before, false
	case it.asking:
		before = it.Refusal
		before.Wait = firstWait
		return nil, before, false
	}
	it.asking = true
	return &Question{refusals: r, key: key, turn: true}, Refusal{}, true
}

// Refused remembers the answer. after is what Retry-After said, or 0; jitter is random, from 0 up to 1. It returns the
// refusal with its wait, and reports whether it is the first of those that were asked at the same time. The others change
// nothing.
func (q *Question) Refused(answer Refusal, after time.Duration, jitter float64) (_ Refusal, first bool) {
	r := q.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	it, ok := r.all.Get(q.key)
	switch {
	case !ok:
		it = &refused{next: firstWait}
		r.all.Add(q.key, it)
	case !q.turn:
		return it.Refusal, false
	}
	q.turn = false
	wait := it.next - time.Duration(jitter*float64(it.next)/5)
	if after > 0 {
		wait = min(max(after, firstWait), longestWait)
	}
	answer.Wait = wait
	*it = refused{Refusal: answer, at: r.now(), next: min(2*it.next, lastWait)}
	return answer, true
}

// Accepted forgets what was refused before.
func (q *Question) Accepted() {
	q.refusals.mu.Lock()
	defer q.refusals.mu.Unlock()
	q.refusals.all.Remove(q.key)
	q.turn = false
}

// End returns the turn when there was no answer that counts, so that the next caller asks. It does nothing after Refused
// and Accepted.
func (q *Question) End() {
	q.refusals.mu.Lock()
	defer q.refusals.mu.Unlock()
	if it, ok := q.refusals.all.Peek(q.key); ok && q.turn {
		it.asking = false
	}
	q.turn = false
}
