// Package tokencache keeps access tokens, and whatever else plugins store, for the whole host. It answers three
// questions that are easy to get wrong one by one: whose an entry is (its partition is part of its key), how long it
// may be used (by the host's clock, and not a moment longer), and who fetches the next one (the holder of a lease,
// while all others wait).
package tokencache

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Key names an entry. Entries of different partitions have nothing to do with each other, whatever their names.
type Key struct {
	Partition [32]byte // a digest of everything that may not differ between who stores and who reads
	Name      string   // the plugin's own name for it
}

// Entry is a stored value.
type Entry[V any] struct {
	Value      V
	Generation uint64  // differs between any two that were stored; 0 is a value that was not
	Handle     *Handle // nil for a value that was not stored
}

// Handle stands for an entry without holding its value, so that who keeps it keeps nothing that the cache has dropped.
type Handle struct {
	Key        Key
	Generation uint64

	stored time.Time
	ttl    time.Duration
	gone   atomic.Bool // another value, or none, has taken its place
	used   atomic.Bool // by Live, since it was last found to be the oldest
}

// MaxTTL is the longest time that an entry is kept; what asks for more gets this.
const MaxTTL = 100 * 365 * 24 * time.Hour

// Cache holds entries in memory only. It is safe for concurrent use.
type Cache[V any] struct {
	Refusals *Refusals // of token endpoints; as many as entries

	entries, perPartition int
	now                   func() time.Time

	mu         sync.Mutex
	generation uint64
	all        *simplelru.LRU[Key, *item[V]]
	partitions map[[32]byte]*simplelru.LRU[string, struct{}] // the same keys once more, ordered within each partition
	leases     map[Key]*Lease[V]                             // apart from the entries: nothing evicts a lease
	renewals   *simplelru.LRU[Key, *renewal]                 // in the order in which they began
	renewing   map[[32]byte]int                              // how many of these each partition has
}

type item[V any] struct {
	*Handle
	value     V
	partition *simplelru.LRU[string, struct{}] // where its name is too
}

func (it *item[V]) entry() Entry[V] { return Entry[V]{it.value, it.Generation, it.Handle} }

// New makes an empty cache for so many entries in all and in each partition, at least one. Where there is no room, the
// entry goes that was used least recently. The cache reads the time from now only.
func New[V any](entries, perPartition int, now func() time.Time) *Cache[V] {
	entries = max(1, entries)
	return &Cache[V]{
		Refusals:     newRefusals(entries, now),
		entries:      entries,
		perPartition: max(1, perPartition),
		now:          now,
		all:          newLRU[Key, *item[V]](entries),
		partitions:   map[[32]byte]*simplelru.LRU[string, struct{}]{},
		leases:       map[Key]*Lease[V]{},
		renewals:     newLRU[Key, *renewal](entries),
		renewing:     map[[32]byte]int{},
	}
}

// newLRU makes an LRU for size entries, which is at least one: the only thing that simplelru refuses is less.
func newLRU[K comparable, V any](size int) *simplelru.LRU[K, V] {
	l, err := simplelru.NewLRU[K, V](size, nil)
	if err != nil {
		panic(err)
	}
	return l
}

// Get returns the entry of a key, if it has one that is still valid.
func (c *Cache[V]) Get(k Key) (Entry[V], bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.get(k)
}

// Live reports whether an entry is still what its key has, and valid. To ask takes neither a lock nor a search.
func (c *Cache[V]) Live(h *Handle) bool {
	if h == nil || h.gone.Load() {
		return false
	}
	if !h.valid(c.now()) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !h.gone.Load() {
			c.remove(h.Key)
		}
		return false
	}
	if !h.used.Load() {
		h.used.Store(true)
	}
	return true
}

// Gone reports whether another value, or none, has taken the entry's place.
func (h *Handle) Gone() bool { return h.gone.Load() }

// InTime reports whether the time of an entry is not over, whether or not it is still there.
func (c *Cache[V]) InTime(h *Handle) bool { return h != nil && h.valid(c.now()) }

func (h *Handle) valid(now time.Time) bool { return within(h.stored, now, h.ttl) }

