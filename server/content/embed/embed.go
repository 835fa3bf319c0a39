// Package embed replaces URLs in the HTML of a community by embeds. [Resolver.Resolve] finds each URL that stands alone, asks its provider
// by oEmbed (https://oembed.com), and puts the provider's HTML in its place. It sanitises the embeds and the rest of the document.
//
// A URL stands alone if its line contains nothing else but white space: the text of the URL, or a link to it with
// exactly that text. A line ends at <br>, at a newline and at the border of a block. Resolve looks at the top level and
// in p, div, figure, section and article, but not in headings, lists, tables, quotes and code. It puts each embed in a
// div of its own. If the URL is inside a paragraph, it splits the paragraph.
//
// The sanitiser keeps what an editor writes: headings, paragraphs, lists, tables, quotes, code with its language (class="language-go"),
// images, and links to http, https, mailto and relative URLs, to which it adds rel="nofollow noopener". It keeps frames that show a known
// provider by https, each in a sandbox. It removes scripts, event handlers, styles, forms, objects, SVG and MathML. A frame of the same
// origin as its page could leave its sandbox, so pages with embeds should not be on a domain of a provider.
package embed

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"golang.org/x/sync/singleflight"
)

// Limits of one document.
const (
	maxEmbeds    = 20              // embeds; further URLs stay as they are
	atOnce       = 8               // concurrent requests for the URLs of the document
	documentTime = 4 * time.Second // for all requests
	maxDocument  = 1 << 20         // bytes of HTML; Resolve reduces a larger document to its text
)

// Config configures a Resolver.
type Config struct {
	// Transport sends the requests to providers. It is required. It must refuse to connect to internal addresses,
	// because the list of providers was written by others.
	Transport http.RoundTripper
	// Clock is the clock of the cache. If it is nil, time.Now is used.
	Clock func() time.Time
	// If Logger is nil, logs are dropped.
	Logger *slog.Logger
	// Providers has the format of https://oembed.com/providers.json. If it is nil, the built-in list is used.
	Providers []byte
}

// Resolver resolves embeds. It is safe for concurrent use. It caches a provider's answer in memory for the time that the
// provider states, but at least five minutes and at most a day, and a failure for a minute.
type Resolver struct {
	providers *providers
	sanitizer *sanitizer
	client    *http.Client
	logger    *slog.Logger
	cache     *cache
	flights   singleflight.Group
	// fetches limits requests to providers, and documents sanitising.
	fetches, documents *semaphore.Weighted
}

// New returns a Resolver. It returns an error if c.Transport is nil or c.Providers is malformed.
func New(c Config) (*Resolver, error) {
	if c.Transport == nil {
		return nil, errors.New("embed: there is no transport; give one that refuses inside addresses")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	if c.Providers == nil {
		c.Providers = published
	}
	list, err := parseProviders(c.Providers)
	if err != nil {
		return nil, err
	}
	return &Resolver{
		providers: list, sanitizer: newSanitizer(list), logger: c.Logger,
		client:  &http.Client{Transport: checkedTransport{c.Transport}, CheckRedirect: list.checkRedirect},
		cache:   newCache(10_000, 32<<20, c.Clock), // entries, and bytes of URLs and HTML
		fetches: semaphore.NewWeighted(maxFetches), documents: semaphore.NewWeighted(maxDocuments),
	}, nil
}

// Resolve returns the document, a fragment of HTML, sanitised and with embeds in place of URLs. It does not fail: if a
// provider's answer is late or cannot be shown, the URL stays. It waits at most four seconds for providers. If a
// document is larger than 1 MiB or cannot be sanitised in time, Resolve returns its text.
func (r *Resolver) Resolve(ctx context.Context, document string) string {
	if len(document) > maxDocument {
		return r.sanitizer.text(document)
	}
	cleaned, ok := r.clean(ctx, document)
	if !ok {
		return r.sanitizer.text(document)
	}
	if !strings.Contains(cleaned, "://") {
		return cleaned
	}
	root, err := parse(strings.NewReader(cleaned))
	if err != nil {
		return cleaned
	}
	found := r.find(root)
	embeds := r.embeds(ctx, found)
	changed := false
	for i, c := range found {
		if embeds[i] != "" {
			changed = c.replace(embeds[i]) || changed
		}
	}
	if !changed {
		return cleaned
	}
	if resolved, ok := r.clean(ctx, render(root)); ok {
		return resolved
	}
	return cleaned
}

// clean sanitises HTML. At most maxDocuments calls run at once; cleanTime limits the wait and the sanitising together. A
// document that could not be sanitised fails at once for the next minute, so that it does not delay others.
func (r *Resolver) clean(ctx context.Context, source string) (cleaned string, ok bool) {
	key := fmt.Sprintf("document %x", sha256.Sum256([]byte(source)))
	if _, failed := r.cache.get(key); failed {
		return "", false
	}
	limited, cancel := context.WithTimeout(ctx, cleanTime)
	defer cancel()
	if r.documents.Acquire(limited, 1) != nil {
		return "", false
	}
	defer r.documents.Release(1)
	if cleaned, ok = r.sanitizer.clean(limited, source); !ok && ctx.Err() == nil {
		r.cache.put(key, "", failureAge)
	}
	return cleaned, ok
}

// embeds returns the embed of each candidate. It is "" if there is none or it did not arrive within documentTime.
func (r *Resolver) embeds(ctx context.Context, found []candidate) []string {
	ctx, cancel := context.WithTimeout(ctx, documentTime)
	defer cancel()
	embeds := make([]string, len(found))
	var all errgroup.Group
	all.SetLimit(atOnce)
	for i, c := range found {
		all.Go(func() error {
			embeds[i] = r.embed(ctx, c)
			return nil
		})
	}
	_ = all.Wait()
	return embeds
}

// embed returns the embed of a URL, or "". Concurrent calls for it share one fetch, which outlives their contexts.
func (r *Resolver) embed(ctx context.Context, c candidate) string {
	if embed, ok := r.cache.get(c.url); ok {
		return embed
	}
	if ctx.Err() != nil {
		return ""
	}
	shared := r.flights.DoChan(c.url, func() (any, error) {
		if embed, ok := r.cache.get(c.url); ok { // another fetch has just ended
			return embed, nil
		}
		return r.fetch(context.WithoutCancel(ctx), c), nil
	})
	select {
	case result := <-shared:
		embed, _ := result.Val.(string)
		return embed
	case <-ctx.Done():
		return ""
	}
}

// cache is an LRU cache of embeds by URL. It keeps "" for URLs and documents that failed. It adds to simplelru an expiry
// with a replaceable clock and a limit in bytes. It is safe for concurrent use.
type cache struct {
	clock func() time.Time
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
