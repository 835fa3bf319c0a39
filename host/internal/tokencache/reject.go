package tokencache

import (
	"context"
	"time"
)

// rejectInterval is the least time between two renewals of an entry because of 401s.
const rejectInterval = 10 * time.Second

// renewal records that a 401 allowed one new value for a key. It outlives the entry, so that an upstream that answers
// 401 to everything, or a caller that makes it do so, causes only one exchange in rejectInterval.
type renewal struct {
	since time.Time
	// over is set once the new value has come or the attempt has failed.
	over bool
	// shared is the generation of the dropped entry in the store of state, or 0.
	shared int64
	// dropped is closed when Rejected has returned. It is nil if Rejected is not called.
	dropped chan struct{}
}

// Reject is called when the upstream has answered 401 to a request with the value of this generation. It drops the
// entry if the entry still holds that value, at most once in 10 seconds for each key. resend reports whether the caller
// should send the request once more: the entry was dropped, holds another value by now, or a new value is being
// fetched. A request with a value that was not stored (generation 0) is never sent again.
func (c *Cache[V]) Reject(k Key, generation uint64) (resend bool) {
	if generation == 0 {
		return false
	}
	resend, dropped, done := c.reject(k, generation)
	if done != nil {
		c.Rejected(dropped)
		close(done)
	}
	return resend
}

// reject is Reject without the call of Rejected: if done is not nil, that must follow, with dropped, and then done be closed.
func (c *Cache[V]) reject(k Key, generation uint64) (resend bool, dropped *Handle, done chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.get(k)
	if ok && e.Generation != generation {
		return true, nil, nil
	}
	if !ok && c.leases[k] != nil {
		return true, nil, nil
	}
	now := c.now()
	if r, ok := c.renewals.Peek(k); ok && WithinPeriod(r.since, now, rejectInterval) {
		return !r.over, nil, nil // other requests with the same value join the renewal
	}
	if !c.remember(k, now) {
		return false, nil, nil
	}
	c.remove(k)
	if ok && e.Handle.Shared != 0 && c.Rejected != nil {
		r, _ := c.renewals.Peek(k)
		r.shared, r.dropped = e.Handle.Shared, make(chan struct{})
		done = r.dropped
	}
	return true, e.Handle, done
}

// Dropped returns the generation in the store of state of the entry that a 401 has dropped last, or 0. If Rejected is just
// called with that entry, Dropped waits until it has returned, or ctx is done. Otherwise the holder of the lease could read
// from the store what is being dropped there.
func (l *Lease[V]) Dropped(ctx context.Context) (shared int64, err error) {
	l.cache.mu.Lock()
	r, ok := l.cache.renewals.Peek(l.key)
	l.cache.mu.Unlock()
	if !ok || r.dropped == nil {
		return 0, nil
	}
	select {
	case <-r.dropped:
		return r.shared, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// remember records that a renewal begins, and reports whether it may. It may not if as many renewals as the cache may have entries began
// within the interval: to forget one of them would allow its key another exchange. Likewise, a partition may have no more of them than
// entries, so that a plugin that uses ever new names, with an API that answers 401, uses up no space of others.
func (c *Cache[V]) remember(k Key, now time.Time) bool {
	c.forget(k)
	for {
		oldest, r, ok := c.renewals.GetOldest()
		if !ok || WithinPeriod(r.since, now, rejectInterval) {
			break
		}
		c.forget(oldest)
	}
	if c.renewals.Len() >= c.entries || c.renewing[k.Partition] >= c.perPartition {
		return false
	}
	c.renewals.Add(k, &renewal{since: now})
	c.renewing[k.Partition]++
	return true
}

func (c *Cache[V]) forget(k Key) {
	if !c.renewals.Remove(k) {
		return
	}
	if c.renewing[k.Partition]--; c.renewing[k.Partition] == 0 {
		delete(c.renewing, k.Partition)
	}
}

// renewed marks the key's renewal, if there is one, as over.
func (c *Cache[V]) renewed(k Key) {
	if r, ok := c.renewals.Peek(k); ok { // Get would change the order
		r.over = true
	}
}
