// Package tokencache caches access tokens and other values that plugins store, for the whole host. It decides who may
// use an entry (the partition is part of the key), how long (by the host's clock, and not a moment longer), and who
// fetches a new value (the holder of a lease, while all others wait).
package tokencache

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/keywright/keywright/host/internal/fairlru"
)

// Key is the key of an entry. Entries of different partitions are independent, even if their names are equal.
type Key struct {
	// Owner is the name of the connector, whose entries do not push out those of others.
	Owner string
	// Partition is a digest of everything in which the caller that stores an entry and the caller that reads it must agree.
	Partition [32]byte
	// Name is the plugin's name for the entry.
	Name string
}

// Entry is a stored value.
type Entry[V any] struct {
	Value V
	// Generation is different for each stored value. It is 0 if the value was not stored.
	Generation uint64
	// Handle is nil if the value was not stored.
	Handle *Handle
}

// Handle refers to an entry. It does not keep a value that the cache has dropped.
type Handle struct {
	Key        Key
	Generation uint64
	// Shared is the generation of the value in the store of state. It is 0 if the value is not there.
	Shared int64

	since time.Time
	ttl   time.Duration
	// removed is set once the entry has been replaced or removed.
	removed atomic.Bool
	// used is set by Live, and cleared when the entry is the next to lose its place.
	used atomic.Bool
	// uses is the number of calls of Count.
	uses atomic.Int64
	// lead is the time before the end of the entry at which a refresh ahead may begin next, or 0.
	lead atomic.Int64
}

// Count returns the number of its calls for this entry, from 1.
func (h *Handle) Count() int64 { return h.uses.Add(1) }

// Ends returns the time at which the entry ends.
func (h *Handle) Ends() time.Time { return h.since.Add(h.ttl) }

// MaxTTL is the longest time that an entry is kept. Longer times to live are reduced to it.
const MaxTTL = 100 * 365 * 24 * time.Hour

// Cache holds entries in memory only. It is safe for concurrent use.
type Cache[V any] struct {
	// Refusals is the memory of the refusals of token endpoints. It has room for as many as there may be entries.
	Refusals *Refusals
	// If not nil, Rejected is called by Reject with each Shared entry that it drops. It must be set before the cache is used.
	Rejected func(*Handle)

	entries, perPartition int
	now                   func() time.Time
	size                  func(Key, V) int64

	mu         sync.Mutex
	generation uint64
	all        *fairlru.Cache[Key, *item[V]]
	// partitions has the same keys, in the order of use within each partition.
	partitions map[[32]byte]*simplelru.LRU[string, struct{}]
	// leases are separate from the entries, because a lease must not be evicted.
	leases map[Key]*Lease[V]
	// renewals are in the order in which they began, and renewing has their number in each partition.
	renewals *simplelru.LRU[Key, *renewal]
	renewing map[[32]byte]int
}

type item[V any] struct {
	*Handle
	value V
	// partition is the element of Cache.partitions that has the item's name.
	partition *simplelru.LRU[string, struct{}]
}

func (it *item[V]) entry() Entry[V] { return Entry[V]{it.value, it.Generation, it.Handle} }

// New returns an empty cache of at most this many entries in all, refusals, renewals, and entries in each partition. Numbers below
// 1 count as 1. If there is no room, the least recently used entry of the partition is evicted, or that of the owner with most. The
// cache reads the time from now only.
func New[V any](entries, perPartition int, now func() time.Time) *Cache[V] {
	entries = max(1, entries)
	c := &Cache[V]{
		Refusals: &Refusals{now: now, all: fairlru.New[[32]byte, *refusalEntry](int64(entries))},
		entries:  entries, perPartition: max(1, perPartition), now: now, size: func(Key, V) int64 { return 1 },
		all: fairlru.New[Key, *item[V]](int64(entries)), partitions: map[[32]byte]*simplelru.LRU[string, struct{}]{},
		leases: map[Key]*Lease[V]{}, renewals: newLRU[Key, *renewal](entries), renewing: map[[32]byte]int{},
	}
	c.all.Used, c.all.Dropped = c.wasUsed, c.dropped
	return c
}

// NewSized is like New for entries of this many bytes in all. size returns the bytes of a value.
func NewSized[V any](bytes int64, size func(V) int, perPartition int, now func() time.Time) *Cache[V] {
	const (
		overhead   = 1100   // bytes of an entry in a partition of its own, beside its value and its name, estimated
		remembered = 10_000 // refusals and renewals
	)
	c := New[V](remembered, perPartition, now)
	c.size = func(k Key, v V) int64 { return int64(size(v) + len(k.Name) + overhead) }
	c.Resize(bytes)
	return c
}

// Resize sets the number of bytes of all entries, or their number, and drops what has no room then.
func (c *Cache[V]) Resize(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all.Resize(bytes)
}

// newLRU returns an LRU list of size entries. size must be at least 1; simplelru returns an error only for less.
func newLRU[K comparable, V any](size int) *simplelru.LRU[K, V] {
	l, _ := simplelru.NewLRU[K, V](size, nil) // the only error is for sizes below one
	return l
}

// Lookup returns the entry of a key and reports whether there is a valid one. It waits for nobody.
func (c *Cache[V]) Lookup(k Key) (Entry[V], bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.get(k)
}

// Peek is like Lookup, but does not count as a use of the entry.
func (c *Cache[V]) Peek(k Key) (Entry[V], bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	it, ok := c.all.Peek(k.Owner, k)
	if !ok || !it.valid(c.now()) {
		return Entry[V]{}, false
	}
	return it.entry(), true
}

