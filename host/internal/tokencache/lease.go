package tokencache

import (
	"context"
	"time"
)

// Lease is the right to fetch the missing value of a key. One caller at a time holds it. It is safe for concurrent use.
type Lease[V any] struct {
	cache *Cache[V]
	key   Key
	// done is closed when the lease ends.
	done chan struct{}
	// finished is guarded by cache.mu.
	finished bool
	// outcome is written before done is closed, and not after.
	outcome Outcome[V]
}

// Outcome is the outcome of a lease: an entry with its Handle, an error, or neither, so that the callers go on without one.
type Outcome[V any] struct {
	Entry Entry[V]
	Err   error
}

// Key returns the key of the lease.
func (l *Lease[V]) Key() Key { return l.key }

// Set stores a value as Cache.Set does and ends the lease. The waiting callers get the entry. If ttl is 0 or less, the
// lease ends as with End(nil). If the lease has ended already, Set does nothing and returns an entry with Generation 0. shared is
// the generation of the value in the store of state, or 0.
func (l *Lease[V]) Set(v V, ttl time.Duration, shared int64) Entry[V] {
	l.cache.mu.Lock()
	defer l.cache.mu.Unlock()
	if l.finished {
		return Entry[V]{Value: v}
	}
	e := l.cache.set(l.key, v, ttl, shared)
	if e.Handle == nil {
		l.end(Outcome[V]{})
	} else {
		l.end(Outcome[V]{Entry: e})
	}
	return e
}

// End ends the lease without storing a value. The waiting callers get err, or go on without an entry if err is nil. The
// next caller that misses gets a new lease, so errors are never cached. If the lease has ended already, End does
// nothing, so its holder may defer it. If err is not known yet, it has to defer a closure.
func (l *Lease[V]) End(err error) {
	l.cache.mu.Lock()
	defer l.cache.mu.Unlock()
	if !l.finished {
		l.end(Outcome[V]{Err: err})
	}
}

// end ends the lease. It is called once, with cache.mu held.
func (l *Lease[V]) end(o Outcome[V]) {
	l.finished = true
	l.outcome = o
	delete(l.cache.leases, l.key)
	l.cache.renewed(l.key)
	close(l.done)
}

// Wait waits until the lease ends and returns its outcome. If ctx is done before, it returns the error of ctx. It
// starts no goroutine. The holder of the lease must not call it.
func (l *Lease[V]) Wait(ctx context.Context) (Outcome[V], error) {
	select {
	case <-l.done:
	default:
		select {
		case <-l.done:
		case <-ctx.Done():
			return Outcome[V]{}, ctx.Err()
		}
	}
	return l.outcome, nil
}

// Fetched records that a token endpoint was asked for the value. Only such an entry is refreshed ahead of its end: what a call
// makes by itself costs the next call no wait. That begins when half of the entry's time has passed at the earliest, so that a
// token with a short life is not fetched all the time. Without an entry, h is nil, and Fetched does nothing.
func (h *Handle) Fetched() {
	if h != nil {
		h.lead.CompareAndSwap(0, int64(h.ttl/2))
	}
}

// Ending returns the time that an entry has left, and reports whether a refresh may begin because that is no more than lead.
// It takes neither a lock nor a lookup.
func (c *Cache[V]) Ending(h *Handle, lead time.Duration) (remaining time.Duration, ending bool) {
	const minAhead = time.Second // the least time before its end at which an entry is refreshed ahead
	lead = min(lead, time.Duration(h.lead.Load()))
	if lead < minAhead || h.removed.Load() {
		return 0, false
	}
	now := c.now()
	remaining = h.ttl - max(now.Sub(h.since), now.Round(0).Sub(h.since.Round(0)))
	return remaining, remaining > 0 && remaining <= lead
}

// BeginAhead reports whether the caller is the one that may refresh an entry that has this time left. The next refresh may
// begin when half of that time is left. first reports whether there was none before.
func (h *Handle) BeginAhead(remaining time.Duration) (ok, first bool) {
	lead := h.lead.Load()
	return int64(remaining) <= lead && h.lead.CompareAndSwap(lead, int64(remaining/2)), lead == int64(h.ttl/2)
}

// AcquireAhead returns the lease of an entry that is still valid. It returns nil if another caller holds the lease, or if the entry was
// replaced or removed. Until the lease ends, callers get the entry as before, and wait for the lease if the entry ends.
func (c *Cache[V]) AcquireAhead(h *Handle) *Lease[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if it, ok := c.all.Peek(h.Key.Owner, h.Key); !ok || it.Handle != h || c.leases[h.Key] != nil {
		return nil
	}
	return c.lease(h.Key)
}
