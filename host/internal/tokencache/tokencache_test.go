package tokencache_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/internal/testworld"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is the time at which the clock of each test begins.
var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func newCache(entries, perPartition int) (*tokencache.Cache[string], *testworld.Clock) {
	c := testworld.NewClock(start)
	return tokencache.New[string](entries, perPartition, c.Now), c
}

func key(partition byte, name string) tokencache.Key {
	return tokencache.Key{Partition: [32]byte{31: partition}, Name: name}
}

var token = key(1, "access_token")

// holds checks whether all of the keys have an entry, or none.
func holds(t *testing.T, c *tokencache.Cache[string], want bool, keys ...tokencache.Key) {
	t.Helper()
	for _, k := range keys {
		if _, ok := c.Lookup(k); ok != want {
			t.Errorf("entry %q of partition %d: there is %t, want %t", k.Name, k.Partition[31], ok, want)
		}
	}
}

// An entry is in the cache until its time to live has passed, and not after that (specification.md 4.3), also with odd
// times to live and a clock that is set (threats.md 33).
func TestEntryLifetime(t *testing.T) {
	const second = time.Second
	for _, c := range []struct {
		name string
		ttl  time.Duration
		step time.Duration // by which the clock moves after storing
		want bool
	}{
		{"at once", 3540 * second, 0, true},
		{"token_ttl 3600 less 60: the last second", 3540 * second, 3539 * second, true},
		{"token_ttl 3600 less 60: a moment before the end", 3540 * second, 3540*second - 1, true},
		{"token_ttl 3600 less 60: the end", 3540 * second, 3540 * second, false},
		{"long after", 3540 * second, 1e6 * second, false},
		{"one second", second, second - 1, true},
		{"one nanosecond", 1, 0, true},
		{"one nanosecond later", 1, 1, false},
		{"nothing", 0, 0, false},
		{"negative", -second, 0, false},
		{"the most negative", math.MinInt64, 0, false},
		{"the largest expires_in, 68 years", math.MaxInt32 * second, (math.MaxInt32 - 1) * second, true},
		{"the largest expires_in, over", math.MaxInt32 * second, math.MaxInt32 * second, false},
		{"the largest of all ends, too", math.MaxInt64, tokencache.MaxTTL, false},
		{"the largest of all before it ends", math.MaxInt64, tokencache.MaxTTL - 1, true},
		{"the clock set back by a nanosecond", 3540 * second, -1, false},
		{"the clock set back by a year", 3540 * second, -365 * 24 * time.Hour, false},
		{"the clock set back by centuries", 3540 * second, math.MinInt64, false},
		{"the clock set forward by centuries", 3540 * second, math.MaxInt64, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := func(cache *tokencache.Cache[string]) tokencache.Entry[string] { return cache.Set(token, "t1", c.ttl) }
			lease := func(cache *tokencache.Cache[string]) tokencache.Entry[string] {
				_, _, l, _ := cache.Acquire(token)
				return l.Set("t1", c.ttl, 0)
			}
			for how, store := range map[string]func(*tokencache.Cache[string]) tokencache.Entry[string]{"set": set, "lease": lease} {
				cache, clock := newCache(10, 10)
				e := store(cache)
				if e.Value != "t1" || (e.Generation != 0) != (c.ttl > 0) {
					t.Errorf("%s: stored %+v", how, e)
				}
				clock.Advance(c.step)
				got, ok := cache.Lookup(token)
				if ok != c.want || ok && got != e {
					t.Errorf("%s: Get results in %+v, %t, want %t", how, got, ok, c.want)
				}
				if !ok && cache.Len() != 0 {
					t.Errorf("%s: an entry that is over is kept", how)
				}
			}
		})
	}
}

// A clock that is set back and forward again does not make an entry valid again. threats.md 33
func TestEndedEntryStaysEnded(t *testing.T) {
	cache, clock := newCache(10, 10)
	for _, step := range []time.Duration{-time.Second, 2 * time.Hour} {
		cache.Set(token, "t1", time.Hour)
		clock.Advance(step)
		holds(t, cache, false, token)
		clock.Advance(-step)
		holds(t, cache, false, token)
	}
}

// If the wall clock is set back, an entry still ends by the monotonic clock. With both clocks in step, it stays for its
// whole time. threats.md 33
func TestMonotonicReading(t *testing.T) {
	now := time.Now()
	at := now
	cache := tokencache.New[string](10, 10, func() time.Time { return at })
	cache.Set(token, "t1", time.Hour)
	at = now.Add(time.Hour - 1)
	holds(t, cache, true, token)
	at = now.Add(time.Hour - 1).Round(0) // a time without a monotonic reading works, too
	holds(t, cache, true, token)
	at = now.Add(time.Hour)
	holds(t, cache, false, token)
}