// Live reports whether an entry is still in the cache and valid. For a live entry it takes neither a lock nor a lookup.
func (c *Cache[V]) Live(h *Handle) bool {
	if h == nil || h.removed.Load() {
		return false
	}
	if !h.valid(c.now()) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !h.removed.Load() {
			c.remove(h.Key)
		}
		return false
	}
	if !h.used.Load() {
		h.used.Store(true)
	}
	return true
}

// Gone reports whether the entry has been replaced or removed.
func (h *Handle) Gone() bool { return h.removed.Load() }

// InTime reports whether the time to live of an entry has not passed, even if the entry has been replaced or removed.
func (c *Cache[V]) InTime(h *Handle) bool { return h != nil && h.valid(c.now()) }

func (h *Handle) valid(now time.Time) bool { return WithinPeriod(h.since, now, h.ttl) }

// Acquire returns the entry of a key (hit) or its lease, atomically. If holder is true, the caller holds the lease and must end it.
// Otherwise another caller holds it, and this one may wait. So if any number of callers miss at once, exactly one of them is the holder.
func (c *Cache[V]) Acquire(k Key) (e Entry[V], hit bool, l *Lease[V], holder bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, hit = c.get(k); hit {
		return e, true, nil, false
	}
	if l = c.leases[k]; l != nil {
		return e, false, l, false
	}
	return e, false, c.lease(k), true
}

// lease returns the lease of a key, which nobody holds.
func (c *Cache[V]) lease(k Key) *Lease[V] {
	l := &Lease[V]{cache: c, key: k, done: make(chan struct{})}
	c.leases[k] = l
	return l
}

// Set stores a value without a lease. A lease of the key stays as it is. The entry is valid from now until ttl has
// passed. If ttl is 0 or less, Set stores nothing, an existing entry stays, and the returned Generation is 0.
func (c *Cache[V]) Set(k Key, v V, ttl time.Duration) Entry[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.set(k, v, ttl, 0)
}

// Len returns the number of entries, including expired ones that have not been looked up since.
func (c *Cache[V]) Len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all.Len()
}

func (c *Cache[V]) get(k Key) (Entry[V], bool) {
	it, ok := c.all.Peek(k.Owner, k)
	if !ok {
		return Entry[V]{}, false
	}
	if !it.valid(c.now()) {
		// Otherwise the entry would be valid again if the clock is set back later.
		c.remove(k)
		return Entry[V]{}, false
	}
	c.all.Get(k.Owner, k) // it is the most recently used one, of its owner and in its partition
	it.partition.Get(k.Name)
	return it.entry(), true
}

func (c *Cache[V]) set(k Key, v V, ttl time.Duration, shared int64) Entry[V] {
	if ttl <= 0 {
		return Entry[V]{Value: v}
	}
	c.remove(k)
	c.makeRoom(k)
	c.generation++
	p := c.partitions[k.Partition]
	if p == nil {
		p = newLRU[string, struct{}](c.perPartition)
		c.partitions[k.Partition] = p
	}
	it := &item[V]{&Handle{Key: k, Generation: c.generation, Shared: shared, since: c.now(), ttl: min(ttl, MaxTTL)}, v, p}
	p.Add(k.Name, struct{}{})
	c.all.Add(k.Owner, k, it, c.size(k, v))
	c.renewed(k)
	return it.entry()
}

// makeRoom evicts an entry from the partition of k, if that is full.
func (c *Cache[V]) makeRoom(k Key) {
	p := c.partitions[k.Partition]
	if p == nil || p.Len() < c.perPartition {
		return
	}
	for range p.Len() {
		k.Name, _, _ = p.GetOldest()
		if it, _ := c.all.Peek(k.Owner, k); !c.wasUsed(it) {
			break
		}
		c.all.Get(k.Owner, k)
	}
	k.Name, _, _ = p.GetOldest()
	c.remove(k)
}

// wasUsed reports whether Live has marked an item since the last call. Such an item becomes the last used one of its partition.
func (c *Cache[V]) wasUsed(it *item[V]) bool {
	if !it.used.Swap(false) {
		return false
	}
	it.partition.Get(it.Key.Name)
	return true
}

func (c *Cache[V]) remove(k Key) {
	if it, ok := c.all.Peek(k.Owner, k); ok {
		c.all.Remove(k.Owner, k)
		c.dropped(it)
	}
}

// dropped removes an item that the cache no longer has from its partition.
func (c *Cache[V]) dropped(it *item[V]) {
	it.removed.Store(true)
	it.partition.Remove(it.Key.Name)
	if it.partition.Len() == 0 {
		delete(c.partitions, it.Key.Partition)
	}
}

// WithinPeriod reports whether the time from since to now is at least 0 and less than d, by the wall clock and, if both times
// have a reading of it, by the monotonic clock. The wall clock goes on while the machine sleeps, and the monotonic
// clock cannot be set, so neither keeps an entry beyond its time. Sub saturates, so no clock makes it overflow.
func WithinPeriod(since, now time.Time, d time.Duration) bool {
	if monotonic := now.Sub(since); monotonic < 0 || monotonic >= d {
		return false
	}
	// Whole seconds of the wall clock nearly always suffice, and comparing them is faster.
	if seconds := now.Unix() - since.Unix(); seconds > 0 && seconds < int64(d/time.Second)-1 {
		return true
	}
	wall := now.Round(0).Sub(since.Round(0))
	return wall >= 0 && wall < d
}
