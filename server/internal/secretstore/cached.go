package secretstore

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/keywright/keywright/host"
)

const (
	leastTTL = time.Second
	mostTTL  = time.Minute
	// lookupTime limits one lookup. Callers may stop waiting for it earlier.
	lookupTime = 30 * time.Second
)

// Cached returns a store that caches the values of another one for ttl, 1 s to 60 s, from the start of each lookup. So a
// rotated secret takes effect after ttl at the latest, or after the time of a lookup if that is longer. Concurrent lookups of
// one name share a single call of store. Errors are not cached, nor are blank values, which a file has while it is written:
// after these, the next caller asks again, and an older value is not used. store must return the same value to every caller.
//
// If clock is nil, it is [time.Now]. Cached returns an error if ttl is out of range.
func Cached(store host.Secrets, ttl time.Duration, clock func() time.Time) (host.Secrets, error) {
	if ttl < leastTTL || ttl > mostTTL {
		return nil, fmt.Errorf("secrets may be remembered for %s to %s, not %s", leastTTL, mostTTL, ttl)
	}
	if clock == nil {
		clock = time.Now
	}
	return newCached(store, ttl, clock), nil
}

func newCached(store host.Secrets, ttl time.Duration, clock func() time.Time) *cached {
	return &cached{store: store, values: memory[string]{ttl: ttl, clock: clock}}
}

type cached struct {
	store   host.Secrets
	lookups flights[string]
	values  memory[string]
}

// Secret implements [host.Secrets].
func (c *cached) Secret(ctx context.Context, name string) (string, error) {
	if value, ok := c.values.get(name); ok {
		return value, nil
	}
	return c.lookups.do(ctx, name, lookupTime, func(ctx context.Context) (string, error) {
		if value, ok := c.values.get(name); ok {
			return value, nil // from a lookup that ended just before this one began
		}
		requestTime := c.values.clock()
		value, err := c.store.Secret(ctx, name)
		if err != nil {
			return "", err
		}
		if strings.TrimSpace(value) != "" {
			c.values.put(name, value, requestTime)
		}
		return value, nil
	})
}

// A memory keeps the answers of a store for ttl. It is safe for concurrent use.
type memory[T any] struct {
	ttl   time.Duration
	clock func() time.Time

	mu      sync.Mutex
	answers map[string]answer[T]
	// swept is the time at which expired answers were last removed.
	swept time.Time
}

type answer[T any] struct {
	value       T
	requestTime time.Time
}

func (m *memory[T]) get(name string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.answers[name]
	return a.value, ok && m.fresh(a.requestTime)
}

// fresh reports whether an answer that was asked for at this time may be used. If the time is in the future, because the clock
// was set back, it may not.
func (m *memory[T]) fresh(requestTime time.Time) bool {
	age := m.clock().Sub(requestTime)
	return age >= 0 && age < m.ttl
}

// put stores an answer that was asked for at this time. Once in ttl it also removes all expired answers, so that secrets that
// are no longer used do not stay in memory.
func (m *memory[T]) put(name string, value T, requestTime time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.fresh(m.swept) {
		maps.DeleteFunc(m.answers, func(_ string, a answer[T]) bool { return !m.fresh(a.requestTime) })
		m.swept = m.clock()
	}
	if m.answers == nil {
		m.answers = map[string]answer[T]{}
	}
	m.answers[name] = answer[T]{value, requestTime}
}

// forget makes the next caller ask again.
func (m *memory[T]) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.answers, name)
}
