// Package tokens is the one door to a token, for the calls of all connectors. Behind it are the cache of a host, what token
// endpoints have refused, and, if hosts share a store of state, the tokens and the refusals of all nodes.
//
// A call gets an entry, or the right to fetch it, which one call of one node has: [Store.Get] waits for other calls of the host, and
// [Right.Begin] for other nodes. [Store.Ask] says whether the token endpoint may be asked, and [Store.Put] stores what it answered, for all.
package tokens

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/view"
)

// Entry is an entry of the cache.
type Entry = tokencache.Entry[[]seal.Piece]

// Store has the tokens of hosts: those in its cache, and, if there is a node, those of all nodes. It is safe for concurrent use.
type Store struct {
	*tokencache.Cache[[]seal.Piece]
	// node is nil if there is no store of state.
	node *lease.Node
	now  func() time.Time
}

// New returns an empty store, for entries of this many bytes in all. node may be nil.
func New(bytes int64, perPartition int, now func() time.Time, node *lease.Node) *Store {
	s := &Store{tokencache.NewSized(bytes, seal.Bytes, perPartition, now), node, now}
	if node != nil {
		s.Rejected = func(h *tokencache.Handle) { // if the store of state fails, another node may use the value once more
			_ = node.Drop(context.Background(), rowOf(h.Key), h.Shared)
		}
	}
	return s
}

// rowOf returns the name of an entry in the store of state.
func rowOf(k tokencache.Key) lease.Key { return lease.Key{Partition: k.Partition, Name: k.Name} }

// Waiter is the connector of a call that may wait.
type Waiter interface {
	// Await calls wait and returns its error. awaited is [event.AwaitRequest] or [event.AwaitNode].
	Await(ctx context.Context, awaited string, wait func(context.Context) error) error
	// GaveUp returns the error of a call that gave up waiting.
	GaveUp(err error) error
}

// Get returns an entry. If another call fetches it, Get waits for that, and returns its error if it fails. If the entry is missing,
// Get returns the right to fetch it. Get returns neither if the call that it waited for stored no entry; the caller
// then goes on without a right.
func (s *Store) Get(ctx context.Context, k tokencache.Key, w Waiter) (*Entry, *Right, error) {
	entry, hit, local, holder := s.Acquire(k)
	switch {
	case holder:
		return nil, &Right{store: s, local: local}, nil
	case hit:
		return &entry, nil, nil
	}
	var outcome tokencache.Outcome[[]seal.Piece]
	err := w.Await(ctx, event.AwaitRequest, func(ctx context.Context) (err error) {
		if outcome, err = local.Wait(ctx); err != nil {
			return w.GaveUp(fmt.Errorf("gave up waiting for another request's token: %w", err))
		}
		return outcome.Err
	})
	if err != nil || outcome.Entry.Handle == nil {
		return nil, nil, err
	}
	return &outcome.Entry, nil, nil
}

// Right is the right to fetch an entry. Its holder calls Begin first, unless the right is one ahead of the entry's end, and must call
// End. A nil Right is that of a call which fetches no entry for others. It is not safe for concurrent use.
type Right struct {
	store *Store
	// local is the lease of the host, and exchange that of all nodes. exchange is nil if there is no store of state, or if it failed.
	local    *tokencache.Lease[[]seal.Piece]
	exchange *lease.Exchange
	// old is the entry that is replaced ahead of its end, or nil.
	old *tokencache.Handle
}

// Begin waits until no other node fetches the entry, for no longer than a lease and an exchange. If another node has stored the entry,
// Begin stores it in the cache, returns it, and ends the right.
func (r *Right) Begin(ctx context.Context, exchangeTime time.Duration, w Waiter) (entry *Entry, err error) {
	if r == nil || r.store.node == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, r.store.node.Lease()+exchangeTime)
	defer cancel()
	err = w.Await(ctx, event.AwaitNode, func(ctx context.Context) (err error) {
		if entry, err = r.acquire(ctx); err != nil {
			return w.GaveUp(fmt.Errorf("gave up waiting for another node's token: %w", err))
		}
		return nil
	})
	return entry, err
}

// acquire acquires the exchange, or stores and returns the entry that another node has stored.
func (r *Right) acquire(ctx context.Context) (*Entry, error) {
	dropped, err := r.local.Dropped(ctx)
	if err != nil {
		return nil, err
	}
	var value []seal.Piece
	var token lease.Token
	token, r.exchange, err = r.store.node.BeginExchange(ctx, rowOf(r.local.Key()), func(t lease.Token) bool {
		var err error
		value, err = seal.Unmarshal(t.Value)
		return err == nil && t.Generation > dropped // the store may have failed when the value was to be dropped
	})
	if err != nil || token.Value == nil {
		return nil, err
	}
	entry := r.local.Set(value, token.ExpiresIn, token.Generation)
	entry.Handle.Fetched()
	return &entry, nil
}

