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

// question is a digest of all that the answer to the next token request depends on: what the guest had when it made it.
// That is the partition, the cache entries that it has read, and how many requests it has made before; not the request
// itself, since an assertion has another time in it each time.
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

// refused remembers an answer that says that the same request would be refused again. It logs the first one of a period.
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

// refuses reports whether an answer says that the request will not be accepted for now. What is of the moment, such as a
// server that is down, does not unless it says when to ask again: the next request tries.
func refuses(answer *TokenError, after time.Duration) bool {
	return after > 0 || answer.Status == http.StatusTooManyRequests || !answer.Passing()
}

// retryAfter reads Retry-After, RFC 9110 section 10.2.3: seconds, or a date. It returns 0 when there is none to obey.
func retryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	seconds, err := strconv.ParseUint(text, 10, 31)
	if err == nil || errors.Is(err, strconv.ErrRange) { // of which seconds is the largest number
		return time.Duration(seconds) * time.Second
	}
	if date, err := http.ParseTime(text); err == nil {
		return max(0, date.Sub(now))
	}
	return 0
}

// jitter returns a random number from 0 up to 1.
func (c *Call) jitter() float64 {
	var b [8]byte
	if _, err := io.ReadFull(c.plan.Random, b[:]); err != nil {
		c.end(StageToken, err)
	}
	return float64(binary.BigEndian.Uint64(b[:])>>11) / (1 << 53)
}
