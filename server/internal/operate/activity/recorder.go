// Package activity records what connectors have done lately: requests, failures by cause, and the state of the last minute. A
// process makes a [Report] of it, and the reports of all nodes make a [View].
package activity

import (
	"errors"
	"hash/maphash"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/serve/metrics"
)

// Config configures [New].
type Config struct {
	Clock func() time.Time
	// Node is the name of this machine, or "".
	Node string
	// Hash returns a keyed hash of a user or of a tenant. All nodes must have the same. The default has a seed of this process.
	Hash func(tenant, user string) uint64
	// Remembered is called for a refusal that was remembered, at most once a minute for each group, with the number of these since the last
	// call. It may be nil.
	Remembered func(f *Failure, count uint64)
}

// Recorder keeps in memory what the connectors have done lately: for each connector that was used, counts and times of the last
// minutes, and groups of failures; and the last failures of all. That takes about 3 KiB for each connector, 5 KiB more for each group,
// and up to 20 MiB for failures. It keeps no ID of a user, no path and no
// header. It is safe for concurrent use.
type Recorder struct {
	config     Config
	connectors metrics.Memo[string, *record]
	// failures has the last failures by their request ids.
	failures *lru.Cache[string, *Failure]
	// trouble is set when a connector begins to fail.
	trouble atomic.Bool

	mu sync.Mutex
	// queue has the failures that are to be stored, and shortQueue those without their ways.
	queue, shortQueue []*Failure
}

// New returns an empty Recorder.
func New(c Config) *Recorder {
	if c.Hash == nil {
		seed := maphash.MakeSeed()
		c.Hash = func(tenant, user string) uint64 { return maphash.Comparable(seed, [2]string{tenant, user}) }
	}
	failures, _ := lru.New[string, *Failure](maxFailures) // the only error is for sizes below one
	return &Recorder{config: c, failures: failures}
}

const (
	// Window is the number of minutes for which requests and failures are counted.
	Window = 15
	// parts is the number of parts of the last minute, and partSeconds the length of each.
	parts, partSeconds = 6, 10
	// spans is the number of times that the figures of latency cover, and spanMinutes their length. The oldest one is being replaced.
	spans, spanMinutes = 4, 5
)

// record holds what one connector has done.
type record struct {
	// expires is the end of the token that was used last, in nanoseconds of Unix time, or 0 if none was used.
	expires atomic.Int64
	// waitsUntil is the time until which a token endpoint or an issuer is not asked, in the same way.
	waitsUntil atomic.Int64
	// tokenRefused reports whether a token endpoint has refused a token since one was got.
	tokenRefused atomic.Bool

	mu      sync.Mutex
	parts   [parts]tally
	minutes [Window]tally
	latency [spans]span
	Health
	groups []*Group
	// waiting has the users who had to connect first.
	waiting Set
	// waited is the minute in which the last one had to.
	waited int64
}

// Health says since when a connector has failed, in milliseconds of Unix time. A time is 0 if there was none.
type Health struct {
	// Streak counts the failures since the last success, and Began is the first of these.
	Streak uint32 `json:"k,omitempty"`
	Began  int64  `json:"b,omitempty"`
	// Trouble is the first failure after the last good minute: a minute in which requests succeeded, and none failed. Failure is the last
	// failure.
	Trouble int64 `json:"t,omitempty"`
	Failure int64 `json:"f,omitempty"`
	// Repair is the first success after Failure, and Success the last success.
	Repair  int64 `json:"r,omitempty"`
	Success int64 `json:"s,omitempty"`
}

const (
	minuteMillis = 60_000
	// failingStreak is the number of failures in a row with which a connector is failing.
	failingStreak = 3
)

func (h *Health) failed(now int64) {
	if h.Failure == 0 || h.Repair != 0 && now-h.Failure >= minuteMillis {
		h.Trouble = now
	}
	if h.Streak == 0 {
		h.Began = now
	}
	h.Streak++
	h.Failure, h.Repair = now, 0
}

