package tokencache

import "time"

// minAhead is the least time before its end at which an entry is refreshed ahead.
const minAhead = time.Second

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

// AcquireAhead returns the lease of an entry that is still valid. It returns nil if another caller holds the lease, or if the
// entry was replaced or removed. Until the lease ends, callers get the entry as before, and wait for the lease if the entry
// ends.
func (c *Cache[V]) AcquireAhead(h *Handle) *Lease[V] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if it, ok := c.all.Peek(h.Key.Owner, h.Key); !ok || it.Handle != h || c.leases[h.Key] != nil {
		return nil
	}
	return c.lease(h.Key)
}
