package host

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"maps"
	"slices"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
)

// newPlan makes what all calls of the connector share.
func (c *Connector) newPlan() *hostfn.Plan {
	h := c.host
	c.log = &connectorLog{logger: h.config.Logger, clock: h.config.Clock, connector: c.config.Name, authType: c.plugin.info.Type}
	return &hostfn.Plan{
		Fields:       map[string]*hostfn.Field{},
		SecretSinks:  map[string]seal.Sinks{},
		Uses:         c.plugin.uses,
		Grants:       c.plugin.grants,
		Anonymous:    c.plugin.info.Anonymous,
		Partition:    c.partition,
		CheckURL:     h.checkTokenURL,
		Cache:        h.cache.entries,
		Signer:       h.signer,
		Client:       h.tokens,
		Clock:        h.config.Clock,
		Random:       h.config.Random,
		Log:          c.log.line,
		Warn:         c.log.warn,
		GuestWarns:   c.log.warnOfGuest,
		Refused:      c.log.refused,
		Revealed:     h.revealed,
		Limits:       h.config.Limits.call(),
		ExchangeTime: c.exchangeTime(),
	}
}

// seed computes what of a cache partition does not change: connector, type, plugin with its grants, and configuration.
// Grants count because a cache may outlive a host. What a plugin stored by a grant must not come back once the grant is
// taken away.
func (c *Connector) seed() error {
	config, err := strictjson.Marshal(c.config.Auth.Config)
	if err != nil {
		return err
	}
	d := digest{sha256.New()}
	d.text(string(c.host.cache.salt[:]), c.config.Name, c.plugin.info.Type, string(c.plugin.digest[:]), string(config))
	d.text(slices.Sorted(maps.Keys(c.plugin.grants))...)
	d.Sum(c.partitionSeed[:0])
	return nil
}

// partition is where the cache entries of a call are: those of no other connector, configuration, secret version,
// variable or user, as far as the templates name them.
func (c *Connector) partition(in *hostfn.Inputs) [32]byte {
	d := digest{sha256.New()}
	d.Write(c.partitionSeed[:])
	names := &c.plan.Names
	for i, name := range names.Secrets {
		d.text(name, in.Secrets[i])
	}
	for _, name := range names.Variables {
		value, ok := in.Variables[name]
		d.text(name, value, fmt.Sprint(ok))
	}
	for _, name := range names.User {
		d.text(name, in.User.Field(name))
	}
	if names.Tenant {
		d.text(in.TenantID)
	}
	var sum [32]byte
	d.Sum(sum[:0])
	return sum
}

// digest hashes texts with their lengths, so that no two lists of texts look alike.
type digest struct{ hash.Hash }

func (d digest) text(texts ...string) {
	for _, text := range texts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(text)))
		d.Write(length[:])
		d.Write([]byte(text))
	}
}