func (h *Health) succeeded(now int64) {
	h.Streak, h.Success = 0, now
	if h.Failure != 0 && h.Repair == 0 {
		h.Repair = now
	}
}

// Tally counts the requests of a time: all, those that failed, those of users who have not connected, and those for whose answer to begin
// the API took more than half of the timeout.
type Tally struct {
	Requests    uint32 `json:"requests"`
	Failed      uint32 `json:"failed"`
	Unconnected uint32 `json:"not_connected"`
	Slow        uint32 `json:"slow"`
}

func (t *Tally) add(o Tally) {
	t.Requests += o.Requests
	t.Failed += o.Failed
	t.Unconnected += o.Unconnected
	t.Slow += o.Slow
}

// tally is the Tally of a time with a number.
type tally struct {
	number int64
	Tally
}

// tallyOf returns the tally of a time in a ring.
func tallyOf(ring []tally, number int64) *Tally {
	t := &ring[number%int64(len(ring))]
	if t.number != number {
		*t = tally{number: number}
	}
	return &t.Tally
}

// span counts the requests of some minutes by their time.
type span struct {
	number  int64
	buckets [buckets]uint32
}

// buckets is the number of classes of times: four for each power of two of microseconds, from 64 µs to 67 s. Faster requests are in the
// first one, and slower ones in the last.
const buckets = 80

// bucket returns the class of a time.
func bucket(d time.Duration) int {
	n := uint64(max(0, d/time.Microsecond))
	power := bits.Len64(n) - 1
	if power < 6 {
		return 0
	}
	return min(4*(power-6)+int(n>>(power-2)&3), buckets-1)
}

// bound returns the time in the middle of a class.
func bound(bucket int) time.Duration {
	low := uint64(4+bucket%4) << (bucket / 4) * 16
	return time.Duration(low+low/8) * time.Microsecond
}

// leastSlow is a time that is never slow.
const leastSlow = 100 * time.Millisecond

// recordOf returns the record of a connector, and creates it if necessary.
func (r *Recorder) recordOf(connector string) *record {
	return r.connectors.Of(connector, func(string) *record { return &record{} })
}

// Forget removes what a connector has done.
func (r *Recorder) Forget(connector string) {
	r.connectors.Remove(func(name string) bool { return name == connector })
}

// Request records a request. It is called by Observe of [gateway.Config]. A successful request allocates nothing.
func (r *Recorder) Request(e *gateway.Event) {
	if e.Connector == "" {
		return
	}
	end := e.Began.Add(e.Total)
	stage, unconnected := e.FailedAt(), e.NotConnected()
	seconds := end.Unix()
	number := seconds / 60
	rec := r.recordOf(e.Connector)
	if stage != "" {
		r.failed(rec, e, stage, end)
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	t := Tally{Requests: 1}
	s := &rec.latency[number/spanMinutes%spans]
	if s.number != number/spanMinutes {
		*s = span{number: number / spanMinutes}
	}
	s.buckets[bucket(e.Total)]++
	if e.API > leastSlow && e.Served != nil && e.API > e.Served.Definition().Timeout/2 {
		t.Slow = 1
	}
	switch {
	case unconnected:
		t.Unconnected = 1
		if number-rec.waited >= Window {
			rec.waiting = Set{}
		}
		if rec.waited = number; e.User != "" {
			rec.waiting.add(r.config.Hash(e.Tenant, e.User))
		}
	case stage != "":
		t.Failed = 1
		if rec.failed(end.UnixMilli()); rec.Streak == failingStreak {
			r.trouble.Store(true)
		}
	case e.Problem == "":
		rec.succeeded(end.UnixMilli())
		if len(rec.waiting.Hashes) > 0 {
			rec.waiting.remove(r.config.Hash(e.Tenant, e.User))
		}
	}
	tallyOf(rec.parts[:], seconds/partSeconds).add(t)
	tallyOf(rec.minutes[:], number).add(t)
}

// failed records a failure in its group, and by its request id.
func (r *Recorder) failed(rec *record, e *gateway.Event, stage string, end time.Time) {
	f := failureOf(e, stage, end)
	f.Node = r.config.Node
	rec.mu.Lock()
	keepWay, remembered := rec.groupOf(f).add(r.config.Hash, f, e.User)
	rec.mu.Unlock()
	r.failures.Add(f.RequestID, f)
	r.enqueue(f, keepWay)
	if remembered > 0 && r.config.Remembered != nil {
		r.config.Remembered(f, remembered)
	}
}

// enqueue adds a failure to those that are to be stored.
func (r *Recorder) enqueue(f *Failure, keepWay bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case keepWay && len(r.queue) < maxFailures:
		r.queue = append(r.queue, f)
	case !keepWay && len(r.shortQueue) < maxShort:
		short := *f
		short.Way = nil
		r.shortQueue = append(r.shortQueue, &short)
	}
}

