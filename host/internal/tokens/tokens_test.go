package tokens_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/internal/tokens"
	"github.com/keywright/keywright/host/state"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/testworld"
)

// faulty is a store of state whose Put takes some time, and which counts the values that it takes and removes.
type faulty struct {
	state.Store
	put           func()
	puts, deletes int
}

func (s *faulty) Put(ctx context.Context, l state.Lease, value []byte, expires time.Duration, release bool) (bool, error) {
	s.puts++
	s.put()
	return s.Store.Put(ctx, l, value, expires, release)
}

func (s *faulty) Delete(ctx context.Context, id state.ID, generation int64) (bool, error) {
	s.deletes++
	return s.Store.Delete(ctx, id, generation)
}

var key = tokencache.Key{Owner: "crm", Partition: [32]byte{1}, Name: "token"}

// newStore returns a store of tokens of a node.
func newStore(t *testing.T, s state.Store, now func() time.Time) *tokens.Store {
	t.Helper()
	node := testworld.Must(lease.NewNode(t.Context(), lease.Config{Store: s, Keys: [][]byte{bytes.Repeat([]byte{7}, 32)}, Now: now}))(t)
	return tokens.New(1<<20, 10, now, node)
}

// ask asks a question whose answer depends on the entries used.
func ask(t *testing.T, s *tokens.Store, used ...*tokencache.Handle) (*tokens.Question, view.TokenError, bool) {
	t.Helper()
	return s.Ask(t.Context(), "crm", used, false, func(func(*tokencache.Handle) uint64) [32]byte { return [32]byte{2} })
}

// waiter waits without a span.
type waiter struct{}

func (waiter) Await(ctx context.Context, _ string, wait func(context.Context) error) error {
	return wait(ctx)
}

func (waiter) GaveUp(err error) error { return err }

// begin returns the right to fetch the entry of key, or the entry that another node has stored.
func begin(t *testing.T, s *tokens.Store) (*tokens.Entry, *tokens.Right) {
	t.Helper()
	_, right, err := s.Get(t.Context(), key, waiter{})
	if right == nil {
		t.Fatalf("no right, %v", err)
	}
	return testworld.Must(right.Begin(t.Context(), time.Minute, waiter{}))(t), right
}

// An entry ends when its token does, although the store of state took some of that time. One that has ended is not stored for other
// nodes, nor is one that no token endpoint has answered.
func TestTimeToLiveWithASlowStore(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	for _, tt := range []struct {
		ttl     time.Duration
		fetched bool
		puts    int
	}{{time.Minute, true, 1}, {time.Nanosecond, true, 1}, {0, true, 0}, {-time.Second, true, 0}, {time.Minute, false, 0}} {
		now := start
		store := &faulty{Store: state.NewMemory(time.Now), put: func() {}}
		s := newStore(t, store, func() time.Time { return now })
		_, right := begin(t, s)
		store.puts, store.put = 0, func() { now = now.Add(10 * time.Second) }
		handle := s.Put(t.Context(), right, key, []seal.Piece{{Text: "1"}}, tt.ttl, tt.fetched)
		right.End(t.Context(), nil)
		if store.puts != tt.puts {
			t.Errorf("%+v: stored %d times for other nodes", tt, store.puts)
		}
		switch _, cached := s.Lookup(key); {
		case tt.ttl <= time.Second:
			if handle != nil || cached {
				t.Errorf("%+v: the node keeps what has ended: handle %v, cached %t", tt, handle, cached)
			}
		case !handle.Ends().Equal(start.Add(tt.ttl)):
			t.Errorf("%+v: ends after %v", tt, handle.Ends().Sub(start))
		}
	}
}

