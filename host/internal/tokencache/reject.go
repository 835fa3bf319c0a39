package tokencache

import "time"

// rejectInterval is how long an entry is not renewed again because of 401s.
const rejectInterval = 10 * time.Second

// renewal remembers that a 401 allowed one new value for a key. It outlives the entry: an upstream that answers 401 to
// everything, or a caller who makes it do so, gets one exchange in rejectInterval.
type renewal struct {
	at   time.Time
	over bool // the new value came, or the attempt failed
}

// Reject reports that the upstream answered 401 to a request that carried the value of a generation. It drops the
// entry if it still holds that value, at most once in 10 seconds for a key. Again tells whether sending the request
// once more makes sense: the entry was dropped, holds another value by now, or a new value is on its way. A value that
// was not stored (generation 0) is never sent again.
func (c *Cache[V]) Reject(k Key, generation uint64) (again bool) {
	if generation == 0 {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e, held := c.get(k)
	if held && e.Generation != generation {
		return true
	}
	if !held && c.leases[k] != nil {
		return true
	}
	now := c.now()
	if r, ok := c.renewals.Peek(k); ok && within(r.at, now, rejectInterval) {
		return !r.over // others who carried the same value join the one renewal
	}
	if !c.remember(k, now) {
		return false
	}
	c.remove(k)
	return true
}

// remember notes that a renewal began, unless as many as the cache has entries began within the interval: forgetting
// one of them would allow its key another exchange. Of one partition, no more count than it has entries, so that a plugin
// with ever new names and an API that answers 401 take no place of others.
func (c *Cache[V]) remember(k Key, now time.Time) bool {
	c.forget(k)
	for {
		oldest, r, ok := c.renewals.GetOldest()
		if !ok || within(r.at, now, rejectInterval) {
			break
		}
		c.forget(oldest)
	}
	if c.renewals.Len() >= c.entries || c.renewing[k.Partition] >= c.perPartition {
		return false
	}
	c.renewals.Add(k, &renewal{at: now})
	c.renewing[k.Partition]++
	return true
}

// forget drops what is remembered of a key's renewal.
func (c *Cache[V]) forget(k Key) {
	if !c.renewals.Remove(k) {
		return
	}
	if c.renewing[k.Partition]--; c.renewing[k.Partition] == 0 {
		delete(c.renewing, k.Partition)
	}
}

// renewed notes that what a 401 allowed has taken place.
func (c *Cache[V]) renewed(k Key) {
	if r, ok := c.renewals.Peek(k); ok { // Peek, not Get, which would change their order
		r.over = true
	}
}
