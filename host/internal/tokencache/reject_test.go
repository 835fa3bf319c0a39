package tokencache_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host/internal/tokencache"
)

func reject(t *testing.T, c *tokencache.Cache[string], generation uint64, again bool) {
	t.Helper()
	if got := c.Reject(token, generation); got != again {
		t.Errorf("Reject: again is %t, want %t", got, again)
	}
}

// Reject drops an entry only if it still holds the rejected value. threats.md 35
func TestRejectKeepsNewValue(t *testing.T) {
	cache, _ := newCache(10, 10)
	old := cache.Set(token, "t1", time.Hour)
	cache.Set(token, "t2", time.Hour)
	reject(t, cache, old.Generation, true)
	holds(t, cache, true, token)
	if again := cache.Reject(key(2, "access_token"), old.Generation); !again {
		t.Error("an entry that is gone for other reasons may be renewed")
	}
	holds(t, cache, true, token)
}

func TestRejectUnstoredValue(t *testing.T) {
	cache, _ := newCache(10, 10)
	reject(t, cache, 0, false)
	cache.Set(token, "t1", time.Hour)
	reject(t, cache, 0, false)
	holds(t, cache, true, token)
}

// Reject drops the entry with the rejected value, so that 401s cause at most one exchange in 10 seconds. threats.md 35
func TestRejectInterval(t *testing.T) {
	cache, clock := newCache(10, 10)
	for round := range 3 {
		e := cache.Set(token, "t1", time.Hour)
		reject(t, cache, e.Generation, true)
		e = hold(t, cache, token).Set("t2", time.Hour, 0)
		for range 10 {
			reject(t, cache, e.Generation, false)
			clock.Advance(time.Second - 1)
		}
		holds(t, cache, true, token)
		clock.Advance(10) // exactly ten seconds since the drop
		if round == 1 {
			clock.Advance(-time.Hour) // a clock that is set back does not prolong it
			e = cache.Set(token, "t2", time.Hour)
		}
		reject(t, cache, e.Generation, true)
		clock.Advance(10 * time.Second)
	}
}

// Other requests with the same token are sent again, too, without another exchange, even if the one exchange fails.
// threats.md 35
func TestRejectByMany(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*tokencache.Lease[string])
		late bool // requests after the exchange are sent again
	}{
		{"the exchange succeeds", func(l *tokencache.Lease[string]) { l.Set("t2", time.Hour, 0) }, true},
		{"the exchange fails", func(l *tokencache.Lease[string]) { l.End(errDown) }, false},
		{"the new token may not be kept", func(l *tokencache.Lease[string]) { l.Set("t2", 0, 0) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			cache, clock := newCache(10, 10)
			e := cache.Set(token, "t1", time.Hour)
			reject(t, cache, e.Generation, true)
			reject(t, cache, e.Generation, true) // before the exchange
			l := hold(t, cache, token)
			reject(t, cache, e.Generation, true) // during the exchange
			c.end(l)
			reject(t, cache, e.Generation, c.late)
			clock.Advance(10 * time.Second)
			reject(t, cache, e.Generation, true)
		})
	}
}

// Every caller may join an exchange that another caller began, since that causes no further one.
func TestRejectJoinsAnExchangeOfAnothers(t *testing.T) {
	cache, _ := newCache(10, 10)
	e := cache.Set(token, "t1", time.Hour)
	reject(t, cache, e.Generation, true)
	hold(t, cache, token).End(errDown)
	reject(t, cache, e.Generation, false)
	l := hold(t, cache, token) // of a request that had no token yet
	reject(t, cache, e.Generation, true)
	l.End(nil)
}

// An upstream that answers 401 to everything causes one exchange more than without 401s, for any number of callers.
// threats.md 35
func TestRejectStampede(t *testing.T) {
	cache, _ := newCache(10, 10)
	var exchanges, retries atomic.Int64
	request := func() tokencache.Entry[string] {
		e, hit, l, holder := cache.Acquire(token)
		if hit {
			return e
		}
		if holder {
			return l.Set(fmt.Sprint("token ", exchanges.Add(1)), time.Hour, 0)
		}
		o, err := l.Wait(t.Context())
		if err != nil || o.Entry.Handle == nil {
			t.Errorf("Wait: %+v, %v", o, err)
		}
		return o.Entry
	}
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			if e := request(); cache.Reject(token, e.Generation) {
				retries.Add(1)
				cache.Reject(token, request().Generation) // the answer is another 401, and it is not sent a third time
			}
		})
	}
	wg.Wait()
	if n := exchanges.Load(); n != 2 {
		t.Errorf("%d exchanges, want the first and one because of 401s", n)
	}
	if retries.Load() == 0 {
		t.Error("nobody tried again")
	}
}

// A plugin that uses ever new names, with an API that answers 401, keeps no other connector from a new token.
// threats.md 82
func TestRejectsOfOnePartitionLeaveOthersTheirs_threats_82(t *testing.T) {
	cache, clock := newCache(100, 4)
	drop := func(partition byte, name string) bool {
		k := key(partition, name)
		return cache.Reject(k, cache.Set(k, "v", time.Hour).Generation)
	}
	for round := range 3 {
		dropped := 0
		for i := range 200 {
			if drop(2, fmt.Sprint(round, " ", i)) {
				dropped++
			}
		}
		if dropped != 4 {
			t.Errorf("%d entries of one partition were dropped, want as many as it has", dropped)
		}
		if !drop(1, "access_token") {
			t.Error("another partition's entry was not dropped")
		}
		clock.Advance(10 * time.Second)
	}
}

// The memory of renewals is bounded, and does not drop a key to make room for others.
func TestRejectOfManyEntries(t *testing.T) {
	cache, clock := newCache(3, 3)
	drop := func(partition byte) bool {
		k := key(partition, "access_token")
		return cache.Reject(k, cache.Set(k, "v", time.Hour).Generation)
	}
	for i := range byte(3) {
		if !drop(i) {
			t.Errorf("partition %d: not dropped", i)
		}
		clock.Advance(time.Second)
	}
	for _, i := range []byte{4, 3, 2, 1, 0} {
		if drop(i) {
			t.Errorf("partition %d: dropped though as many as the cache has entries were dropped just now", i)
		}
	}
	clock.Advance(7 * time.Second) // ten seconds since the first
	if !drop(3) || drop(4) || drop(1) {
		t.Error("want one place for another drop")
	}
}

// A value that is in the store of state as well is dropped there by Rejected, and the next holder of its lease learns which one it
// was. Rejected is not called for a value that is not there, or that is gone already, and need not be set. threats.md 35
func TestRejectDropsShared(t *testing.T) {
	for _, test := range []struct {
		shared  int64
		held    bool
		reports bool
		want    int64
	}{{7, true, true, 7}, {0, true, true, 0}, {7, false, true, 0}, {7, true, false, 0}} {
		cache, clock := newCache(10, 10)
		var dropped []int64
		if test.reports {
			cache.Rejected = func(h *tokencache.Handle) { dropped = append(dropped, h.Shared) }
		}
		e := hold(t, cache, token).Set("t1", time.Hour, test.shared)
		if !test.held {
			clock.Advance(2 * time.Hour)
		}
		reject(t, cache, e.Generation, true)
		got, err := hold(t, cache, token).Dropped(t.Context())
		if err != nil || got != test.want {
			t.Errorf("%+v: the next lease knows of %d, %v", test, got, err)
		}
		if calls := len(dropped); (calls == 1) != (test.want != 0) || calls == 1 && dropped[0] != test.want {
			t.Errorf("%+v: Rejected was called with %v", test, dropped)
		}
	}
}
