package hostfn

import (
	"slices"
	"time"

	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/tokencache"
	"github.com/keywright/keywright/host/internal/tokens"
	"github.com/keywright/keywright/internal/contract"
)

const (
	// maxCacheKey is the maximum length of a key, in bytes.
	maxCacheKey = 256
	// pieceOverhead is the approximate memory of a sealed value in the cache without its text, in bytes.
	pieceOverhead = 100
)

// cacheUse is a call's use of the cache.
type cacheUse struct {
	*core
	*exchangeLog
	// Found holds the cache entries that the caller has already acquired for this call, for example from a lease it
	// waited for.
	Found map[tokencache.Key]tokens.Entry
	// Used holds the cache entries that the call read, each once.
	Used []*tokencache.Handle
	// Stored is the last entry that the call has stored after an exchange, or nil.
	Stored *tokencache.Handle
	// usedOrigins holds the origins of the values that were revealed or put into the mutation.
	usedOrigins *seal.Origins
}

// CacheGet returns the value that CacheSet stored under key in this call's partition of the cache, and whether there is
// one.
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

// readAgain returns an entry that the earlier attempt of the request has read, and leaves the order of eviction as it is. For
// any other entry it ends the run with a Restart.
func (c *cacheUse) readAgain(k tokencache.Key) (string, bool) {
	entry, ok := c.plan.Tokens.Peek(k)
	if !ok || !readsEntry(c.inputs.Answer.used, k) {
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
	if fetched {
		c.Stored = stored
	}
}

// maxTTL is the maximum time to live, in seconds. A larger one might not fit into a time.Duration.
const maxTTL = 1 << 31

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
// call read, or none.
func (c *cacheUse) UsedOrigins() []*tokencache.Handle {
	if c.usedOrigins == nil || !c.inputRead {
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
