// Package discovery reads the metadata of authorization servers (RFC 8414, OpenID Connect Discovery 1.0), and remembers it.
//
// Who answers for an issuer decides where credentials go. So the document comes from the issuer's own origin, over a connection
// that verifies its certificate, without redirects, and must name the very issuer that was asked for.
package discovery

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"sync"
	"time"

	"github.com/keywright/keywright/host/internal/fairlru"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/view"
	"github.com/keywright/keywright/internal/answers"
)

const (
	fresh        = time.Hour       // the time for which a document counts before it is read again
	lacking      = 5 * time.Minute // that time if the endpoint is missing or cannot be used: somebody may be mending it
	maxDocuments = 1000            // the number of documents that are remembered
)

// Key names a document.
type Key struct {
	// Issuer is the issuer identifier.
	Issuer string
	// Trust is a digest of the certificates that verified the issuer, and of those that it was shown, and of how it is reached. Who
	// trusts another authority gets another document.
	Trust [32]byte
}

// Asker reads a document for one who needs it.
type Asker struct {
	// Client sends the requests. It must not follow redirects.
	Client *http.Client
	// UserAgent is the User-Agent of requests.
	UserAgent string
	// Time limits the reading of a document, and Bytes the size of one.
	Time  time.Duration
	Bytes int
	// Codings are the content codings of documents that are undone, beside those of package answers.
	Codings map[string]answers.Coding
	// Mutual reports whether Client presents a certificate. Then the endpoints of mtls_endpoint_aliases count (RFC 8705
	// section 5). The Trust of a Key depends on it.
	Mutual bool
	// HTTP reports whether an endpoint may be of plain http.
	HTTP func(*url.URL) bool
	// AcquireSlot waits for the right to send requests, and returns a function that ends it.
	AcquireSlot func(context.Context) (free func(), err error)
	// Go runs a task on a goroutine of its own, or returns why it does not.
	Go func(task func()) error
	// Changed is called when an issuer begins to fail, with the error, and when its document names other endpoints or can be
	// read again, with nil. text says which, and what that means.
	Changed func(ctx context.Context, issuer, text string, err error)
}

// Cache remembers documents. It is safe for concurrent use.
type Cache struct {
	clock  func() time.Time
	random io.Reader

	mu        sync.Mutex
	documents *fairlru.Cache[Key, *document]
}

// document has the last metadata of an issuer, and the state of reading it. The mutex of the cache is for its fields.
type document struct {
	// last is the last good document, read at readAt, or nil.
	last   *metadata
	readAt time.Time
	// failure is the error of the last reading, if that failed, and failures is the number of failures in a row. Until waits has
	// passed since failedAt, nobody asks again.
	failure  *view.DiscoveryError
	failures int
	failedAt time.Time
	waits    time.Duration
	// reading is not nil while somebody reads the document.
	reading *reading
}

// reading is the reading of a document. last and failure are its outcome, once done is closed.
type reading struct {
	done    chan struct{}
	last    *metadata
	failure *view.DiscoveryError
}

// New returns an empty cache. random is for the jitter of waits.
func New(clock func() time.Time, random io.Reader) *Cache {
	return &Cache{clock: clock, random: random, documents: fairlru.New[Key, *document](maxDocuments)}
}

// Known returns an endpoint if nothing has to be read for it.
func (c *Cache) Known(key Key, member string) (endpoint string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	d, ok := c.documents.Get("", key)
	if !ok {
		return "", false
	}
	endpoint, due, failure := d.endpoint(key, member, c.clock())
	return endpoint, !due && failure == nil
}

