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

// TokenCache keeps what plugins store, tokens above all, in memory. Each host has one of its own, unless [Config].Tokens
// names one that outlives it: then a host that takes the place of another, because its configuration has changed, goes on
// with the tokens that it would ask for again, with the exchanges that are in flight, and with the pace at which a 401 may
// bring new ones.
//
// An entry is found by a connector with the same name, auth type, plugin, grants, configuration, secrets, variables and
// user, and by no other. Whether a token came from where a host may connect to is not looked at: hosts that share a cache
// have the same Egress and Base.
//
// It is safe for concurrent use, also by several hosts at once.
type TokenCache struct {
	entries *hostfn.Cache
	salt    [32]byte // of partitions: what one process has in memory is of no use elsewhere
}

// NewTokenCache makes an empty cache. Of a Config it takes Limits.CacheEntries and Limits.CachePerUser, which stay as they
// are whatever the Limits of the hosts say, Clock, which has to be that of the hosts, and Random. It fails for limits that
// are below 0, and without randomness.
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