func TestSetReplaces(t *testing.T) {
	cache, clock := newCache(10, 10)
	first := cache.Set(token, "t1", time.Minute)
	clock.Advance(30 * time.Second)
	second := cache.Set(token, "t2", time.Minute)
	clock.Advance(45 * time.Second)
	if got, ok := cache.Lookup(token); !ok || got != second || cache.Len() != 1 {
		t.Errorf("Get results in %+v, %t of %d", got, ok, cache.Len())
	}
	if first.Generation == second.Generation {
		t.Error("two values of one generation")
	}
	cache.Set(token, "t3", 0)
	if got, _ := cache.Lookup(token); got != second {
		t.Errorf("a value that may not be kept replaced one: %+v", got)
	}
}

// Keys that differ in any byte of the partition or of the name have different entries. specification.md "whose token"
func TestPartitionsAndNames(t *testing.T) {
	cache, _ := newCache(100, 100)
	cache.Set(token, "t1", time.Hour)
	for i := range token.Partition {
		other := token
		other.Partition[i] ^= 1
		holds(t, cache, false, other)
		if _, hit, l, holder := cache.Acquire(other); hit || !holder {
			t.Errorf("partition that differs in byte %d: hit %t, holder %t", i, hit, holder)
		} else {
			l.End(nil)
		}
	}
	for _, name := range []string{"", "access_toke", "access_token ", "Access_token", "access_token\x00"} {
		holds(t, cache, false, tokencache.Key{Partition: token.Partition, Name: name})
	}
	holds(t, cache, true, token)
}

func TestLeastRecentlyUsedGoesFirst(t *testing.T) {
	cache, _ := newCache(3, 3)
	for i := range 3 {
		cache.Set(key(byte(i), "a"), "v", time.Hour)
	}
	holds(t, cache, true, key(0, "a")) // makes partition 1 the least recently used
	cache.Set(key(3, "a"), "v", time.Hour)
	holds(t, cache, false, key(1, "a"))
	holds(t, cache, true, key(0, "a"), key(2, "a"), key(3, "a"))
	if cache.Len() != 3 {
		t.Errorf("%d entries, want 3", cache.Len())
	}
}

// A look that is not to be seen by others leaves the order of eviction as it is.
func TestPeek(t *testing.T) {
	cache, clock := newCache(2, 2)
	cache.Set(key(0, "a"), "v", time.Minute)
	cache.Set(key(1, "a"), "w", time.Hour)
	if e, ok := cache.Peek(key(0, "a")); !ok || e.Value != "v" {
		t.Errorf("e = %v, ok = %v", e, ok)
	}
	cache.Set(key(2, "a"), "x", time.Hour)
	holds(t, cache, false, key(0, "a"))
	cache.Set(key(3, "a"), "y", time.Minute)
	clock.Advance(time.Minute)
	for _, k := range []tokencache.Key{key(0, "a"), key(3, "a")} {
		if _, ok := cache.Peek(k); ok {
			t.Errorf("%v is found", k)
		}
	}
}

func TestFullPartitionEvictsItsOwn(t *testing.T) {
	cache, _ := newCache(100, 2)
	cache.Set(key(1, "a"), "v", time.Hour) // the least recently used of all, in another partition
	for _, name := range []string{"a", "b"} {
		cache.Set(key(2, name), "v", time.Hour)
	}
	holds(t, cache, true, key(2, "a")) // makes b the least recently used of partition 2
	cache.Set(key(2, "c"), "v", time.Hour)
	holds(t, cache, false, key(2, "b"))
	holds(t, cache, true, key(1, "a"), key(2, "a"), key(2, "c"))
	if cache.Len() != 3 {
		t.Errorf("%d entries in all: what left its partition did not leave the whole", cache.Len())
	}
}

func TestEvictedFromTheWholeLeavesItsPartition(t *testing.T) {
	cache, _ := newCache(3, 2)
	cache.Set(key(1, "a"), "v", time.Hour)
	cache.Set(key(1, "b"), "v", time.Hour)
	cache.Set(key(2, "a"), "v", time.Hour)
	cache.Set(key(2, "b"), "v", time.Hour) // evicts a of partition 1
	holds(t, cache, false, key(1, "a"))
	holds(t, cache, true, key(2, "a"), key(2, "b"))
	// Partition 1 has one entry now. If it still counted a, c would replace b there.
	cache.Set(key(1, "c"), "v", time.Hour) // evicts the least recently used of all
	cache.Set(key(1, "b"), "v", time.Hour)
	holds(t, cache, true, key(1, "b"), key(1, "c"))
	if cache.Len() != 3 {
		t.Errorf("%d entries, want 3", cache.Len())
	}
}

