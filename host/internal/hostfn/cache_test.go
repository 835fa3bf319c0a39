package hostfn

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/internal/tokens"
	"github.com/keywright/keywright/internal/contract"
)

// planWithCache returns a plan with a cache, whose calls have one partition.
func planWithCache(now *time.Time) *Plan {
	clock := func() time.Time { return *now }
	return &Plan{
		Random: rand.Reader, Clock: clock, Tokens: tokens.New(1<<20, 10, clock, nil), Partition: func(*Inputs) [32]byte { return [32]byte{1} },
		Uses: map[string]bool{contract.GroupOf(contract.UserCacheGet): true, contract.GroupOf(contract.UserCacheSet): true, contract.GroupOf(contract.UserChallenge): true},
	}
}

func keyOf(name string) tokencache.Key { return tokencache.Key{Partition: [32]byte{1}, Name: name} }

// A call that replaces an entry ahead of its end reads other entries as usual, and not that one.
func TestARefreshAheadReadsOtherEntries(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	plan := planWithCache(&now)
	old := plan.Tokens.Put(t.Context(), nil, keyOf("old"), []seal.Piece{{Text: "1"}}, time.Hour, false)
	plan.Tokens.Put(t.Context(), nil, keyOf("other"), []seal.Piece{{Text: "2"}}, time.Hour, false)
	right, err := plan.Tokens.Ahead(t.Context(), old, time.Hour)
	if right == nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"old": "", "other": "2", "missing": ""} {
		c := New(context.Background(), plan, &Inputs{}, Detached)
		c.Right = right
		if got, ok := c.CacheGet(name); got != want || ok != (want != "") {
			t.Errorf("%s: got = %q, ok = %t", name, got, ok)
		}
	}
}

// A call that knows the API's answer to an attempt that read its request reads no other entries than that attempt. Otherwise what
// it reads could depend on the request (threats.md 15c).
func TestEntriesAfterTheRequestWasRead_threats_15c(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	plan := planWithCache(&now)
	read := plan.Tokens.Put(t.Context(), nil, keyOf("read"), []seal.Piece{{Text: "1"}}, time.Hour, false)
	gone := plan.Tokens.Put(t.Context(), nil, keyOf("gone"), []seal.Piece{{Text: "2"}}, time.Second, false)
	plan.Tokens.Put(t.Context(), nil, keyOf("unread"), []seal.Piece{{Text: "3"}}, time.Hour, false)
	now = now.Add(time.Minute)
	for name, want := range map[string]string{"read": "1", "gone": "", "unread": "", "missing": ""} {
		c := New(context.Background(), plan, &Inputs{Answer: &APIAnswer{requestRead: true, used: []*tokencache.Handle{read, gone}}}, Detached)
		var got string
		_ = c.try(func() { got, _ = c.CacheGet(name) })
		if restarts := c.Restart != nil && c.Restart.Afresh; got != want || restarts != (want == "") {
			t.Errorf("%s: %q, runs afresh %t", name, got, restarts)
		}
	}
}
