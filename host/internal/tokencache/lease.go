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

// Outcome is the outcome of a lease: an entry, an error, or neither. After neither, the waiting callers go on without an
// entry.
type Outcome[V any] struct {
	Entry Entry[V]
	// Set is set if there is an Entry.
	Set bool
	Err error
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
	if ttl <= 0 {
		l.end(Outcome[V]{})
	} else {
		l.end(Outcome[V]{Entry: e, Set: true})
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
