package tokencache_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/host/internal/tokencache"
)

var errDown = errors.New("the token endpoint answered 503")

// hold acquires a lease, and fails if another caller holds it.
func hold(t *testing.T, c *tokencache.Cache[string], k tokencache.Key) *tokencache.Lease[string] {
	t.Helper()
	_, hit, l, holder := c.Acquire(k)
	if hit || !holder {
		t.Fatalf("Acquire: hit %t, holder %t, want a lease of the caller's own", hit, holder)
	}
	return l
}

// wait makes n callers wait for a lease that another caller holds, and returns when all of them block. The function
// that it returns checks that all have got an outcome.
func wait(t *testing.T, c *tokencache.Cache[string], k tokencache.Key, n int) (all func(tokencache.Outcome[string])) {
	t.Helper()
	got := make(chan tokencache.Outcome[string], n)
	for range n {
		_, hit, l, holder := c.Acquire(k)
		if hit || holder {
			t.Fatalf("Acquire: hit %t, holder %t, want another's lease", hit, holder)
		}
		go func() {
			o, err := l.Wait(t.Context())
			if err != nil {
				t.Error(err)
			}
			got <- o
		}()
	}
	synctest.Wait()
	if len(got) != 0 {
		t.Fatal("some did not wait")
	}
	return func(want tokencache.Outcome[string]) {
		t.Helper()
		synctest.Wait()
		if len(got) != n {
			t.Fatalf("%d of %d have been woken", len(got), n)
		}
		for range n {
			if o := <-got; o != want {
				t.Fatalf("outcome is %+v, want %+v", o, want)
			}
		}
	}
}

// Ten thousand callers at once cause one exchange, and all get its token. threats.md 30
func TestStampede(t *testing.T) {
	const callers = 10_000
	cache, _ := newCache(10, 10)
	var exchanges, tokens atomic.Int64
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			<-begin
			e, hit, l, holder := cache.Acquire(token)
			switch {
			case hit:
			case holder:
				e = l.Set(fmt.Sprint("token ", exchanges.Add(1)), time.Hour, 0)
			default:
				o, err := l.Wait(t.Context())
				if err != nil || o.Entry.Handle == nil {
					t.Errorf("Wait: %+v, %v", o, err)
				}
				e = o.Entry
			}
			if e.Value == "token 1" && e.Generation == 1 {
				tokens.Add(1)
			}
		})
	}
	close(begin)
	wg.Wait()
	if exchanges.Load() != 1 || tokens.Load() != callers {
		t.Errorf("%d exchanges, %d callers have the token, want 1 and %d", exchanges.Load(), tokens.Load(), callers)
	}
}

// All waiting callers get the error, nothing is cached, and the next request tries again. They get the entry as well. threats.md 32
func TestErrorReachesAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, _ := newCache(10, 10)
		for range 3 {
			l := hold(t, cache, token)
			all := wait(t, cache, token, 100)
			l.End(errDown)
			all(tokencache.Outcome[string]{Err: errDown})
			holds(t, cache, false, token)
		}
		l := hold(t, cache, token)
		all := wait(t, cache, token, 100)
		e := l.Set("t1", time.Hour, 0)
		all(tokencache.Outcome[string]{Entry: e})
		if got, hit, _, _ := cache.Acquire(token); !hit || got != e {
			t.Errorf("the next caller gets %+v, %t", got, hit)
		}
	})
}

// A token that may not be cached serves its own request only, and the waiting callers go on without it. specification.md
// "expires_in missing, not a number or short"
func TestNothingStoredLetsAllGoOn(t *testing.T) {
	for name, end := range map[string]func(*tokencache.Lease[string]){
		"ended":            func(l *tokencache.Lease[string]) { l.End(nil) },
		"no time to live":  func(l *tokencache.Lease[string]) { l.Set("t1", 0, 0) },
		"less than no ttl": func(l *tokencache.Lease[string]) { l.Set("t1", -time.Second, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cache, _ := newCache(10, 10)
				l := hold(t, cache, token)
				all := wait(t, cache, token, 10)
				end(l)
				all(tokencache.Outcome[string]{})
				holds(t, cache, false, token)
				hold(t, cache, token).End(nil)
			})
		})
	}
}