func TestReplacingEvictsNothing(t *testing.T) {
	cache, _ := newCache(4, 2)
	keys := []tokencache.Key{key(1, "a"), key(1, "b"), key(2, "a"), key(2, "b")}
	for _, k := range keys {
		cache.Set(k, "v", time.Hour)
	}
	for i, k := range keys {
		cache.Set(k, fmt.Sprint(i), time.Hour)
		holds(t, cache, true, keys...)
	}
}

func TestAtLeastOneEntry(t *testing.T) {
	cache, _ := newCache(0, -1)
	cache.Set(key(1, "a"), "v", time.Hour)
	cache.Set(key(2, "a"), "v", time.Hour)
	holds(t, cache, true, key(2, "a"))
	holds(t, cache, false, key(1, "a"))
}

// An entry that Live has found expired does not become live again if the clock is set back.
func TestLiveFindsDeadOnce(t *testing.T) {
	cache, clock := newCache(5, 2)
	e := cache.Set(token, "t1", time.Hour)
	if !cache.Live(e.Handle) {
		t.Error("a new entry is dead")
	}
	for _, step := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		if clock.Advance(step); cache.Live(e.Handle) {
			t.Error("an entry is live after its time")
		}
	}
}

// An entry that Live has been asked about is not evicted first, although Live takes no lock.
func TestLiveEntries(t *testing.T) {
	c := tokencache.New[string](3, 3, time.Now)
	var all []tokencache.Entry[string]
	for _, name := range []string{"a", "b", "c"} {
		all = append(all, c.Set(tokencache.Key{Name: name}, name, time.Hour))
	}
	c.Live(all[0].Handle)
	c.Set(tokencache.Key{Name: "d"}, "d", time.Hour)
	if !c.Live(all[0].Handle) || c.Live(all[1].Handle) {
		t.Error("what was used went before what was not")
	}
	if c.Live(nil) {
		t.Error("a value that was not stored is live")
	}
}

// In a million mixed calls, over more partitions than there is room for, every value that is read was stored with the
// same key. threats.md 29
func TestNoPartitionReadsAnothersValue(t *testing.T) {
	const (
		calls      = 1_000_000
		workers    = 8
		partitions = 500
		names      = 6
	)
	type value struct {
		key    tokencache.Key
		worker int
	}
	cache := tokencache.New[value](1000, 4, time.Now)
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			random := rand.New(rand.NewPCG(29, uint64(worker)))
			last := map[tokencache.Key]uint64{}
			check := func(k tokencache.Key, e tokencache.Entry[value]) {
				if e.Value.key != k || e.Generation == 0 {
					t.Errorf("read from %x what belongs to %x", k.Partition[:8], e.Value.key.Partition[:8])
				}
				if e.Generation < last[k] {
					t.Errorf("read an older value after a newer one")
				}
				last[k] = e.Generation
			}
			for range calls / workers {
				k := tokencache.Key{Name: string(rune('a' + random.IntN(names)))}
				binary.BigEndian.PutUint64(k.Partition[:], uint64(random.IntN(partitions)))
				v := value{k, worker}
				switch random.IntN(8) {
				case 0:
					check(k, cache.Set(k, v, time.Hour))
				case 1, 2, 3:
					e, hit, l, holder := cache.Acquire(k)
					switch {
					case hit:
						check(k, e)
					case holder && random.IntN(8) == 0:
						l.End(nil)
					case holder:
						check(k, l.Set(v, time.Hour, 0))
					default:
						if o, err := l.Wait(t.Context()); err != nil || o.Entry.Handle != nil && o.Entry.Value.key != k {
							t.Errorf("waited for %x and got %x, %v", k.Partition[:8], o.Entry.Value.key.Partition[:8], err)
						}
					}
				case 4:
					cache.Reject(k, last[k])
				default:
					if e, ok := cache.Lookup(k); ok {
						check(k, e)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := cache.Len(); n > 1000 {
		t.Errorf("%d entries, want no more than 1000", n)
	}
}

func BenchmarkGet(b *testing.B) {
	cache := tokencache.New[string](10_000, 16, time.Now)
	cache.Set(token, "t1", time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		cache.Lookup(token)
	}
}
