package tokencache

import (
	"encoding/binary"
	"io"
	"sync"
	"time"

	"github.com/keywright/keywright/host/internal/fairlru"
	"github.com/keywright/keywright/host/view"
)

// Waits before the same is tried again, see [Wait]: a refused question, a token that was sent without an outcome, and the metadata of
// an issuer. The first is firstWait, and each is twice the one before, up to lastWait. Each is shortened at random by up to a fifth.
// If the endpoint sends Retry-After (RFC 9110 section 10.2.3), that is the wait instead, at least firstWait and at most longestWait.
const (
	firstWait   = time.Second
	lastWait    = 5 * time.Minute
	longestWait = time.Hour
)

// Refusals is the memory of what token endpoints refused. It keeps callers from asking the same again at once. If it is full, the owner
// with the most loses the one that it used least recently. It is safe for concurrent use.
type Refusals struct {
	now func() time.Time

	mu  sync.Mutex
	all *fairlru.Cache[[32]byte, *refusalEntry]
}

// refusalEntry is the last refusal of a question.
type refusalEntry struct {
	answer view.TokenError
	since  time.Time
	// count is the number of refusals in a row.
	count int
	// asking is set while a caller asks again after the wait.
	asking bool
}

// Question is a question that its holder may ask a token endpoint. The holder must call End.
type Question struct {
	refusals *Refusals
	owner    string
	key      [32]byte
	// turn is set if the question was refused before and its holder is the caller that asks again.
	turn bool
}

// Ask reports whether a question of an owner may be asked now. owner is the name of the connector, whose refusals do not push out
// those of others. key is a digest of everything that the answer depends on. If the question may not be asked, last is the earlier
// refusal, with its Age. When the wait is over, one caller may ask; for the others Ask returns false until that caller has an
// answer. If anew is set, for an operator, the wait is over after firstWait; that after a further refusal is as usual.
func (r *Refusals) Ask(owner string, key [32]byte, anew bool) (q *Question, last view.TokenError, proceed bool) {
	limit := longestWait
	if anew {
		limit = firstWait
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	it, ok := r.all.Get(owner, key)
	if !ok {
		return &Question{refusals: r, owner: owner, key: key}, view.TokenError{}, true
	}
	now := r.now()
	last = it.answer
	last.Age += now.Sub(it.since)
	switch {
	case WithinPeriod(it.since, now, min(it.answer.RetryAfter, limit)):
		last.RetryAfter -= now.Sub(it.since)
		return nil, last, false
	case it.asking:
		last.RetryAfter = firstWait
		return nil, last, false
	}
	it.asking = true
	return &Question{refusals: r, owner: owner, key: key, turn: true}, view.TokenError{}, true
}

// Refuse records a refusal, for which retryAfter and jitter are those of [Wait]. It returns the refusal with its RetryAfter, and reports
// whether it is the first among callers that asked at the same time. The refusals of the other callers change nothing.
func (q *Question) Refuse(answer view.TokenError, retryAfter time.Duration, jitter float64) (_ view.TokenError, first bool) {
	r := q.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	it, ok := r.all.Get(q.owner, q.key)
	switch {
	case !ok:
		it = &refusalEntry{}
		r.all.Add(q.owner, q.key, it, 1)
	case !q.turn:
		return it.answer, false
	}
	q.turn = false
	answer.RetryAfter = Wait(it.count+1, retryAfter, jitter)
	*it = refusalEntry{answer: answer, since: r.now(), count: it.count + 1}
	return answer, true
}

// RefuseElsewhere records a refusal that another node got. Its RetryAfter is the time that is left.
func (q *Question) RefuseElsewhere(answer view.TokenError) {
	r := q.refusals
	r.mu.Lock()
	defer r.mu.Unlock()
	count := 0
	if it, ok := r.all.Peek(q.owner, q.key); ok {
		count = it.count
	}
	q.turn = false
	r.all.Add(q.owner, q.key, &refusalEntry{answer: answer, since: r.now(), count: count}, 1)
}

// Wait returns the wait after a number of refusals in a row. retryAfter is Retry-After, or 0, and jitter is a random number from 0 up to 1.
func Wait(count int, retryAfter time.Duration, jitter float64) time.Duration {
	if retryAfter > 0 {
		return min(max(retryAfter, firstWait), longestWait)
	}
	wait := firstWait
	for ; count > 1 && wait < lastWait; count-- {
		wait *= 2
	}
	wait = min(wait, lastWait)
	return wait - time.Duration(jitter*float64(wait)/5)
}

// Jitter returns a random number from 0 up to 1, for [Wait].
func Jitter(random io.Reader) (float64, error) {
	var b [8]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return 0, err
	}
	return float64(binary.BigEndian.Uint64(b[:])>>11) / (1 << 53), nil
}

// Accept removes the recorded refusal.
func (q *Question) Accept() {
	q.refusals.mu.Lock()
	defer q.refusals.mu.Unlock()
	q.refusals.all.Remove(q.owner, q.key)
	q.turn = false
}

// End lets the next caller ask if neither Refuse nor Accept has been called. After one of them it does nothing.
func (q *Question) End() {
	q.refusals.mu.Lock()
	defer q.refusals.mu.Unlock()
	if it, ok := q.refusals.all.Peek(q.owner, q.key); ok && q.turn {
		it.asking = false
	}
	q.turn = false
}