// A second end of a lease changes neither its outcome, nor the entry, nor the next lease.
func TestLeaseEndsOnce(t *testing.T) {
	again := map[string]func(*tokencache.Lease[string]){
		"end":            func(l *tokencache.Lease[string]) { l.End(nil) },
		"end with error": func(l *tokencache.Lease[string]) { l.End(errDown) },
		"set": func(l *tokencache.Lease[string]) {
			if e := l.Set("late", time.Hour, 0); e.Generation != 0 {
				t.Errorf("a lease that had ended stored %+v", e)
			}
		},
	}
	for name, again := range again {
		t.Run(name+" after set", func(t *testing.T) {
			cache, _ := newCache(10, 10)
			l := hold(t, cache, token)
			e := l.Set("t1", time.Hour, 0)
			again(l)
			if o, err := l.Wait(t.Context()); o != (tokencache.Outcome[string]{Entry: e}) || err != nil {
				t.Errorf("outcome is %+v, %v", o, err)
			}
			if got, ok := cache.Lookup(token); !ok || got != e {
				t.Errorf("entry is %+v, %t", got, ok)
			}
		})
		t.Run(name+" after error", func(t *testing.T) {
			cache, _ := newCache(10, 10)
			l := hold(t, cache, token)
			l.End(errDown)
			next := hold(t, cache, token)
			again(l)
			if o, err := l.Wait(t.Context()); o != (tokencache.Outcome[string]{Err: errDown}) || err != nil {
				t.Errorf("outcome is %+v, %v", o, err)
			}
			holds(t, cache, false, token)
			if _, hit, same, holder := cache.Acquire(token); hit || holder || same != next {
				t.Error("the lease that came after is gone")
			}
			next.End(nil)
		})
	}
}

// A caller that stops waiting does not disturb the others, and returns at once. threats.md 31
func TestCancelledWaiterLeavesAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, _ := newCache(10, 10)
		l := hold(t, cache, token)
		all := wait(t, cache, token, 5)

		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := l.Wait(ctx)
			gone <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("the one who was cancelled got %v", err)
		}

		e := l.Set("t1", time.Hour, 0)
		all(tokencache.Outcome[string]{Entry: e})
		if o, err := l.Wait(ctx); o.Entry.Handle == nil || err != nil {
			t.Errorf("what is there already is not given to one who is cancelled: %+v, %v", o, err)
		}
	})
}

func TestIndependentLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, _ := newCache(10, 10)
		keys := []tokencache.Key{token, key(1, "refresh_token"), key(2, "access_token")}
		var ends []func()
		for i, k := range keys {
			l := hold(t, cache, k)
			all := wait(t, cache, k, 3)
			ends = append(ends, func() {
				e := l.Set(fmt.Sprint(i), time.Hour, 0)
				all(tokencache.Outcome[string]{Entry: e})
			})
		}
		for _, end := range ends {
			end()
		}
	})
}

// A full cache evicts entries but never a lease, for which callers would wait for ever.
func TestPressureLosesNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, _ := newCache(2, 1)
		l := hold(t, cache, token)
		all := wait(t, cache, token, 10)
		for i := range 100 {
			cache.Set(key(byte(i), "other"), "v", time.Hour) // also in partition 1
			hold(t, cache, key(byte(i), "more")).End(nil)
		}
		if _, hit, same, holder := cache.Acquire(token); hit || holder || same != l {
			t.Error("a second lease of the same entry")
		}
		e := l.Set("t1", time.Hour, 0)
		all(tokencache.Outcome[string]{Entry: e})
		cache.Set(key(7, "other"), "v", time.Hour)
		cache.Set(key(8, "other"), "v", time.Hour)
		holds(t, cache, false, token)
		if o, _ := l.Wait(t.Context()); o.Entry != e {
			t.Error("one who comes to wait late does not get what was stored, because it was evicted")
		}
	})
}

func TestSetWithoutLeaseLeavesALeaseAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cache, _ := newCache(10, 10)
		l := hold(t, cache, token)
		all := wait(t, cache, token, 3)
		cache.Set(token, "beside", time.Hour)
		if e, hit, _, _ := cache.Acquire(token); !hit || e.Value != "beside" {
			t.Errorf("Acquire results in %+v, %t", e, hit)
		}
		e := l.Set("t1", time.Hour, 0)
		all(tokencache.Outcome[string]{Entry: e})
		if got, _ := cache.Lookup(token); got != e {
			t.Errorf("entry is %+v", got)
		}
	})
}
