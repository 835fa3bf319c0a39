package identity

import (
	"bytes"
	"context"
	"crypto/sha256"
	"log/slog"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

// refreshPolicy configures how often keys are read again.
type refreshPolicy struct {
	// maxAge is the age of the keys from which a caller starts a refresh.
	maxAge time.Duration
	// blockAfter is the age of the keys from which callers wait for the refresh. Until then they use the current keys.
	blockAfter time.Duration
	// minInterval is the least time between two attempts.
	minInterval time.Duration
	// initialInterval replaces minInterval while there are no usable keys.
	initialInterval time.Duration
}

var (
	urlRefresh  = refreshPolicy{maxAge: 5 * time.Minute, blockAfter: 10 * time.Minute, minInterval: 10 * time.Second, initialInterval: time.Second}
	fileRefresh = refreshPolicy{maxAge: time.Second, blockAfter: time.Second, minInterval: time.Second, initialInterval: time.Second}
)

// keepKeys limits the use of keys after they were last read. Without it, an attacker who cuts off the issuer could use a revoked key forever.
const keepKeys = 24 * time.Hour

// keyCache holds the keys. It reads them again when they are old, or when no key fits a token. There is one attempt at a
// time. It runs on its own goroutine, so that it does not end with the request of the caller that started it.
type keyCache struct {
	refreshPolicy
	admits
	read  func(context.Context) ([]byte, error)
	clock func() time.Time
	log   *slog.Logger

	// base is the parent context of all attempts. cancel ends it.
	base    context.Context
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu sync.Mutex
	// set is the last good key set, and document the text that it was read from.
	set      *keySet
	document []byte
	// since is the time at which set was last read.
	since time.Time
	// lastAttempt is the time of the last attempt, and err its error.
	lastAttempt time.Time
	err         error
	// attempt is closed at the end of the running attempt. It is nil if none is running.
	attempt chan struct{}
	closed  bool
	// lastForced is the time of the last attempt that was started because of a token with an unknown key.
	lastForced time.Time
	// unknown holds the keys that were looked for in the current set and not found.
	unknown *lru.Cache[keyRef, bool]
}

// keyRef is a digest of the algorithm and the key ID of a token: a key ID may be long.
type keyRef [sha256.Size]byte

// maxUnknown limits keyCache.unknown, because callers can make up any number of key IDs.
const maxUnknown = 1000

func (c *keyCache) close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.running.Wait()
}

// current returns the keys to use now, or an error that is [ErrUnavailable].
func (c *keyCache) current(ctx context.Context) (*keySet, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set, age := c.usable()
	if set == nil || age >= c.maxAge {
		attempt := c.start(false)
		// No request waits for an endpoint that is down.
		if attempt != nil && (set == nil || age >= c.blockAfter && c.err == nil) {
			if err := c.wait(ctx, attempt); err != nil {
				return nil, err
			}
			set, _ = c.usable()
		}
	}
	switch {
	case set != nil:
		return set, nil
	case c.err != nil:
		return nil, unavailable("the keys cannot be had: "+c.err.Error(), nil)
	}
	return nil, unavailable("there are no keys yet", nil)
}

// newer returns the keys that replaced old, of which none fits t, or old itself if there are no newer ones. It reads the
// keys at once, but because of tokens only once per minInterval, since callers can make up any number of key IDs. received is
// the time at which the token came.
//
// The error is [ErrUnavailable] if the key of t may exist: the keys cannot be read, or it is too early to read them again and this key has
// not been looked for yet. A key that was looked for and not found does not exist, so a session of a removed key is refused at once.
func (c *keyCache) newer(ctx context.Context, old *keySet, t *token, received time.Time) (*keySet, error) {
	ref := keyRef(sha256.Sum256([]byte(t.algorithm + "\x00" + t.keyID)))
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set == old && (c.since.Before(received) || c.since.After(c.clock())) { // the keys were not read since the token came
		if attempt := c.start(true); attempt != nil {
			if err := c.wait(ctx, attempt); err != nil {
				return old, err
			}
		} else if c.err == nil && !c.unknown.Contains(ref) {
			return old, unavailable("the token names a key that is not known, and the keys were read just now for another one", nil)
		}
	}
	if c.set == old && c.err != nil {
		return old, unavailable("the token names a key that is not known, and there is no newer list of keys", nil)
	}
	if c.set.find(t.algorithm, t.keyID) == nil {
		c.unknown.Add(ref, true)
	}
	return c.set, nil
}

