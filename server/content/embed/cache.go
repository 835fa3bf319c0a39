package embed

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Limits of the cache. cacheBytes counts URLs and HTML.
const (
	cacheEntries = 10_000
	cacheBytes   = 32 << 20
)

// cache is an LRU cache of embeds by URL. It keeps "" for URLs and documents that failed. It adds to simplelru an expiry
// with a replaceable clock and a limit in bytes. It is safe for concurrent use.
type cache struct {
	clock func() time.Time
	// limit is the maximum of bytes.
	limit int

	mu      sync.Mutex
	entries *simplelru.LRU[string, entry]
	bytes   int
}

type entry struct {
	embed          string
	since, expires time.Time
}

func newCache(entries, bytes int, clock func() time.Time) *cache {
	c := &cache{clock: clock, limit: bytes}
	c.entries, _ = simplelru.NewLRU(entries, func(url string, e entry) { c.bytes -= len(url) + len(e.embed) }) // it fails only if entries is not positive
	return c
}

func (c *cache) get(url string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries.Get(url)
	if !ok {
		return "", false
	}
	if now := c.clock(); now.Before(e.since) || !now.Before(e.expires) { // an entry from the future means that the clock was set back
		c.entries.Remove(url)
		return "", false
	}
	return e.embed, true
}

func (c *cache) put(url, embed string, age time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.entries.Remove(url)
	now := c.clock()
	c.entries.Add(url, entry{embed, now, now.Add(age)})
	c.bytes += len(url) + len(embed)
	for c.bytes > c.limit {
		c.entries.RemoveOldest()
	}
}
