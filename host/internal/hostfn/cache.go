package hostfn

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/keywright/keywright/host/internal/answer"
	"github.com/keywright/keywright/host/internal/leakscan"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/internal/tokens"
	"github.com/keywright/keywright/internal/contract"
)

type cacheUse struct {
	*core
	*exchangeLog
	// Found holds the cache entries that the caller has already acquired for this call, for example from a lease it waited for.
	Found map[tokencache.Key]tokens.Entry
	// Used holds the cache entries that the call read, each once.
	Used []*tokencache.Handle
	// Stored is the last entry that the call has stored after an exchange, or nil.
	Stored *tokencache.Handle
	// storedKeys are the keys of all that it has stored.
	storedKeys []tokencache.Key
	// usedOrigins holds the origins of the values that were revealed or put into the mutation.
	usedOrigins *seal.Origins
}

// CacheGet returns the value that CacheSet stored under key in this call's partition of the cache, and whether there is one.
//
// A miss ends an Inline run with a Restart. The host then takes the lease of the entry, or waits for it, outside of the
// sandbox, so that ten thousand waiting calls do not occupy a sandbox each.
func (c *cacheUse) CacheGet(key string) (string, bool) {
	c.requireGroup(contract.UserCacheGet)
	// A look-up affects which entry is evicted first, which other calls could see.
	c.rejectAfterRead("cache_get", "read the cache first, nothing of one request may reach another")
	k := c.cacheKey(key)
	if c.mode == Explaining {
		return "", false
	}
	if c.afterRead() {
		return c.readAgain(k)
	}
	entry, ok := c.Found[k]
	if !ok || !c.plan.Tokens.InTime(entry.Handle) { // it may have expired while the host waited for another entry
		entry, ok = c.plan.Tokens.Lookup(k)
	}
	if ok && !c.Right.Replaces(entry.Handle) {
		return c.useEntry(entry), true
	}
	c.detach(Restart{Key: &k})
	return "", false
}

// readAgain returns an entry that the earlier attempt of the request has read or stored, and leaves the order of eviction as it is. For
// any other entry it ends the run with a Restart.
func (c *cacheUse) readAgain(k tokencache.Key) (string, bool) {
	entry, ok := c.plan.Tokens.Peek(k)
	if !ok || !readsEntry(c.inputs.Answer.used, k) && !slices.Contains(c.inputs.Answer.storedKeys, k) {
		c.runAfresh()
	}
	return c.useEntry(entry), true
}

// useEntry returns the value of an entry, and records that the call has read it.
func (c *cacheUse) useEntry(entry tokens.Entry) string {
	value, err := c.sealed.Join(entry.Value, entry.Handle)
	if err != nil {
		c.end(StagePlugin, err)
	}
	if !slices.Contains(c.Used, entry.Handle) {
		c.Used = append(c.Used, entry.Handle)
	}
	return value
}

// CacheSet stores a value, which may contain sealed values, for ttlSeconds. It ends the call's right if that is for this
// entry, and stores the entry for all nodes if there is a store of state. Other entries stay with their node. It ends an Inline
// run with a Restart, because the entry could not be taken back if the run were restarted later.
func (c *cacheUse) CacheSet(key, value string, ttlSeconds int64) {
	c.requireGroup(contract.UserCacheSet)
	k := c.cacheKey(key)
	c.rejectAfterRead("cache_set", "nothing of one request may reach another")
	c.runAfresh()
	c.detach(Restart{})
	pieces, err := c.sealed.Split(value)
	if err != nil {
		c.endf(StagePlugin, "the value of cache_set: %w", err)
	}
	size := 0
	for i := range pieces {
		size += pieces[i].Counts()
		if pieces[i].Sealed {
			size += pieceOverhead
		}
		if pieces[i].Value.Sinks&seal.Token == seal.Listed && len(c.plan.Names.Identities) > 0 {
			c.endf(StagePlugin, "the value of cache_set has the token of an identity, which is checked before each use and so not kept")
		}
	}
	if size > c.plan.Limits.CacheBytes {
		c.endf(StagePlugin, "the value of cache_set has more than %d bytes", c.plan.Limits.CacheBytes)
	}
	if c.mode == Explaining {
		return
	}
	ttl := c.ttl(time.Duration(min(max(ttlSeconds, 0), maxTTL)) * time.Second)
	fetched := c.Exchanges > 0
	stored := c.plan.Tokens.Put(c.ctx, c.Right, k, pieces, ttl, fetched)
	if c.storedKeys = append(c.storedKeys, k); fetched {
		c.Stored = stored
	}
}

