package hostfn

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/keywright/keywright/host/internal/tokencache"
)

// question returns a digest of everything that the answer to the next token request depends on: the URL, the partition,
// the cache entries that the call has read, and the number of its token requests. The request itself is not included,
// because an assertion contains another time in each.
func (c *Call) question(target string) (key [32]byte) {
	partition := c.partition()
	known := partition[:]
	known = binary.BigEndian.AppendUint64(known, uint64(c.tokenRequests))
	known = binary.BigEndian.AppendUint64(known, uint64(len(c.used)))
	for _, entry := range c.used {
		known = binary.BigEndian.AppendUint64(known, entry.Generation)
	}
	return sha256.Sum256(append(known, target...))
}

// refused records answer in the cache's Refusals if the endpoint would refuse the same request again, and sets its
// RetryAfter. It logs the first refusal of a period.
func (c *Call) refused(question *tokencache.Question, answer *TokenError, header http.Header) {
	after := retryAfter(header, c.plan.Clock())
	if !refuses(answer, after) {
		return
	}
	refusal, first := question.Refused(tokencache.Refusal{Status: answer.Status, Code: answer.Code, Problem: answer.Problem}, after, c.jitter())
	answer.RetryAfter = refusal.Wait
	if first {
		c.plan.Refused(c.ctx, answer.Error())
	}
}

// refuses reports whether answer means that the endpoint will refuse the same request for a while. A temporary failure,
// such as of a server that is down, is no refusal unless it has a Retry-After: the next request tries again. 429 is
// always one.
func refuses(answer *TokenError, after time.Duration) bool {
	return after > 0 || answer.Status == http.StatusTooManyRequests || !answer.Passing()
}

// retryAfter returns the wait that Retry-After asks for (RFC 9110 section 10.2.3), in seconds or as a date. It returns
// 0 if there is no valid one, or if the date is past.
func retryAfter(header http.Header, now time.Time) time.Duration {
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

// jitter returns a random number in [0, 1).
func (c *Call) jitter() float64 {
	var b [8]byte
	if _, err := io.ReadFull(c.plan.Random, b[:]); err != nil {
		c.end(StageToken, err)
	}
	return float64(binary.BigEndian.Uint64(b[:])>>11) / (1 << 53)
}
