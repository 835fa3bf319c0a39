package secretstore

import (
	"context"
	"fmt"
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
	return &cached{store: store, ttl: ttl, clock: clock, known: map[string]answer{}}
}

type cached struct {
	store   host.Secrets
	ttl     time.Duration
	clock   func() time.Time
	lookups flights[string]

	mu    sync.Mutex
	known map[string]answer
	// swept is the time at which expired answers were last removed.
	swept time.Time
}

type answer struct {
	value string
	asked time.Time
}

// Secret implements [host.Secrets].
func (c *cached) Secret(ctx context.Context, name string) (string, error) {
	if value, ok := c.recall(name); ok {
		return value, nil
	}
	return c.lookups.do(ctx, name, lookupTime, func(ctx context.Context) (string, error) {
		if value, ok := c.recall(name); ok {
			return value, nil // from a lookup that ended just before this one began
		}
		asked := c.clock()
		value, err := c.store.Secret(ctx, name)
		if err != nil {
			return "", err
		}
		if strings.TrimSpace(value) != "" {
			c.remember(name, answer{value, asked})
		}
		return value, nil
	})
}

func (c *cached) recall(name string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.known[name]
	return a.value, ok && c.fresh(a.asked)
}

// fresh reports whether an answer that was asked for at this time may be used. If the time is in the future, because the clock
// was set back, it may not.
func (c *cached) fresh(asked time.Time) bool {
	age := c.clock().Sub(asked)
	return age >= 0 && age < c.ttl
}

// remember stores an answer. Once in ttl it also removes all expired answers, so that secrets that are no longer used do not
// stay in memory.
func (c *cached) remember(name string, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.fresh(c.swept) {
		for known, old := range c.known {
			if !c.fresh(old.asked) {
				delete(c.known, known)
			}
		}
		c.swept = c.clock()
	}
	c.known[name] = a
}
