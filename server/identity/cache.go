package identity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"
	"sync"
	"time"
)

// pace says how often keys are read again.
type pace struct {
	fresh time.Duration // so long after a success nobody reads again
	wait  time.Duration // after so long callers wait for newer keys, and until then they go on with what there is
	retry time.Duration // between two attempts
	first time.Duration // between two attempts while there are no keys
	limit time.Duration // of one attempt
}

var (
	urlPace  = pace{fresh: 5 * time.Minute, wait: 10 * time.Minute, retry: 10 * time.Second, first: time.Second, limit: 5 * time.Second}
	filePace = pace{fresh: time.Second, wait: time.Second, retry: time.Second, first: time.Second, limit: 5 * time.Second}
)

// keepKeys is how long keys are used after they were read the last time. It has an end, so that who can cut the gateway
// off from the issuer cannot have a revoked key count for ever.
const keepKeys = 24 * time.Hour

// keyCache has the keys, and reads them again: when they are old, or when a token comes that they do not fit. One attempt
// is made at a time, on a goroutine of its own, so that a caller that goes away takes it from nobody.
type keyCache struct {
	pace
	admits
	read  func(context.Context) ([]byte, error)
	clock func() time.Time
	log   *slog.Logger

	base    context.Context // of attempts
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu       sync.Mutex
	set      *keySet // the last good one
	document []byte  // that it was read from
	since    time.Time
	tried    time.Time
	err      error         // of the last attempt
	attempt  chan struct{} // closed when the one that is under way ends; nil when there is none
	closed   bool
	asked    time.Time       // when keys were last read because a token named one that was not there
	absent   map[wanted]bool // what was asked for since the keys are these, and is not among them
}

// wanted is a digest of what a token says of its key: its id may be long.
type wanted [sha256.Size]byte

func wants(t *token) wanted { return sha256.Sum256([]byte(t.algorithm + "\x00" + t.keyID)) }

// maxAbsent is how many keys are remembered as not there. Callers may make up any number. When it is reached, all are
// forgotten.
const maxAbsent = 1000

func (c *keyCache) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
}

// current returns the keys as they are to be used now, or an error of [ErrUnavailable].
func (c *keyCache) current(ctx context.Context) (*keySet, error) {
	c.mu.Lock()
	set, age := c.usable()
	var attempt chan struct{}
	if set == nil || age >= c.fresh {
		attempt = c.start()
	}
	wait := set == nil || (age >= c.wait && c.err == nil) // an endpoint that is down delays nobody
	c.mu.Unlock()
	if attempt == nil || !wait {
		return c.orUnavailable(set)
	}
	if err := ended(ctx, attempt); err != nil {
		return nil, err
	}
	c.mu.Lock()
	set, _ = c.usable()
	c.mu.Unlock()
	return c.orUnavailable(set)
}

// newer returns the keys that took the place of some that a token does not fit, or the same when there are no others. The
// keys are read for it at once, but only once within retry because of tokens: callers may make up as many as they like.
//
// The error is [ErrUnavailable] when there may be others: they cannot be had, or it is too early to ask again and nobody
// has asked for this one. A key that somebody has asked for in vain is not there, so an old session is refused at once.
func (c *keyCache) newer(ctx context.Context, than *keySet, t *token, came time.Time) (*keySet, error) {
	w := wants(t)
	c.mu.Lock()
	asked := c.set != than || !c.since.Before(came) && !c.since.After(c.clock()) // the keys were read since the token came
	var attempt chan struct{}
	if !asked {
		attempt = c.startFor()
	}
	asked = asked || c.absent[w]
	c.mu.Unlock()
	if attempt != nil {
		if err := ended(ctx, attempt); err != nil {
			return than, err
		}
		asked = true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.set == than && c.err != nil:
		return than, unavailable("the token names a key that is not known, and there is no newer list of keys", nil)
	case !asked:
		return than, unavailable("the token names a key that is not known, and the keys were read just now for another one", nil)
	}
	if c.set.find(t.algorithm, t.keyID) == nil {
		if len(c.absent) >= maxAbsent {
			c.absent = nil
		}
		if c.absent == nil {
			c.absent = map[wanted]bool{}
		}
		c.absent[w] = true
	}
	return c.set, nil
}