// usable returns the keys and their age, or nil if there are none or they are too old. The caller holds c.mu.
func (c *keyCache) usable() (*keySet, time.Duration) {
	if c.set == nil {
		return nil, 0
	}
	age := c.clock().Sub(c.since)
	if age < 0 {
		return c.set, c.maxAge // the clock was set back, so the age is unknown
	}
	if age >= keepKeys {
		return nil, age
	}
	return c.set, age
}

// start starts an attempt, and returns it, or the one that is running. It returns nil if it is too early for another attempt:
// so the number of attempts does not depend on the number of requests or on the keys that they name. The caller holds c.mu.
//
// An attempt is forced if it is for a token with an unknown key. It may follow another one at once, so that a new key is found,
// and only the forced ones are limited. If the last attempt failed, minInterval applies to it too, so that tokens do not
// increase the load of a failing endpoint.
func (c *keyCache) start(forced bool) chan struct{} {
	if c.attempt != nil || c.closed {
		return c.attempt
	}
	now, pause := c.clock(), c.minInterval
	if set, _ := c.usable(); set == nil && !forced {
		pause = c.initialInterval
	}
	early := tooEarly(c.lastAttempt, now, pause)
	if forced {
		early = tooEarly(c.lastForced, now, pause) || early && c.err != nil
	}
	if early {
		return nil
	}
	if forced {
		c.lastForced = now
	}
	c.lastAttempt = now
	c.attempt = make(chan struct{})
	c.running.Go(c.refresh)
	return c.attempt
}

// tooEarly reports whether less than pause has passed since last. It is false for the zero time.
func tooEarly(last, now time.Time, pause time.Duration) bool {
	since := now.Sub(last)
	return !last.IsZero() && 0 <= since && since < pause
}

// wait waits until attempt or ctx ends, for which it returns [ErrUnavailable]. The caller holds c.mu, which is unlocked meanwhile.
func (c *keyCache) wait(ctx context.Context, attempt chan struct{}) error {
	c.mu.Unlock()
	defer c.mu.Lock()
	select {
	case <-attempt:
		return nil
	case <-ctx.Done():
		return unavailable("the request ended while it waited for the keys", ctx.Err())
	}
}

func (c *keyCache) refresh() {
	ctx, cancel := context.WithTimeout(c.base, 5*time.Second)
	defer cancel()
	document, err := c.read(ctx)
	same := c.set != nil && bytes.Equal(document, c.document) // only attempts change both
	var set *keySet
	if err == nil && !same {
		set, err = parseKeys(document, c.admits)
	}

	c.mu.Lock()
	prevErr := c.err
	c.err = err
	if err == nil {
		c.since = c.clock()
		if !same {
			set.age(c.set, c.since)
			c.set, c.document = set, document
			c.unknown.Purge()
		}
	}
	have, closed := c.set, c.closed
	c.mu.Unlock()
	if !closed {
		c.report(prevErr, err, have, !same)
	}

	c.mu.Lock() // only now, so that the reports of two attempts are in their order
	defer c.mu.Unlock()
	close(c.attempt)
	c.attempt = nil
}

// report logs an attempt if it has a new error, if it follows a failed one, or if the keys changed.
func (c *keyCache) report(prevErr, now error, set *keySet, changed bool) {
	switch {
	case now != nil && (prevErr == nil || prevErr.Error() != now.Error()):
		what := "the keys of tokens cannot be read: there are none, and requests are refused"
		if set != nil {
			what = "the keys of tokens cannot be read: the last good ones are used"
		}
		c.log.LogAttrs(c.base, slog.LevelWarn, what, slog.Any("error", now))
	case now == nil && (changed || prevErr != nil):
		c.log.LogAttrs(c.base, slog.LevelInfo, "the keys of tokens were read", slog.Int("keys", len(set.keys)))
	}
	if now == nil && changed {
		for _, why := range set.ignored {
			c.log.LogAttrs(c.base, slog.LevelWarn, "a key of tokens is not used", slog.String("key", why))
		}
	}
}
