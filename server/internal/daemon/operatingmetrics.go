package daemon

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/keywright/keywright/host"
)

// backoffs has the times until which token endpoints that refused, and issuers whose metadata cannot be read, are not asked, by
// connector. The requests of a connector may have several: it has the latest.
type backoffs struct {
	clock func() time.Time

	mu    sync.Mutex
	until map[string]time.Time
}

// newBackoffs returns backoffs with a clock, which may be nil.
func newBackoffs(clock func() time.Time) *backoffs {
	if clock == nil {
		clock = time.Now
	}
	return &backoffs{clock: clock, until: map[string]time.Time{}}
}

// attempted notes the outcome of an attempt.
func (b *backoffs) attempted(attempt host.Attempt) {
	if attempt.Err == nil && (attempt.Exchanges == 0 || attempt.Reused) {
		return // as most attempts: nothing was asked
	}
	var token *host.TokenError
	var discovery *host.DiscoveryError
	var wait time.Duration
	switch {
	case errors.As(attempt.Err, &token):
		wait = token.RetryAfter
	case errors.As(attempt.Err, &discovery):
		wait = discovery.RetryAfter
	case attempt.Err != nil:
		return // it is not known what was said
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.clock()
	switch until := now.Add(wait); {
	case attempt.Err == nil:
		delete(b.until, attempt.Connector)
	case wait > 0 && until.After(b.until[attempt.Connector]):
		b.until[attempt.Connector] = until
	}
}

// forget removes a connector.
func (b *backoffs) forget(connector string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.until, connector)
}

// seconds returns the seconds for which nothing is asked yet, by connector.
func (b *backoffs) seconds() map[string]float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	now, left := b.clock(), map[string]float64{}
	maps.DeleteFunc(b.until, func(_ string, until time.Time) bool { return !until.After(now) })
	for connector, until := range b.until {
		left[connector] = until.Sub(now).Seconds()
	}
	return left
}

// sessionKeys returns what value returns of the keys of sessions, by issuer. It is empty without such keys.
func (d *daemon) sessionKeys(value func(read time.Time, err error) (v float64, ok bool)) map[string]float64 {
	all := map[string]float64{}
	set := d.current()
	if set == nil || set.sessions == nil || set.Settings.User.JWT == nil {
		return all
	}
	keys := set.sessions.Keys()
	if v, ok := value(keys.Read, keys.Err); ok {
		all[set.Settings.User.JWT.Issuer] = v
	}
	return all
}

// keysAvailable returns 1, or 0 if the keys could not be read the last time.
func (d *daemon) keysAvailable() map[string]float64 {
	return d.sessionKeys(func(_ time.Time, err error) (float64, bool) {
		if err != nil {
			return 0, true
		}
		return 1, true
	})
}

// keysRead returns the time at which the keys were last read, in Unix time. There is none before the first time.
func (d *daemon) keysRead() map[string]float64 {
	return d.sessionKeys(func(read time.Time, _ error) (float64, bool) { return float64(read.Unix()), !read.IsZero() })
}