func (c *cacheUse) cacheKey(key string) tokencache.Key {
	c.rejectSealed("a cache key", key)
	if key == "" || len(key) > maxCacheKey {
		c.endf(StagePlugin, "a cache key has 1 to %d bytes", maxCacheKey)
	}
	return tokencache.Key{Owner: c.plan.Owner, Partition: c.partition(), Name: key}
}

// UsedOrigins returns the cache entries that a 401 drops: those whose sealed values went into the mutation, directly or
// through other values and entries. The origins of a revealed value are included.
//
// If the call has read its request, the request may have determined which values were put in. A later call could then
// learn about the request from the entries that are missing (threats.md 15c). So UsedOrigins returns all entries that such a
// call read, or none. That also holds if requestRead is set: then another element of the list has read it.
func (c *cacheUse) UsedOrigins(requestRead bool) []*tokencache.Handle {
	if c.usedOrigins == nil || !c.RequestRead && !requestRead {
		return c.usedOrigins.Entries()
	}
	all := seal.From(c.Used...)
	for v := range c.sealed.Values() {
		all = all.And(v.From)
	}
	return all.Entries()
}

// CacheDrop removes the entry of a key if this call, or that of the request's earlier attempt, has read it. An entry that
// another call has stored meanwhile stays. retry reports whether a new value may help.
//
// If the earlier attempt has read the request, CacheDrop removes all entries that it has read, like a 401 (see UsedOrigins), and the
// call runs again without the API's answer.
func (c *cacheUse) CacheDrop(key string) (retry bool) {
	c.requireGroup(contract.UserCacheDrop)
	c.rejectAfterRead("cache_drop", "nothing of one request may reach another")
	k := c.cacheKey(key)
	if c.mode == Explaining {
		return true
	}
	used := c.Used
	if c.inputs.Answer != nil {
		used = append(slices.Clip(used), c.inputs.Answer.used...)
	}
	if !readsEntry(used, k) {
		return false
	}
	for _, h := range used {
		if h.Key == k || c.afterRead() {
			retry = c.plan.Tokens.Reject(h.Key, h.Generation) || retry
			delete(c.Found, h.Key)
		}
	}
	if retry {
		c.runAfresh()
	}
	return retry
}

// readsEntry reports whether the entry of a key is among those that were read.
func readsEntry(used []*tokencache.Handle, k tokencache.Key) bool {
	return slices.ContainsFunc(used, func(h *tokencache.Handle) bool { return h.Key == k })
}

// keptName is the name of the cache entry with the kept answers of a partition. No guest can use it, because it is longer than maxCacheKey.
var keptName = "kept answers" + string(make([]byte, maxCacheKey))

// Learn reads the answers of the challenge from an answer of the API, and keeps those that later calls get. replaced is set
// if the answer is one after which the call runs again: then what it has replaces what is kept, and otherwise it is added to
// that. body is the beginning of the answer's body, or nil. m is the mutation of the call, and earlier are the texts of an earlier
// attempt. If the answer repeats a text of these, Learn keeps nothing and returns the name of that part, and no answers if it is plain.
func (c *Call) Learn(response *http.Response, body []byte, replaced bool, m *Mutation, earlier []string) (api *APIAnswer, repeated string) {
	list := c.plan.Challenge.Answers
	reply := &answer.Reply{Header: response.Header, Body: body, List: list}
	found := reply.Find(nil, maxChallenge)
	if len(found) > 0 {
		priorAnswers := c.knownAnswers()
		newSent := func() *answer.Sent {
			s := answer.NewSent(append(c.Credentials(m), earlier...), append(c.Texts(m), earlier...), priorAnswers...)
			s.Now = c.plan.Clock()
			return s
		}
		if repeated = reply.Repeated(found, false, newSent, priorAnswers...); repeated != "" {
			return nil, repeated
		}
		repeated = reply.Repeated(found, true, newSent, priorAnswers...)
	}
	for i := range list { // a value that no header may hold would fail all calls until it is kept no longer
		if list[i].Keep && !leakscan.IsText(found[list[i].Name]) {
			delete(found, list[i].Name)
		}
	}
	if repeated == "" {
		c.keep(found, replaced)
	}
	return &APIAnswer{response.StatusCode, found, repeated != "", c.Used, c.storedKeys, c.RequestRead, c.offset}, repeated
}

