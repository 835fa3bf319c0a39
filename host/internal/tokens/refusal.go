package tokens

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/internal/tokencache"
)

// Question is a question that a call may ask a token endpoint. The call must call End.
type Question struct {
	*tokencache.Question
	// node is nil if no other node asks this question.
	node *lease.Node
	// row is the name of the question in the store of state.
	row lease.Key
	// refused is set if the store has refusals.
	refused bool
}

// Ask reports whether a token endpoint may be asked, by what this node and others have recorded. If it may not, q is
// nil and previous the earlier refusal. If the store of state fails, it is as if nothing had been refused elsewhere.
//
// owner is the name of the connector, and used are the entries that the call has read. name returns a digest of everything that
// the answer depends on, with a number of each of these. anew is that of [tokencache.Refusals.Ask].
func (s *Store) Ask(ctx context.Context, owner string, used []*tokencache.Handle, anew bool, name func(number func(*tokencache.Handle) uint64) [32]byte) (
	q *Question, previous tokencache.Refusal, ok bool,
) {
	local, previous, ok := s.cache.Refusals.Ask(owner, name(func(h *tokencache.Handle) uint64 { return h.Generation }), anew)
	if !ok {
		return nil, previous, false
	}
	q = &Question{Question: local}
	if s.node == nil ||
		slices.ContainsFunc(used, func(h *tokencache.Handle) bool { return h.Shared == 0 }) { // only this node has read that
		return q, previous, true
	}
	q.node, q.row = s.node, lease.Key{Partition: name(func(h *tokencache.Handle) uint64 { return uint64(h.Shared) })}
	found, err := s.node.Refusal(ctx, q.row)
	q.refused = err == nil && found.Count > 0
	if anew || !q.refused || found.Wait <= 0 || json.Unmarshal(found.Value, &previous) != nil { // one of a later version
		return q, tokencache.Refusal{}, true
	}
	previous.Wait = found.Wait
	local.RefusedElsewhere(previous)
	return nil, previous, false
}

// Refused records a refusal, for all nodes that ask the same. It is like the method of [tokencache.Question].
func (q *Question) Refused(ctx context.Context, answer tokencache.Refusal, retryAfter time.Duration, jitter float64) (_ tokencache.Refusal, first bool) {
	if q.node != nil {
		if value, err := json.Marshal(answer); err == nil {
			recorded, err := q.node.Refuse(ctx, q.row, value, func(count int) time.Duration { return tokencache.Wait(count, retryAfter, jitter) })
			if err == nil {
				retryAfter = cmp.Or(recorded.Wait, retryAfter)
			}
		}
	}
	return q.Question.Refused(answer, retryAfter, jitter)
}

// Accepted removes the recorded refusals.
func (q *Question) Accepted(ctx context.Context) {
	q.Question.Accepted()
	if q.refused {
		_ = q.node.Accept(ctx, q.row) // if it stays, it ends with its time
	}
}