// Acquire returns the entry of a key (hit), or else the lease of that entry, in one step: either the caller holds it
// now (holder) and must end it, or another caller does and this one may wait. So of any number of callers that miss at
// once, one is the holder.
func (c *Cache[V]) Acquire(k Key) (e Entry[V], hit bool, l *Lease[V], holder bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, hit = c.get(k); hit {
		return e, true, nil, false
	}
	if l = c.leases[k]; l != nil {
		return e, false, l, false
	}
	l = &Lease[V]{cache: c, key: k, done: make(chan struct{})}
	c.leases[k] = l
	return e, false, l, true
}

// Set stores a value without a lease, and leaves one that is held as it is. What it stores is valid from now until ttl
// has passed; with a ttl that is not above 0 nothing is stored, an entry that is there stays, and the Generation given
// back is 0.
func (c *Cache[V]) Set(k Key, v V, ttl time.Duration) Entry[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set(k, v, ttl)
}

// Len counts the entries, including those whose time is over and that nobody asked for since.
func (c *Cache[V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all.Len()
}

func (c *Cache[V]) get(k Key) (Entry[V], bool) {
	it, ok := c.all.Peek(k)
	if !ok {
		return Entry[V]{}, false
	}
	if !it.valid(c.now()) {
		// Removed, so that a clock that is set back later does not bring it to life again.
		c.remove(k)
		return Entry[V]{}, false
	}
	c.touch(it)
	return it.entry(), true
}

func (c *Cache[V]) set(k Key, v V, ttl time.Duration) Entry[V] {
	if ttl <= 0 {
		return Entry[V]{Value: v}
	}
	c.makeRoom(k)
	c.generation++
	p := c.partitions[k.Partition]
	if p == nil {
		p = newLRU[string, struct{}](c.perPartition)
		c.partitions[k.Partition] = p
	}
	it := &item[V]{&Handle{Key: k, Generation: c.generation, stored: c.now(), ttl: min(ttl, MaxTTL)}, v, p}
	if before, ok := c.all.Peek(k); ok {
		before.gone.Store(true)
	}
	c.all.Add(k, it)
	p.Add(k.Name, struct{}{})
	c.renewed(k)
	return it.entry()
}

// makeRoom removes what a new entry has no room beside: first in its own partition, so that one partition that is full
// costs no other an entry.
func (c *Cache[V]) makeRoom(k Key) {
	if c.all.Contains(k) {
		return
	}
	if p := c.partitions[k.Partition]; p != nil && p.Len() >= c.perPartition {
		c.removeOldest(p.Len(), func() *item[V] {
			name, _, _ := p.GetOldest()
			it, _ := c.all.Peek(Key{Partition: k.Partition, Name: name})
			return it
		})
	}
	if c.all.Len() >= c.entries {
		c.removeOldest(c.all.Len(), func() *item[V] {
			_, it, _ := c.all.GetOldest()
			return it
		})
	}
}

// removeOldest removes the oldest of so many items, but for those that were found live since they were last looked at:
// these are the most recent ones then.
func (c *Cache[V]) removeOldest(of int, oldest func() *item[V]) {
	for range of {
		it := oldest()
		if !it.used.Swap(false) {
			break
		}
		c.touch(it)
	}
	c.remove(oldest().Key)
}

// touch makes an item the most recent one, in the whole and in its partition.
func (c *Cache[V]) touch(it *item[V]) {
	c.all.Get(it.Key)
	it.partition.Get(it.Key.Name)
}

// remove takes what a key has out of the whole and out of its partition.
func (c *Cache[V]) remove(k Key) {
	it, ok := c.all.Peek(k)
	if !ok {
		return
	}
	it.gone.Store(true)
	c.all.Remove(k)
	it.partition.Remove(k.Name)
	if it.partition.Len() == 0 {
		delete(c.partitions, k.Partition)
	}
}

// within reports whether at most d, exclusive, has passed between since and now, and not less than nothing. It asks the
// wall clock and, where both times have one, the monotonic clock: the one goes on while the machine sleeps, the other
// cannot be set. Neither may keep an entry beyond its time. Sub saturates, so that no clock overflows it.
func within(since, now time.Time, d time.Duration) bool {
	if monotonic := now.Sub(since); monotonic < 0 || monotonic >= d {
		return false
	}
	// Whole seconds of the wall clock decide it nearly always, and are had in no time.
	if seconds := now.Unix() - since.Unix(); seconds > 0 && seconds < int64(d/time.Second)-1 {
		return true
	}
	wall := now.Round(0).Sub(since.Round(0))
	return wall >= 0 && wall < d
}
