package console

import (
	"errors"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/serve/metrics"
)

// Recorder keeps in memory what the connectors have done lately: for each connector that was used, counts and times of the last
// minutes, and the last failures. That takes about 3 KiB for each connector, 20 KiB more for one with many failures, and up to 400 KiB
// for one with grants of many users. It keeps no ID of a user, no path and no header. It is safe for concurrent use.
type Recorder struct {
	clock      func() time.Time
	connectors metrics.Memo[string, *record]
}

// NewRecorder returns an empty Recorder.
func NewRecorder(clock func() time.Time) *Recorder { return &Recorder{clock: clock} }

const (
	// window is the number of minutes for which requests and failures are counted.
	window = 15
	// maxFailures is the number of failures of a connector that are kept.
	maxFailures = 50
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
	minutes [window + 1]minute
	latency [spans]span
	// failures has the last failures, the oldest first.
	failures []Failure
	// since counts the requests that succeeded after the last failure, and firstSuccess is the end of the first of them. Both are zero if
	// there are none, or no failure.
	since        uint64
	firstSuccess time.Time
	// users has the conditions of the grants of users.
	users users
}

type minute struct {
	// number is the minute in Unix time.
	number           int64
	requests, failed uint32
	// unconnected counts those of users who have not connected.
	unconnected uint32
	// stages counts failures by stage. It is nil if there are none.
	stages map[string]uint32
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
	stage := e.FailedAt()
	number := end.Unix() / 60
	rec := r.recordOf(e.Connector)
	rec.mu.Lock()
	defer rec.mu.Unlock()
	rec.users.met(e)
	m := &rec.minutes[number%int64(len(rec.minutes))]
	if m.number != number {
		*m = minute{number: number}
	}
	m.requests++
	s := &rec.latency[number/spanMinutes%spans]
	if s.number != number/spanMinutes {
		*s = span{number: number / spanMinutes}
	}
	s.buckets[bucket(e.Total)]++
	switch {
	case e.NotConnected():
		m.unconnected++
		return
	case stage == "" && e.Problem == "":
		if len(rec.failures) > 0 {
			if rec.since++; rec.since == 1 {
				rec.firstSuccess = end
			}
		}
		return
	case stage == "":
		return
	}
	rec.since, rec.firstSuccess = 0, time.Time{}
	m.failed++
	if m.stages == nil {
		m.stages = map[string]uint32{}
	}
	m.stages[stage]++
	rec.failures = append(rec.failures, failureOf(e, stage, end))
	if more := len(rec.failures) - maxFailures; more > 0 {
		rec.failures = slices.Delete(rec.failures, 0, more)
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
		rec.failed(attempt, r.clock())
	}
}

func (r *record) failed(attempt *host.Attempt, now time.Time) {
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

// Backoffs returns the seconds for which a token endpoint that refused, or an issuer whose metadata cannot be read, is not asked yet, by
// connector. The requests of a connector may have several: it has the longest.
func (r *Recorder) Backoffs() map[string]float64 {
	now, backoffs := r.clock().UnixNano(), map[string]float64{}
	for connector, rec := range r.connectors.All() {
		if wait := time.Duration(rec.waitsUntil.Load() - now); wait > 0 {
			backoffs[connector] = wait.Seconds()
		}
	}
	return backoffs
}

// summary holds the figures of a record at a time.
type summary struct {
	// Lately and Failed are the numbers of requests of the last minutes, and Stages the failures of these by stage, the most first.
	Lately, Failed uint64
	// Unconnected counts the requests of Lately whose users have not connected. They are none of Failed.
	Unconnected     uint64
	Stages          []stageCount
	Half, Most      time.Duration
	Expires, Closed time.Time
	// Last is the last failure, or nil. Since counts the requests that succeeded after it, and Again is the time of the first of them.
	Last  *Failure
	Since uint64
	Again time.Time
	// Minutes has the requests and failures of each of the last minutes, the oldest first.
	Minutes [window]minute
}

type stageCount struct {
	Stage string
	Count uint32
}

// summary returns what is known of a connector.
func (r *Recorder) summary(connector string, now time.Time) (s summary) {
	rec, ok := r.connectors.Find(connector)
	if !ok {
		return s
	}
	if ends := rec.expires.Load(); ends != 0 {
		s.Expires = time.Unix(0, ends)
	}
	if until := rec.waitsUntil.Load(); rec.tokenRefused.Load() && until > now.UnixNano() {
		s.Closed = time.Unix(0, until)
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	current := now.Unix() / 60
	for _, m := range rec.minutes {
		age := current - m.number
		if age < 0 || age >= window {
			continue
		}
		s.Lately += uint64(m.requests)
		s.Failed += uint64(m.failed)
		s.Unconnected += uint64(m.unconnected)
		s.Minutes[window-1-age] = minute{requests: m.requests, failed: m.failed}
		for stage, n := range m.stages {
			i := slices.IndexFunc(s.Stages, func(c stageCount) bool { return c.Stage == stage })
			if i < 0 {
				i, s.Stages = len(s.Stages), append(s.Stages, stageCount{Stage: stage})
			}
			s.Stages[i].Count += n
		}
	}
	slices.SortFunc(s.Stages, func(a, b stageCount) int { return int(b.Count) - int(a.Count) })
	s.Half, s.Most = rec.quantiles(current / spanMinutes)
	if n := len(rec.failures); n > 0 {
		s.Last, s.Since, s.Again = new(rec.failures[n-1]), rec.since, rec.firstSuccess
	}
	return s
}

// quantiles returns the time within which half of the requests of the last minutes were answered, and 99 % of them.
func (r *record) quantiles(current int64) (half, p99 time.Duration) {
	var all [buckets]uint64
	total := uint64(0)
	for i := range r.latency {
		if s := &r.latency[i]; current-s.number < spans {
			for b, n := range s.buckets {
				all[b] += uint64(n)
				total += uint64(n)
			}
		}
	}
	if total == 0 {
		return 0, 0
	}
	sum := uint64(0)
	for b, n := range all {
		sum += n
		if half == 0 && sum*2 >= total {
			half = bound(b)
		}
		if sum*100 >= total*99 {
			return half, bound(b)
		}
	}
	return half, p99
}

// failures returns the last failures of a connector, the newest first.
func (r *Recorder) failures(connector string) (all []Failure) {
	rec, ok := r.connectors.Find(connector)
	if !ok {
		return nil
	}
	rec.mu.Lock()
	defer rec.mu.Unlock()
	all = slices.Clone(rec.failures)
	slices.Reverse(all)
	return all
}
