package hostfn

import (
	"crypto/sha256"
	"encoding/binary"
	"net/http"
	"time"

	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/internal/tokens"
	"github.com/keywright/keywright/internal/printable"
)

// question returns a digest of everything that the answer to the next token request depends on: its place, the partition,
// the cache entries that the call has read, by a number of each, and the number of its token requests. The request itself is
// not included, because an assertion contains another time in each. In a run of connect, the code is included, and in one of
// disconnect the grant: each is asked about once.
func (c *exchanging) question(number func(*tokencache.Handle) uint64) (key [32]byte) {
	partition := c.partition()
	b := partition[:]
	b = binary.BigEndian.AppendUint64(b, uint64(c.tokenRequests))
	b = binary.BigEndian.AppendUint64(b, uint64(len(c.Used)))
	for _, entry := range c.Used {
		b = binary.BigEndian.AppendUint64(b, number(entry))
	}
	if c.offset != nil && *c.offset != 0 { // what was signed for another time is another request
		b = binary.BigEndian.AppendUint64(b, uint64(*c.offset))
	}
	if code := c.inputs.Code; code != nil { // the next consent has another
		b = append(b, code.Code...)
	}
	b = append(b, c.ends...)
	return sha256.Sum256(append(b, c.place...))
}

// recordRefusal records e, for all nodes that ask the same, if the endpoint would refuse the same request again, and sets its
// RetryAfter. It logs the first refusal of a period, with the endpoint's host, in which a secret may be.
func (c *exchanging) recordRefusal(question *tokens.Question, e *TokenError, header http.Header, host string) {
	offset, _ := answer.OffsetOf(header, c.plan.Clock())
	e.Offset = time.Duration(offset) * time.Second
	c.plan.Offset.Learn(e.Status, header, c.plan.Clock())
	retryAfter := answer.RetryAfter(header, c.plan.Clock())
	if !refuses(e, retryAfter) {
		return
	}
	refusal := tokencache.Refusal{Status: e.Status, Code: e.Code, Problem: e.Problem, Offset: e.Offset}
	refusal, first := question.Refuse(c.ctx, refusal, retryAfter, c.jitter())
	e.RetryAfter = refusal.Wait
	if first {
		c.plan.Refused(c.ctx, c.Scrub(printable.Text(host, 256)), e.Error())
	}
}

// refuses reports whether answer means that the endpoint will refuse the same request for a while. A temporary failure,
// such as of a server that is down, is no refusal unless it has a Retry-After: the next request tries again. 429 is
// always one.
func refuses(answer *TokenError, retryAfter time.Duration) bool {
	return retryAfter > 0 || answer.Status == http.StatusTooManyRequests || !answer.Passing()
}