// usable returns the keys, unless there are none or they are too old, and their age. It needs the lock.
func (c *keyCache) usable() (*keySet, time.Duration) {
	if c.set == nil {
		return nil, 0
	}
	age := c.clock().Sub(c.since)
	if age < 0 {
		return c.set, c.fresh // the clock was set back: how old they are is not known
	}
	if age >= keepKeys {
		return nil, age
	}
	return c.set, age
}

func (c *keyCache) orUnavailable(set *keySet) (*keySet, error) {
	if set == nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		reason := "there are no keys yet"
		if c.err != nil {
			reason = "the keys cannot be had: " + c.err.Error()
		}
		return nil, unavailable(reason, nil)
	}
	return set, nil
}

// start begins an attempt, or gives the one that is under way, or nil when it is too early for another. So the number of
// attempts does not depend on how many requests come, or what keys they name. It needs the lock.
func (c *keyCache) start() chan struct{} {
	if c.attempt != nil || c.closed {
		return c.attempt
	}
	pause := c.retry
	if set, _ := c.usable(); set == nil {
		pause = c.first
	}
	now := c.clock()
	if tooEarly(c.tried, now, pause) {
		return nil
	}
	return c.begin(now)
}

// startFor is start because of a token. It does not matter when the keys were read last, so that a new key counts at
// once. Only the last time that they were read for a token does; and an endpoint that fails is not asked more often
// because of tokens. The caller holds the lock.
func (c *keyCache) startFor() chan struct{} {
	if c.attempt != nil || c.closed {
		return c.attempt
	}
	now := c.clock()
	if tooEarly(c.asked, now, c.retry) || c.err != nil && tooEarly(c.tried, now, c.retry) {
		return nil
	}
	c.asked = now
	return c.begin(now)
}

// tooEarly reports whether less than pause has passed since last, if ever.
func tooEarly(last, now time.Time, pause time.Duration) bool {
	since := now.Sub(last)
	return !last.IsZero() && 0 <= since && since < pause
}

// begin starts an attempt. The caller holds the lock.
func (c *keyCache) begin(now time.Time) chan struct{} {
	c.tried = now
	c.attempt = make(chan struct{})
	c.running.Go(c.refresh)
	return c.attempt
}

func (c *keyCache) refresh() {
	ctx, cancel := context.WithTimeout(c.base, c.limit)
	defer cancel()
	document, err := c.read(ctx)
	c.mu.Lock()
	same := c.set != nil && bytes.Equal(document, c.document)
	c.mu.Unlock()
	var set *keySet
	if err == nil && !same {
		set, err = parseKeys(document, c.admits)
	}

	c.mu.Lock()
	before := c.err
	c.err = err
	if err == nil {
		c.since = c.clock()
		if !same {
			c.set, c.document, c.absent = set, document, nil
		}
	}
	close(c.attempt)
	c.attempt = nil
	have, closed := c.set, c.closed
	c.mu.Unlock()
	if !closed {
		c.report(before, err, have, !same)
	}
}

// report logs what changed, not each attempt.
func (c *keyCache) report(before, now error, set *keySet, changed bool) {
	switch {
	case now != nil && (before == nil || before.Error() != now.Error()):
		what := "the keys of tokens cannot be read: there are none, and requests are refused"
		if set != nil {
			what = "the keys of tokens cannot be read: the last good ones are used"
		}
		c.log.LogAttrs(c.base, slog.LevelWarn, what, slog.Any("error", now))
	case now == nil && (changed || before != nil):
		c.log.LogAttrs(c.base, slog.LevelInfo, "the keys of tokens were read", slog.Int("keys", len(set.keys)))
	}
	if now == nil && changed {
		for _, why := range set.ignored {
			c.log.LogAttrs(c.base, slog.LevelWarn, "a key of tokens is not used", slog.String("key", why))
		}
	}
}

// ended waits for an attempt.
func ended(ctx context.Context, attempt chan struct{}) error {
	select {
	case <-attempt:
		return nil
	case <-ctx.Done():
		return unavailable("the request ended while it waited for the keys", ctx.Err())
	}
}