// Ahead returns the right to replace an entry before its end, which begins no sooner than lead. It waits for nobody, and returns nil
// if another call or node replaces the entry. If another node has done so, Ahead stores that in the cache and returns nil, too.
func (s *Store) Ahead(ctx context.Context, old *tokencache.Handle, lead time.Duration) (*Right, error) {
	r := &Right{store: s, old: old}
	var value []seal.Piece
	var token lease.Token
	if s.node != nil {
		var err error
		token, r.exchange, err = s.node.TryExchange(ctx, rowOf(old.Key), func(t lease.Token) bool {
			var err error
			value, err = seal.Unmarshal(t.Value)
			remaining, _ := s.Ending(old, lead)
			return err == nil && t.Generation != old.Shared && t.ExpiresIn > remaining
		})
		if token.Value == nil && r.exchange == nil { // the store failed, or another node is about to ask
			return nil, err
		}
	}
	switch r.local = s.AcquireAhead(old); {
	case r.local == nil:
		r.exchange.End(ctx)
		return nil, nil
	case token.Value != nil:
		r.local.Set(value, token.ExpiresIn, token.Generation).Handle.Fetched()
		return nil, nil
	}
	return r, nil
}

// Ahead reports whether the right is to replace an entry ahead of its end.
func (r *Right) Ahead() bool { return r != nil && r.old != nil }

// Replaces reports whether the right is to replace this entry.
func (r *Right) Replaces(h *tokencache.Handle) bool { return r.Ahead() && r.old == h }

// Within returns a context for the exchange: within its time, and within the lease of the node.
func (r *Right) Within(ctx context.Context, exchangeTime time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, exchangeTime)
	if r == nil {
		return ctx, cancel
	}
	leased, end := r.exchange.Within(ctx)
	return leased, func() {
		end()
		cancel()
	}
}

// GiveUp lets the calls that wait for the entry go on without it. Nothing is stored with the right any more.
func (r *Right) GiveUp() {
	if r != nil {
		r.local.End(nil)
	}
}

// End ends the right. The calls that wait for the entry get err, unless it is stored.
func (r *Right) End(ctx context.Context, err error) {
	if r != nil {
		r.exchange.End(ctx)
		r.local.End(err)
	}
}

// Put stores a value. If right is for the key, that ends, and what a token endpoint has answered (fetched) is stored for all nodes. What
// a call has made without one stays with its node: others can make it as well, and the store of state holds less. Put returns nil,
// and stores nothing in the cache, if the value has no time to live, or none that is left when the store of state has it.
func (s *Store) Put(ctx context.Context, right *Right, k tokencache.Key, value []seal.Piece, ttl time.Duration, fetched bool) *tokencache.Handle {
	var entry Entry
	if right != nil && right.local.Key() == k {
		began := s.now()
		var shared int64
		if fetched {
			shared = right.share(ctx, value, ttl)
		}
		ttl -= s.now().Sub(began)
		entry = right.local.Set(value, ttl, shared)
	}
	if entry.Handle == nil {
		entry = s.Set(k, value, ttl)
	}
	if fetched {
		entry.Handle.Fetched()
	}
	return entry.Handle
}

// maxShared is the maximum time for which the store of state keeps an entry. A plugin may store each under another key, and the store
// has no limit on the entries of a partition.
const maxShared = 24 * time.Hour

// share stores the value of the right for all nodes, and returns its generation in the store, or 0.
func (r *Right) share(ctx context.Context, value []seal.Piece, ttl time.Duration) int64 {
	if r.exchange == nil {
		return 0
	}
	text, err := seal.Marshal(value)
	if err != nil { // a value that is read as a stream stays with this node
		return 0
	}
	return r.exchange.Put(ctx, text, min(ttl, maxShared))
}

// Question is a question that a call may ask a token endpoint. The call must call End.
type Question struct {
	*tokencache.Question
	// node is nil if no other node asks this question.
	node *lease.Node
	// row is the name of the question in the store of state.
	row         lease.Key
	hasRefusals bool
}

// Ask reports whether a token endpoint may be asked, by what this node and others have recorded. If it may not, q is
// nil and previous the earlier refusal. If the store of state fails, it is as if nothing had been refused elsewhere.
//
// owner is the name of the connector, and used are the entries that the call has read. name returns a digest of everything that
// the answer depends on, with a number of each of these. anew is that of [tokencache.Refusals.Ask].
func (s *Store) Ask(ctx context.Context, owner string, used []*tokencache.Handle, anew bool, name func(number func(*tokencache.Handle) uint64) [32]byte) (
	q *Question, previous view.TokenError, ok bool,
) {
	local, previous, ok := s.Refusals.Ask(owner, name(func(h *tokencache.Handle) uint64 { return h.Generation }), anew)
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
	q.hasRefusals = err == nil && found.Count > 0
	if anew || !q.hasRefusals || found.Wait <= 0 || json.Unmarshal(found.Value, &previous) != nil { // one of a later version
		return q, view.TokenError{}, true
	}
	previous.RetryAfter = found.Wait
	local.RefuseElsewhere(previous)
	return nil, previous, false
}

// Refuse records a refusal, for all nodes that ask the same. It is like the method of [tokencache.Question].
func (q *Question) Refuse(ctx context.Context, answer view.TokenError, retryAfter time.Duration, jitter float64) (_ view.TokenError, first bool) {
	if q.node != nil {
		if value, err := json.Marshal(answer); err == nil {
			recorded, err := q.node.Refuse(ctx, q.row, value, func(count int) time.Duration { return tokencache.Wait(count, retryAfter, jitter) })
			if err == nil {
				retryAfter = cmp.Or(recorded.Wait, retryAfter)
			}
		}
	}
	return q.Question.Refuse(answer, retryAfter, jitter)
}

// Accept removes the recorded refusals.
func (q *Question) Accept(ctx context.Context) {
	q.Question.Accept()
	if q.hasRefusals {
		_ = q.node.Accept(ctx, q.row) // if it stays, it ends with its time
	}
}