// Find returns an endpoint from the metadata of an issuer. One caller at a time reads a document, and not for longer than its Asker allows,
// whether or not that caller goes away. The others wait for it. A document that is an hour old is read again, but the endpoint is returned
// at once: if the issuer fails, its last document counts. After a failure, the issuer is asked again after a time that grows with each.
//
// An error is a *view.DiscoveryError, or that of Asker.Go. It wraps the error of ctx if that has ended.
func (c *Cache) Find(ctx context.Context, key Key, member string, a *Asker) (string, error) {
	c.mu.Lock()
	d, ok := c.documents.Get("", key)
	if !ok {
		d = &document{}
		c.documents.Add("", key, d, 1)
	}
	endpoint, due, failure := d.endpoint(key, member, c.clock())
	read := d.reading
	if due && read == nil {
		var err error
		if read, err = c.begin(ctx, key, d, a); err != nil && endpoint == "" {
			c.mu.Unlock()
			return "", err
		}
	}
	c.mu.Unlock()
	switch {
	case endpoint != "":
		return endpoint, nil
	case !due:
		return "", failure
	}
	select {
	case <-read.done:
	case <-ctx.Done():
		return "", &view.DiscoveryError{Issuer: key.Issuer, Problem: "gave up waiting for it", Retryable: true, Err: context.Cause(ctx)}
	}
	if read.failure != nil {
		failure := *read.failure // the caller's own
		return "", &failure
	}
	return read.last.endpoint(key.Issuer, member)
}

// endpoint returns the URL of an endpoint, or why there is none. due reports whether it is time to read the document.
func (d *document) endpoint(key Key, member string, now time.Time) (endpoint string, due bool, failure error) {
	waits := tokencache.WithinPeriod(d.failedAt, now, d.waits)
	if d.last == nil {
		if waits {
			e := *d.failure
			e.RetryAfter = d.waits - now.Sub(d.failedAt)
			return "", false, &e
		}
		return "", true, nil
	}
	endpoint, failure = d.last.endpoint(key.Issuer, member)
	age := fresh
	if failure != nil {
		age = lacking
	}
	return endpoint, !waits && !tokencache.WithinPeriod(d.readAt, now, age), failure
}

// begin begins to read a document. The caller holds the mutex.
func (c *Cache) begin(ctx context.Context, key Key, d *document, a *Asker) (*reading, error) {
	read := &reading{done: make(chan struct{})}
	ctx = context.WithoutCancel(ctx)
	err := a.Go(func() {
		bounded, cancel := context.WithTimeout(ctx, a.Time)
		defer cancel()
		free, err := a.AcquireSlot(bounded)
		if err != nil { // the issuer was not asked, so nothing is known of it
			c.mu.Lock()
			d.reading, read.failure = nil, &view.DiscoveryError{Issuer: key.Issuer, Problem: "it was not read", Retryable: true, Err: err}
			c.mu.Unlock()
			close(read.done)
			return
		}
		found, failure := a.read(bounded, key.Issuer)
		free()
		c.end(ctx, key, d, read, a, found, failure)
	})
	if err != nil {
		return nil, err
	}
	d.reading = read
	return read, nil
}

// end keeps the outcome of a reading, and reports what has changed.
func (c *Cache) end(ctx context.Context, key Key, d *document, read *reading, a *Asker, found *metadata, failure *view.DiscoveryError) {
	jitter, _ := tokencache.Jitter(c.random) // a wait without jitter is better than none
	c.mu.Lock()
	previous, failed := d.last, d.failure != nil
	now := c.clock()
	if failure != nil {
		d.failures++
		d.failedAt, d.waits = now, tokencache.Wait(d.failures, 0, jitter)
		failure.RetryAfter = d.waits
		d.failure = failure
	} else {
		d.failure, d.failures, d.waits = nil, 0, 0
		d.last, d.readAt = found, now
	}
	read.last, read.failure = found, failure
	d.reading = nil
	c.mu.Unlock()
	switch {
	case failure != nil && !failed && previous != nil:
		a.Changed(ctx, key.Issuer, "the metadata of an issuer cannot be read: the endpoints that it named before stay in use", failure)
	case failure != nil && !failed:
		a.Changed(ctx, key.Issuer, "the metadata of an issuer cannot be read", failure)
	case failure == nil && failed:
		a.Changed(ctx, key.Issuer, "the metadata of an issuer can be read again", nil)
	}
	if failure == nil && previous != nil && !reflect.DeepEqual(found, previous) {
		a.Changed(ctx, key.Issuer, "the metadata of an issuer names other endpoints than before", nil)
	}
	close(read.done)
}