// A node gets the entry that another one has stored, fetched as it was there, and nobody waits for it any more. A 401 drops it for all,
// and the node leaves it to others to replace it ahead of its end.
func TestEntryOfSecondNode(t *testing.T) {
	memory := state.NewMemory(time.Now)
	one, other := newStore(t, memory, time.Now), newStore(t, memory, time.Now)
	_, right := begin(t, one)
	old := one.Put(t.Context(), right, key, []seal.Piece{{Text: "1"}}, time.Hour, true)
	right.End(t.Context(), nil)
	entry, right := begin(t, other)
	if entry == nil || entry.Value[0].Text != "1" {
		t.Fatalf("the other node begins with %v", entry)
	}
	if got, _, err := other.Get(t.Context(), key, waiter{}); got == nil || got.Handle != entry.Handle || err != nil {
		t.Errorf("then it has %v, %v", got, err)
	}
	right.End(t.Context(), nil)
	if !other.Reject(key, entry.Generation) {
		t.Error("a 401 does not drop the entry")
	}
	if right, err := other.Ahead(t.Context(), entry.Handle, time.Hour); right != nil || err != nil {
		t.Errorf("the node may replace what is gone: %v, %v", right, err)
	}
	if right, _ = one.Ahead(t.Context(), old, time.Hour); right == nil {
		t.Error("another node may not replace its entry")
	}
	right.End(t.Context(), nil)
	if entry, right := begin(t, other); entry != nil {
		t.Errorf("after a 401 the node gets %v", entry)
	} else {
		right.End(t.Context(), nil)
	}
}

// An answer with a token removes what the nodes remember of refusals, and costs no request to the store if they remember none. Another
// node does not ask what was refused, unless only this one has read an entry that the answer depends on.
func TestRefusalsOfNodes(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	store := &faulty{Store: state.NewMemory(clock), put: func() {}}
	one, other := newStore(t, store, clock), newStore(t, store, clock)
	question, _, _ := ask(t, one)
	question.Accept(t.Context())
	if store.deletes != 0 {
		t.Errorf("removed %d refusals that are not there", store.deletes)
	}
	question, _, _ = ask(t, one)
	question.Refuse(t.Context(), view.TokenError{Status: 401}, time.Minute, 0)
	if _, previous, ok := other.Ask(t.Context(), "crm", nil, true, func(func(*tokencache.Handle) uint64) [32]byte { return [32]byte{2} }); !ok {
		t.Errorf("a trace does not ask anew, after %+v", previous)
	}
	if q, previous, ok := ask(t, other); q != nil || ok || previous.Status != 401 || previous.RetryAfter <= 0 || previous.RetryAfter > time.Minute {
		t.Errorf("another node asks: %t, after %+v", ok, previous)
	}
	if q, _, ok := ask(t, one); q != nil || ok {
		t.Errorf("the node itself asks: %t, with %v", ok, q)
	}
	own := other.Put(t.Context(), nil, key, nil, time.Hour, false)
	now = now.Add(2 * time.Minute)
	question, _, ok := ask(t, other, own)
	if !ok {
		t.Fatal("a question of one node is refused")
	}
	question.Accept(t.Context())
	if store.deletes != 0 {
		t.Error("the answer to a question of one node removes refusals of all")
	}
	question, _, _ = ask(t, other)
	question.Accept(t.Context())
	if store.deletes != 1 {
		t.Errorf("removed %d refusals, want 1", store.deletes)
	}
}

// The wait after a refusal grows with the refusals of all nodes, up to five minutes. Retry-After counts up to an hour. threats.md 62
func TestSharedRefusalCap_threats_62(t *testing.T) {
	now := time.Now()
	clock := func() time.Time { return now }
	memory := state.NewMemory(clock)
	first, second := newStore(t, memory, clock), newStore(t, memory, clock)
	for i, tt := range []struct{ retryAfter, want time.Duration }{
		{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {0, 32}, {0, 64}, {0, 128}, {0, 256}, {0, 300}, {0, 300}, {7200, 3600}, {0, 300},
	} {
		want := tt.want * time.Second
		question, previous, ok := ask(t, first)
		if !ok {
			t.Fatalf("refusal %d may not be asked for, after %+v", i, previous)
		}
		if got, _ := question.Refuse(t.Context(), view.TokenError{Status: 400}, tt.retryAfter*time.Second, 0); got.RetryAfter != want {
			t.Errorf("refusal %d: the wait is %s, want %s", i, got.RetryAfter, want)
		}
		if _, previous, ok := ask(t, second); ok || previous.RetryAfter != want {
			t.Errorf("refusal %d: another node may ask: %t, after a wait of %s, want %s", i, ok, previous.RetryAfter, want)
		}
		now = now.Add(want)
		first, second = second, first
	}
}
