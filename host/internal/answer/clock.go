package answer

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Offset is the time that the clocks of an API and of its token endpoint are ahead of the host's. Where they differ, it is that of
// the one that refused a request last. It is safe for concurrent use.
type Offset struct{ seconds atomic.Int64 }

// Seconds returns the offset in seconds.
func (o *Offset) Seconds() int64 { return o.seconds.Load() }

// Learn sets the offset by the Date of an answer that refused a request with 400, 401 or 403. An offset of a few
// seconds is that of the network, and counts as none. An offset beyond maxOffset is not believed, and one that differs by a few
// seconds is the same. The Date of an answer with Age is that of a cache (RFC 9111 section 5.1).
func (o *Offset) Learn(status int, header http.Header, now time.Time) {
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
	default:
		return
	}
	if offset, ok := OffsetOf(header, now); ok && -maxOffset <= offset && offset <= maxOffset && !near(offset, o.seconds.Load()) {
		o.seconds.Store(offset)
	}
}

// OffsetOf returns the seconds by which the clock of a server is ahead of now, by the header of an answer, and reports whether the
// header says so. A few seconds count as 0.
func OffsetOf(header http.Header, now time.Time) (seconds int64, ok bool) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil || header.Get("Age") != "" {
		return 0, false
	}
	if seconds = int64(date.Sub(now) / time.Second); near(seconds, 0) {
		seconds = 0
	}
	return seconds, true
}

// near reports whether two offsets count as the same one.
func near(a, b int64) bool { return a-b < leastOffset && b-a < leastOffset }

const (
	// leastOffset is the least offset that counts, in seconds.
	leastOffset = 10
	// maxOffset is the greatest offset, in seconds. A clock that is set in another time zone is off by less. An API that could
	// set it by years would get signatures that are valid long after their key has been replaced.
	maxOffset = 24 * 60 * 60
)

// RetryAfter returns the wait that Retry-After asks for (RFC 9110 section 10.2.3), in seconds or as a date. It returns
// 0 if there is no valid one, or if the date is past.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err == nil || errors.Is(err, strconv.ErrRange) { // seconds is 2³¹-1 for a number out of range
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(0, date.Sub(now))
	}
	return 0
}
