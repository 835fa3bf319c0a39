package hostfn

import (
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/host/internal/tokencache"
)

// maxChallenge is the maximum length of a sealed answer of an API, in bytes.
const maxChallenge = 1 << 10

// keptName is the name of the cache entry with the kept answers of a partition. No guest can use it, because it is longer
// than maxCacheKey.
var keptName = "kept answers" + string(make([]byte, maxCacheKey))

// Learn reads the answers of the challenge from an answer of the API, and keeps those that later calls get. replaced is set
// if the answer is one after which the call runs again: then what it has replaces what is kept, and otherwise it is added to
// that. body is the beginning of the answer's body, or nil. m is the mutation of the call, and earlier are the texts of an earlier
// attempt. If the answer repeats a text of these, Learn keeps nothing and returns the name of that part.
func (c *Call) Learn(response *http.Response, body []byte, replaced bool, m *Mutation, earlier []string) (api *APIAnswer, repeated string) {
	list := c.plan.ChallengeAnswers
	reply := &answer.Reply{Header: response.Header, Body: body, List: list}
	found := reply.Find(nil, maxChallenge)
	if len(found) > 0 {
		known := c.knownAnswers()
		if repeated = reply.Repeated(found, func() *answer.Sent { return c.sent(m, earlier, known) }, known...); repeated != "" {
			return nil, repeated
		}
	}
	for i := range list { // a value that no header may hold would fail all calls until it is kept no longer
		if list[i].Keep && !leakscan.IsText(found[list[i].Name]) {
			delete(found, list[i].Name)
		}
	}
	c.keep(found, replaced)
	return &APIAnswer{response.StatusCode, found, c.Used, c.inputRead, c.offset}, ""
}

// knownAnswers returns the earlier answers of the API that the call has, or could have.
func (c *Call) knownAnswers() []map[string]string {
	known := []map[string]string{c.readKept(false).found}
	if c.inputs.kept != nil {
		known = append(known, c.inputs.kept.found)
	}
	if c.inputs.Answer != nil {
		known = append(known, c.inputs.Answer.found)
	}
	return known
}

// keep stores the answers that are kept. An entry with the same values stays, because its count goes on: the number of
// requests with a nonce must not begin anew when the API repeats the nonce (RFC 7616 section 3.4).
func (c *Call) keep(found map[string]string, replaced bool) {
	values := map[string]string{}
	for i := range c.plan.ChallengeAnswers {
		a := &c.plan.ChallengeAnswers[i]
		if value, ok := found[a.Name]; ok && a.Keep {
			values[a.Name] = value
		}
	}
	if len(values) == 0 {
		return
	}
	key := tokencache.Key{Owner: c.plan.Owner, Partition: c.partition(), Name: keptName}
	if entry, ok := c.plan.Cache.Get(key); ok {
		before := keptValues(entry.Value)
		if !replaced {
			added := maps.Clone(before)
			maps.Copy(added, values)
			values = added
		}
		if maps.Equal(values, before) {
			return
		}
	}
	var pieces []seal.Piece
	for _, name := range slices.Sorted(maps.Keys(values)) {
		pieces = append(pieces, seal.Piece{Text: name}, seal.Piece{Sealed: true, Value: seal.Value{Text: values[name]}})
	}
	c.plan.Cache.Set(key, pieces, c.ttl(c.plan.Keep))
}

// keptValues returns the answers in an entry of the cache.
func keptValues(pieces []seal.Piece) map[string]string {
	values := map[string]string{}
	for pair := range slices.Chunk(pieces, 2) {
		values[pair[0].Text] = pair[1].Value.Text
	}
	return values
}

// Challenge returns an abi.ChallengeReply: the answers of the API because of which the call runs again, and those that were
// kept of earlier answers.
func (c *Call) Challenge() []byte {
	c.requireGroup(abi.UserChallenge)
	if len(c.plan.ChallengeAnswers) == 0 && len(c.plan.Statuses) == 0 {
		c.endf(StagePlugin, "challenge was called, but the plugin's description has no challenge")
	}
	if c.inputRead { // what is kept was learnt from other requests
		c.endf(StagePlugin, "challenge was called after the request was read: ask for the challenge first")
	}
	reply := abi.ChallengeReply{Answers: map[string]string{}}
	if c.plan.Keep > 0 && c.mode != Explaining {
		c.impure = true
		if c.inputs.kept == nil {
			c.inputs.kept = c.readKept(true)
		}
		maps.Copy(reply.Answers, c.inputs.kept.found)
		reply.Count = c.inputs.kept.count
	}
	switch earlier := c.inputs.Answer; {
	case c.answerMadeUp():
		reply.Status, reply.Answers = c.plan.Statuses[0], answer.MadeUp(c.plan.ChallengeAnswers, nil, c.plan.Clock())
	case earlier != nil:
		c.impure = true
		reply.Status = earlier.Status
		if earlier.offset != nil {
			reply.ClockChange = c.plan.Offset.seconds.Load() - *earlier.offset
		}
		maps.Copy(reply.Answers, earlier.found)
	}
	reply.Answers = c.sealAnswers(c.plan.ChallengeAnswers, reply.Answers)
	document, err := strictjson.Marshal(reply)
	if err != nil {
		c.end(StagePlugin, err)
	}
	return document
}

// answerMadeUp reports whether an explained call gets made-up answers of the API. It does so to show the request as most are
// sent, such as one with a nonce.
func (c *Call) answerMadeUp() bool {
	return c.mode == Explaining && len(c.plan.Statuses) > 0 && len(c.plan.ChallengeAnswers) > 0 && !c.inputs.Unanswered
}

// readKept returns the kept answers of the call's partition. If counts is set, it counts the call.
func (c *Call) readKept(counts bool) *kept {
	entry, ok := c.plan.Cache.Get(tokencache.Key{Owner: c.plan.Owner, Partition: c.partition(), Name: keptName})
	if !ok {
		return &kept{}
	}
	if !counts {
		return &kept{found: keptValues(entry.Value)}
	}
	return &kept{keptValues(entry.Value), entry.Handle.Count()}
}

// Offset is the time that the clocks of an API and of its token endpoint are ahead of the host's. Where they differ, it is that of
// the one that refused a request last. It is safe for concurrent use.
type Offset struct{ seconds atomic.Int64 }

// Learn sets the offset by the Date of an answer that refused a request with 400, 401 or 403. An offset of a few
// seconds is that of the network, and counts as none. An offset beyond maxOffset is not believed, and one that differs by a few
// seconds is the same. The Date of an answer with Age is that of a cache (RFC 9111 section 5.1).
func (o *Offset) Learn(status int, header http.Header, now time.Time) {
	switch status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden:
	default:
		return
	}
	if offset, ok := offsetOf(header, now); ok && -maxOffset <= offset && offset <= maxOffset && !near(offset, o.seconds.Load()) {
		o.seconds.Store(offset)
	}
}

// offsetOf returns the seconds by which the clock of a server is ahead of now, by the header of an answer, and reports whether the
// header says so. A few seconds count as 0.
func offsetOf(header http.Header, now time.Time) (seconds int64, ok bool) {
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

// sent returns the texts that a mutation of the call brings into its request. earlier are texts of an earlier attempt.
func (c *Call) sent(m *Mutation, earlier []string, known []map[string]string) *answer.Sent {
	return answer.NewSent(append(c.Credentials(m), earlier...), append(c.Texts(m), earlier...), known...)
}
