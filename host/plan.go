package host

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/host/internal/strictjson"
)

// newPlan returns a plan, which all calls of the connector share.
func (c *Connector) newPlan() *hostfn.Plan {
	h := c.host
	c.log = &connectorLog{
		logger: h.config.Logger, report: h.config.Warn, clock: h.config.Clock, connector: c.config.Name, authType: c.plugin.info.Type,
	}
	plan := &hostfn.Plan{
		Codings:       h.config.ContentCodings,
		Fields:        map[string]*hostfn.Field{},
		SecretSinks:   map[string]seal.Sinks{},
		SecretDerived: map[string]seal.Sinks{},
		Uses:          c.plugin.Uses,
		Grants:        c.plugin.grants,
		Anonymous:     c.plugin.info.Anonymous,
		Owner:         c.config.Name,
		Partition:     c.partition,
		ListsHost:     h.listsHost,
		CheckURL:      c.dialer.checkTokenURL,
		Cache:         h.cache.entries,
		Signer:        h.signer,
		Client:        c.dialer.tokens,
		UserAgent:     c.host.userAgent(),
		Clock:         h.config.Clock,
		Random:        h.config.Random,
		Log:           c.log.line,
		Warn:          func(ctx context.Context, field, text string) { c.log.warn(ctx, c.path(field), text) },
		GuestWarns:    c.log.warnOfGuest,
		Refused:       c.log.logRefusal,
		Revealed:      h.hooks.Reveal,
		Explains:      h.hooks.Explain != nil,
		RandomText:    h.hooks.Random,
		Limits:        c.plugin.limits.call(),
		ExchangeTime:  c.exchangeTime(),
		KeySecret:     h.cache.keySecret,
	}
	if h.config.Tracer != nil {
		plan.Span = c.callSpan
	}
	if h.cache.state != nil {
		plan.SharedRefusals = sharedRefusals{h.cache.state.node}
	}
	if h.config.Keys != nil {
		plan.Keys = keyStore{h.config.Keys}
	}
	if challenge := c.plugin.info.Challenge; challenge != nil {
		plan.Statuses, plan.Keep = challenge.Statuses, time.Duration(challenge.Keep)*time.Second
	}
	return plan
}

// seed sets partitionSeed to the hash of the connector's name, type, plugin, grants and configuration. The grants are
// part of it because a cache may outlive a host: a plugin must not get back what it stored under a grant after the
// grant was removed. So are the hosts that may get tokens of users, if a template names one.
func (c *Connector) seed() error {
	config, err := strictjson.Marshal(c.config.Auth.Config)
	if err != nil {
		return err
	}
	var d partitionHash
	d.text(string(c.host.cache.salt[:]), c.config.Name, c.plugin.info.Type, string(c.plugin.digest[:]), string(config))
	d.text(slices.Sorted(maps.Keys(c.plugin.grants))...)
	if t := c.config.TLS; t != nil { // a token may be bound to the certificate
		d.text(t.Certificate, t.Key, t.CA)
		d.text(t.For...)
	}
	if c.plan.Names.UserToken() { // a host that is no longer listed may have issued what is in the cache
		d.text(slices.Sorted(maps.Keys(c.host.userTokenHosts))...)
	}
	c.partitionSeed = d.sum()
	return nil
}

// partition returns the cache partition of a call. Calls share a partition if they have the same connector,
// configuration, and values of the secrets, endpoints, variables and user fields that the templates name.
func (c *Connector) partition(in *hostfn.Inputs) [32]byte {
	var buffer [1 << 10]byte
	d := partitionHash{append(buffer[:0], c.partitionSeed[:]...)}
	names := &c.plan.Names
	for i, name := range names.Secrets {
		d.text(name, in.Secrets[i])
	}
	for i, endpoint := range names.Discovered {
		d.text(endpoint.Issuer, endpoint.Member, in.Discovered[i])
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
	if c.plugin.info.Consent { // what was got with an earlier grant is not used with the next one
		d.text(in.Grant)
	}
	return d.sum()
}

// partitionHash hashes texts together with their lengths, so that different lists of texts have different hashes.
type partitionHash struct{ input []byte }

func (d *partitionHash) text(texts ...string) {
	for _, text := range texts {
		d.input = binary.BigEndian.AppendUint64(d.input, uint64(len(text)))
		d.input = append(d.input, text...)
	}
}

func (d *partitionHash) sum() [32]byte { return sha256.Sum256(d.input) }
