package tokencache

import (
	"context"
	"time"
)

// Lease is the right to fetch what is missing for a key, held by one caller at a time. It is safe for concurrent use.
type Lease[V any] struct {
	cache   *Cache[V]
	key     Key
	done    chan struct{} // closed when it has ended
	ended   bool          // under cache.mu
	outcome Outcome[V]    // written before done is closed, and not after
}

// Outcome is how a lease ended: with an entry (Set), with an error (Err), or with neither. After neither, those who
// waited go on without an entry.
type Outcome[V any] struct {
	Entry Entry[V]
	Set   bool
	Err   error
}

// Key is the entry that the lease is of.
func (l *Lease[V]) Key() Key { return l.key }

// Set stores a value as Cache.Set does and ends the lease: those who wait get the entry. With a ttl that is not above 0
// it ends as End(nil) does. After the lease has ended it does nothing, and the Generation given back is 0: whoever
// ended it told the others so already.
func (l *Lease[V]) Set(v V, ttl time.Duration) Entry[V] {
	l.cache.mu.Lock()
	defer l.cache.mu.Unlock()
	if l.ended {
		return Entry[V]{Value: v}
	}
	e := l.cache.set(l.key, v, ttl)
	if ttl <= 0 {
		l.end(Outcome[V]{})
	} else {
		l.end(Outcome[V]{Entry: e, Set: true})
	}
	return e
}

// End ends the lease with nothing stored: those who wait get err, or go on without an entry when it is nil. The next
// caller that misses gets a new lease, so that an error is never kept. It does nothing after the lease has ended, so
// that its holder may defer it; in a closure, where err is yet to come.
func (l *Lease[V]) End(err error) {
	l.cache.mu.Lock()
	defer l.cache.mu.Unlock()
	if !l.ended {
		l.end(Outcome[V]{Err: err})
	}
}

// end is called with cache.mu held, once.
func (l *Lease[V]) end(o Outcome[V]) {
	l.ended = true
	l.outcome = o
	delete(l.cache.leases, l.key)
	l.cache.renewed(l.key)
	close(l.done)
}

// Wait returns how the lease ended, once it has; its error is that of ctx when that is over first. It needs no
// goroutine and leaves none. The holder must not wait for itself.
func (l *Lease[V]) Wait(ctx context.Context) (Outcome[V], error) {
	select {
	case <-l.done:
		return l.outcome, nil
	default:
	}
	select {
	case <-l.done:
		return l.outcome, nil
	case <-ctx.Done():
		return Outcome[V]{}, ctx.Err()
	}
}
