package hostfn

import (
	"maps"
	"net/http"
	"slices"

	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/internal/contract"
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
		priorAnswers := c.knownAnswers()
		if repeated = reply.Repeated(found, func() *answer.Sent { return c.newSent(m, earlier, priorAnswers) }, priorAnswers...); repeated != "" {
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
	priorAnswers := []map[string]string{c.readKept(false).found}
	if c.inputs.keptAnswers != nil {
		priorAnswers = append(priorAnswers, c.inputs.keptAnswers.found)
	}
	if c.inputs.Answer != nil {
		priorAnswers = append(priorAnswers, c.inputs.Answer.found)
	}
	return priorAnswers
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
	if entry, ok := c.plan.Tokens.Lookup(key); ok {
		previous := keptValues(entry.Value)
		if !replaced {
			added := maps.Clone(previous)
			maps.Copy(added, values)
			values = added
		}
		if maps.Equal(values, previous) {
			return
		}
	}
	var pieces []seal.Piece
	for _, name := range slices.Sorted(maps.Keys(values)) {
		pieces = append(pieces, seal.Piece{Text: name}, seal.Piece{Sealed: true, Value: seal.Value{Text: values[name]}})
	}
	c.plan.Tokens.Put(c.ctx, nil, key, pieces, c.ttl(c.plan.Keep), false)
}

// keptValues returns the answers in an entry of the cache.
func keptValues(pieces []seal.Piece) map[string]string {
	values := map[string]string{}
	for pair := range slices.Chunk(pieces, 2) {
		values[pair[0].Text] = pair[1].Value.Text
	}
	return values
}

// Challenge returns a contract.ChallengeReply: the answers of the API because of which the call runs again, and those that were
// kept of earlier answers.
func (c *Call) Challenge() []byte {
	c.requireGroup(contract.UserChallenge)
	if len(c.plan.ChallengeAnswers) == 0 && len(c.plan.Statuses) == 0 {
		c.endf(StagePlugin, "challenge was called, but the plugin's description has no challenge")
	}
	c.rejectAfterRead("challenge", "ask for the challenge first") // what is kept was learnt from other requests
	reply := contract.ChallengeReply{Answers: map[string]string{}}
	if c.plan.Keep > 0 && c.mode != Explaining {
		c.impure = true
		if c.inputs.keptAnswers == nil {
			c.inputs.keptAnswers = c.readKept(true)
		}
		maps.Copy(reply.Answers, c.inputs.keptAnswers.found)
		reply.Count = c.inputs.keptAnswers.count
	}
	switch earlier := c.inputs.Answer; {
	case c.answerMadeUp():
		reply.Status, reply.Answers = c.plan.Statuses[0], answer.MadeUp(c.plan.ChallengeAnswers, nil, c.plan.Clock())
	case earlier != nil:
		c.impure = true
		reply.Status = earlier.Status
		if earlier.offset != nil {
			reply.ClockChange = c.plan.Offset.Seconds() - *earlier.offset
		}
		maps.Copy(reply.Answers, earlier.found)
	}
	reply.Answers = c.sealAnswers(c.plan.ChallengeAnswers, reply.Answers)
	return c.marshal(reply)
}

// readKept returns the kept answers of the call's partition. If counts is set, it counts the call.
func (c *Call) readKept(counts bool) *keptAnswers {
	entry, ok := c.plan.Tokens.Lookup(tokencache.Key{Owner: c.plan.Owner, Partition: c.partition(), Name: keptName})
	if !ok {
		return &keptAnswers{}
	}
	answers := &keptAnswers{found: keptValues(entry.Value)}
	if counts {
		answers.count = entry.Handle.Count()
	}
	return answers
}

// newSent returns the texts that a mutation of the call brings into its request. earlier are texts of an earlier attempt.
func (c *Call) newSent(m *Mutation, earlier []string, priorAnswers []map[string]string) *answer.Sent {
	return answer.NewSent(append(c.Credentials(m), earlier...), append(c.Texts(m), earlier...), priorAnswers...)
}