// knownAnswers returns the earlier answers of the API that the call has, or could have.
func (c *Call) knownAnswers() []map[string]string {
	priorAnswers := []map[string]string{c.readKept(false).found}
	if c.inputs.keptAnswers != nil {
		priorAnswers = append(priorAnswers, c.inputs.keptAnswers.found)
	}
	if c.inputs.Answer != nil && !c.inputs.Answer.repeats {
		priorAnswers = append(priorAnswers, c.inputs.Answer.found)
	}
	return priorAnswers
}

// keep stores the answers that are kept. An entry with the same values stays, because its count goes on: the number of
// requests with a nonce must not begin anew when the API repeats the nonce (RFC 7616 section 3.4).
func (c *Call) keep(found map[string]string, replaced bool) {
	values := map[string]string{}
	for i := range c.plan.Challenge.Answers {
		a := &c.plan.Challenge.Answers[i]
		if value, ok := found[a.Name]; ok && a.Keep {
			values[a.Name] = value
		}
	}
	if len(values) == 0 {
		return
	}
	key := tokencache.Key{Owner: c.plan.Owner, Partition: c.partition(), Name: keptName}
	entry, _ := c.plan.Tokens.Lookup(key)
	previous := keptValues(entry.Value)
	if !replaced {
		added := maps.Clone(previous)
		maps.Copy(added, values)
		values = added
	}
	if maps.Equal(values, previous) {
		return
	}
	var pieces []seal.Piece
	for _, name := range slices.Sorted(maps.Keys(values)) {
		pieces = append(pieces, seal.Piece{Text: name}, seal.Piece{Sealed: true, Value: seal.Value{Text: values[name]}})
	}
	c.plan.Tokens.Put(c.ctx, nil, key, pieces, c.ttl(c.plan.Challenge.Keep), false)
}

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
	if !c.plan.Challenge.InDescription {
		c.endf(StagePlugin, "challenge was called, but the plugin's description has no challenge")
	}
	c.rejectAfterRead("challenge", "ask for the challenge first") // what is kept was learnt from other requests
	reply := contract.ChallengeReply{Answers: map[string]string{}}
	if c.plan.Challenge.Keep > 0 && c.mode != Explaining {
		c.impure = true
		if c.inputs.keptAnswers == nil {
			c.inputs.keptAnswers = c.readKept(true)
		}
		maps.Copy(reply.Answers, c.inputs.keptAnswers.found)
		reply.Count = c.inputs.keptAnswers.count
	}
	switch earlier := c.inputs.Answer; {
	case c.answerMadeUp():
		reply.Status, reply.Answers = c.plan.Challenge.Statuses[0], answer.MadeUp(c.plan.Challenge.Answers, nil, c.plan.Clock())
	case earlier != nil:
		c.impure = true
		reply.Status = earlier.Status
		if earlier.offset != nil {
			reply.ClockChange = c.plan.ServerOffset(c.inputs.TenantID).Seconds() - *earlier.offset
		}
		maps.Copy(reply.Answers, earlier.found)
	}
	reply.Answers = c.sealAnswers(c.plan.Challenge.Answers, reply.Answers)
	return c.marshal(reply)
}

// readKept returns the kept answers of the call's partition. If counts is set, it counts the call.
func (c *Call) readKept(counts bool) *keptAnswers {
	entry, ok := c.plan.Tokens.Lookup(tokencache.Key{Owner: c.plan.Owner, Partition: c.partition(), Name: keptName})
	answers := &keptAnswers{found: keptValues(entry.Value)}
	if ok && counts {
		answers.count = entry.Handle.Count()
	}
	return answers
}
