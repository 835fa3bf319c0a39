package hostfn

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/tokencache"
)

// slowStore is a store of state that takes some time to store an entry.
type slowStore struct {
	wait func()
	puts int
}

func (s *slowStore) Put(context.Context, []byte, time.Duration) int64 {
	s.puts++
	s.wait()
	return 1
}

// planWithCache returns a plan with a cache, whose calls have one partition.
func planWithCache(now *time.Time) *Plan {
	clock := func() time.Time { return *now }
	return &Plan{
		Random: rand.Reader, Clock: clock, Cache: tokencache.New[[]seal.Piece](10, 10, clock), Partition: func(*Inputs) [32]byte { return [32]byte{1} },
		Uses: map[string]bool{abi.GroupOf(abi.UserCacheGet): true, abi.GroupOf(abi.UserCacheSet): true, abi.GroupOf(abi.UserChallenge): true},
	}
}

func keyOf(name string) tokencache.Key { return tokencache.Key{Partition: [32]byte{1}, Name: name} }

// A call that replaces an entry ahead of its end reads other entries as usual, and not that one.
func TestARefreshAheadReadsOtherEntries(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	plan := planWithCache(&now)
	old := plan.Cache.Set(keyOf("old"), []seal.Piece{{Text: "1"}}, time.Hour)
	plan.Cache.Set(keyOf("other"), []seal.Piece{{Text: "2"}}, time.Hour)
	for name, want := range map[string]string{"old": "", "other": "2", "missing": ""} {
		c := New(context.Background(), plan, &Inputs{}, Detached)
		c.Old = old.Handle
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
	read := plan.Cache.Set(keyOf("read"), []seal.Piece{{Text: "1"}}, time.Hour)
	gone := plan.Cache.Set(keyOf("gone"), []seal.Piece{{Text: "2"}}, time.Second)
	plan.Cache.Set(keyOf("unread"), []seal.Piece{{Text: "3"}}, time.Hour)
	now = now.Add(time.Minute)
	for name, want := range map[string]string{"read": "1", "gone": "", "unread": "", "missing": ""} {
		c := New(context.Background(), plan, &Inputs{Answer: &APIAnswer{requestRead: true, used: []*tokencache.Handle{read.Handle, gone.Handle}}}, Detached)
		var got string
		_ = c.try(func() { got, _ = c.CacheGet(name) })
		if restarts := c.Restart != nil && c.Restart.Afresh; got != want || restarts != (want == "") {
			t.Errorf("%s: %q, runs afresh %t", name, got, restarts)
		}
	}
}

// An entry ends when its token does, although the store of state took some of that time. One that has ended is not stored for other
// nodes.
func TestTimeToLiveWithASlowStore(t *testing.T) {
	began := time.Unix(1_700_000_000, 0)
	for ttl, puts := range map[time.Duration]int{time.Minute: 1, time.Nanosecond: 1, 0: 0, -time.Second: 0} {
		now := began
		plan := planWithCache(&now)
		store := &slowStore{wait: func() { now = now.Add(10 * time.Second) }}
		c := New(context.Background(), plan, &Inputs{}, Detached)
		_, _, c.Lease, _ = plan.Cache.Acquire(keyOf("a"))
		c.Shared, c.Exchanges = store, 1
		entry := c.setLeased(keyOf("a"), []seal.Piece{{Text: "1"}}, ttl)
		if store.puts != puts {
			t.Errorf("%v: stored %d times for other nodes", ttl, store.puts)
		}
		if ttl > time.Second && !entry.Handle.Ends().Equal(began.Add(ttl)) {
			t.Errorf("%v: ends after %v", ttl, entry.Handle.Ends().Sub(began))
		}
	}
}