// Attempted records the token of an attempt, and the time until which the endpoint or the issuer that it asked is not asked again. It is
// called by Observe of [host.Config].
func (r *Recorder) Attempted(attempt *host.Attempt) {
	issued := attempt.Err == nil && attempt.Exchanges > 0
	if attempt.Expires.IsZero() && attempt.Err == nil && !issued { // as most attempts
		return
	}
	rec := r.recordOf(attempt.Connector)
	if !attempt.Expires.IsZero() && !attempt.Consent {
		if ends := attempt.Expires.UnixNano(); rec.expires.Load() != ends {
			rec.expires.Store(ends)
			rec.tokenRefused.Store(false)
		}
	}
	if issued {
		rec.waitsUntil.Store(0)
	}
	if attempt.Err != nil {
		rec.attemptFailed(attempt, r.config.Clock())
	}
}

func (r *record) attemptFailed(attempt *host.Attempt, now time.Time) {
	var wait time.Duration
	token, isToken := errors.AsType[*host.TokenError](attempt.Err)
	if isToken {
		wait = token.RetryAfter
	} else if metadata, ok := errors.AsType[*host.DiscoveryError](attempt.Err); ok {
		wait = metadata.RetryAfter
	}
	if wait <= 0 { // it is not known what was said, or it may be asked at any time
		return
	}
	if isToken && !attempt.Consent {
		r.tokenRefused.Store(true)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waitsUntil.Store(max(r.waitsUntil.Load(), now.Add(wait).UnixNano()))
}

// Troubled reports whether a connector has begun to fail since the last call.
func (r *Recorder) Troubled() bool { return r.trouble.Swap(false) }

// Backoffs returns the seconds for which a token endpoint that refused, or an issuer whose metadata cannot be read, is not asked yet, by
// connector. The requests of a connector may have several: it has the longest.
func (r *Recorder) Backoffs() map[string]float64 {
	now, backoffs := r.config.Clock().UnixNano(), map[string]float64{}
	for connector, rec := range r.connectors.All() {
		if wait := time.Duration(rec.waitsUntil.Load() - now); wait > 0 {
			backoffs[connector] = wait.Seconds()
		}
	}
	return backoffs
}

// Failing returns 1 for each connector that was used and whose requests to this process fail now ([StateFailing]), and 0 for the others.
func (r *Recorder) Failing() map[string]float64 {
	now := r.config.Clock()
	report := &Report{Time: now}
	for name, rec := range r.connectors.All() {
		rec.mu.Lock()
		report.Connectors = append(report.Connectors, rec.figures(name, now))
		rec.mu.Unlock()
	}
	all := map[string]float64{}
	for connector, s := range Merge([]*Report{report}, now).summaries {
		all[connector] = 0
		if s.State == StateFailing {
			all[connector] = 1
		}
	}
	return all
}
