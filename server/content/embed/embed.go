// Package embed makes embeds of URLs that stand alone in the HTML of a community: [Resolver.Resolve] asks the provider
// of such a URL by oEmbed (https://oembed.com), and puts its HTML where the URL was. Everything that comes out is
// sanitised, what was there before as well.
//
// A URL stands alone when there is nothing else on its line but white space: the text of the URL, or a link to it with
// that very text. Lines are ended by <br>, by newlines and by the borders of blocks. They are looked for at the top
// level and in p, div, figure, section and article; not in headings, lists, tables, quotes and code. Embeds come in a
// div of their own, and a paragraph that goes on around one is split.
//
// What remains of HTML is what an editor writes: headings, paragraphs, lists, tables, quotes, code with its language
// (class="language-go"), images, and links to http, https, mailto and relative URLs, with rel="nofollow noopener". Frames
// remain when they show a known provider by https; each is in a sandbox. Scripts, event handlers, styles, forms, objects,
// SVG and MathML do not. A frame that is on the same origin as the page around it could leave its sandbox, so no page that
// shows embeds should be on a domain of a provider.
package embed

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Limits of the embeds of one document.
const (
	maxEmbeds    = 20 // places; further URLs stay what they are
	atOnce       = 8  // URLs of one document that are asked for at the same time
	documentTime = 4 * time.Second
	maxDocument  = 1 << 20 // bytes of HTML; of more only the text is shown
)

// Config configures a Resolver.
type Config struct {
	// Transport sends the requests to providers, whose addresses are in a list that others wrote: it has to refuse to
	// connect to inside addresses. It is required.
	Transport http.RoundTripper
	Clock     func() time.Time // of the cache; nil is time.Now
	Logger    *slog.Logger     // nil: logs are dropped
	Providers []byte           // a list in the format of https://oembed.com/providers.json; nil is the one that is built in
}

// Resolver resolves embeds. It is safe for concurrent use. What providers answer is kept in memory, as long as they say
// but between five minutes and a day; that one failed, for a minute.
type Resolver struct {
	providers *providers
	sanitizer *sanitizer
	client    *http.Client
	logger    *slog.Logger
	cache     *cache
	flights   singleflight.Group
	fetches   chan struct{} // has a place for each fetch
	documents chan struct{} // has a place for each document that is sanitised
}

// New makes a Resolver. An error says what is wrong with the configuration.
func New(c Config) (*Resolver, error) {
	if c.Transport == nil {
		return nil, errors.New("embed: there is no transport; give one that refuses inside addresses")
	}
	if c.Clock == nil {
		c.Clock = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Providers == nil {
		c.Providers = published
	}
	list, err := parseProviders(c.Providers)
	if err != nil {
		return nil, err
	}
	return &Resolver{
		providers: list,
		sanitizer: newSanitizer(list),
		client:    &http.Client{Transport: c.Transport, CheckRedirect: list.checkRedirect},
		logger:    c.Logger,
		cache:     newCache(cacheEntries, cacheBytes, c.Clock),
		fetches:   make(chan struct{}, maxFetches),
		documents: make(chan struct{}, maxDocuments),
	}, nil
}

// Resolve returns the document, a fragment of HTML, with embeds in place of URLs, sanitised. It does not fail: where a
// provider does not answer in time, or with nothing that can be shown, the URL stays. It waits four seconds for providers at
// most. Of a document that is too large, or takes too long to be sanitised, it gives the text.
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
	for _, p := range found {
		if embed := embeds[p.url]; embed != "" {
			changed = p.replace(embed) || changed
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

// clean sanitises HTML, some at once: the others wait for as long as it may take. What could not be is not tried again for
// a while, so that one document does not keep the others waiting.
func (r *Resolver) clean(ctx context.Context, source string) (cleaned string, ok bool) {
	key := fmt.Sprintf("document %x", sha256.Sum256([]byte(source)))
	if _, failed := r.cache.get(key); failed {
		return "", false
	}
	limited, cancel := context.WithTimeout(ctx, cleanTime)
	defer cancel()
	select {
	case r.documents <- struct{}{}:
		defer func() { <-r.documents }()
	case <-limited.Done():
		return "", false
	}
	if cleaned, ok = r.sanitizer.clean(limited, source); !ok && ctx.Err() == nil {
		r.cache.put(key, "", failureAge)
	}
	return cleaned, ok
}

// embeds returns the HTML of each URL that has one, as far as it is there in time.
func (r *Resolver) embeds(ctx context.Context, found []place) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, documentTime)
	defer cancel()
	todo := make(chan place, len(found))
	embeds := map[string]string{}
	for _, p := range found {
		if _, known := embeds[p.url]; !known {
			embeds[p.url] = ""
			todo <- p
		}
	}
	close(todo)
	var mu sync.Mutex
	var all sync.WaitGroup
	for range min(atOnce, len(embeds)) {
		all.Go(func() {
			for p := range todo {
				embed := r.embed(ctx, p)
				mu.Lock()
				embeds[p.url] = embed
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return embeds
}

// embed returns the HTML of one URL, or "". All who want it at the same time share one fetch, which goes on when they
// do not wait for it any longer.
func (r *Resolver) embed(ctx context.Context, p place) string {
	if embed, ok := r.cache.get(p.url); ok {
		return embed
	}
	if ctx.Err() != nil {
		return ""
	}
	shared := r.flights.DoChan(p.url, func() (any, error) {
		if embed, ok := r.cache.get(p.url); ok { // of a fetch that ended just now
			return embed, nil
		}
		return r.fetch(context.WithoutCancel(ctx), p), nil
	})
	select {
	case result := <-shared:
		embed, _ := result.Val.(string)
		return embed
	case <-ctx.Done():
		return ""
	}
}
