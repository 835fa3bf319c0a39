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
	// lookupTime is the most that one lookup may take; whoever waits for it may give up earlier.
	lookupTime = 30 * time.Second
)

// Cached remembers what a store has answered for ttl, 1 s to 60 s, counted from when it was asked; so a rotated secret
// is seen after ttl at the latest, or after the store's own time to answer when that is longer. Those who want one name
// at the same time ask the store once, and share its answer. Errors are not remembered, nor are blank values, which a
// file has while it is written: after one, the next caller asks again, and no older answer counts. The store must have
// the same answer for everyone.
//
// A nil clock is [time.Now].
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
	swept time.Time // when old answers were last forgotten
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
			return value, nil // of a lookup that ended just before this one began
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

// fresh reports whether an answer asked for at this time still counts. One in the future, after the clock was set back,
// does not.
func (c *cached) fresh(asked time.Time) bool {
	age := c.clock().Sub(asked)
	return age >= 0 && age < c.ttl
}

// remember notes an answer. Once in ttl it also forgets those that are too old, so that secrets which nobody asks for any
// more do not stay.
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
