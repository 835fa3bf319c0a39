package host

import (
	"crypto/rand"
	"fmt"
	"io"
	"time"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/tokencache"
)

// TokenCache keeps what plugins store, tokens above all, in memory. Each host has one of its own, unless
// [Config].Tokens names one that outlives it. Then a host that takes the place of another, because its configuration
// has changed, goes on with the tokens, the refusals of token endpoints, the exchanges in flight, and the pace at which
// a 401 may bring new tokens.
//
// An entry is found by a connector with the same name, auth type, plugin, grants, configuration, secrets, variables and
// user, and by no other. Hosts that share a cache must have the same Egress and Base: nothing checks whether a host may
// connect to where a token came from.
//
// It is safe for concurrent use, also by several hosts at once.
type TokenCache struct {
	entries *hostfn.Cache
	salt    [32]byte // of partitions: what one process has in memory is of no use elsewhere
}

// NewTokenCache makes an empty cache. It uses Clock, Random, Limits.CacheEntries and Limits.CachePerUser of the Config.
// The hosts must have the same Clock. Their own CacheEntries and CachePerUser do not change the cache. It fails for
// limits below 0, and without randomness.
func NewTokenCache(c Config) (*TokenCache, error) {
	limits := c.Limits.withDefaults()
	if err := limits.check(); err != nil {
		return nil, err
	}
	clock := c.Clock
	if clock == nil {
		clock = time.Now
	}
	random := c.Random
	if random == nil {
		random = rand.Reader
	}
	t := &TokenCache{entries: tokencache.New[[]seal.Piece](limits.CacheEntries, limits.CachePerUser, clock)}
	if _, err := io.ReadFull(random, t.salt[:]); err != nil {
		return nil, fmt.Errorf("no randomness: %w", err)
	}
	return t, nil
}
