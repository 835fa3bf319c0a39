package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/internal/contract"
)

// Connection is the state of a user's grant at a connector.
type Connection struct {
	Condition Condition
	// Age is the time since the grant was renewed, redeemed, sent without an answer, lost or refused last. It is 0 if there is none.
	Age time.Duration
}

// Connection returns the condition of the connection of the context's user, or of the operator if the context has no user.
func (c *Connector) Connection(ctx context.Context) (Connection, error) {
	if err := c.canConsent(ctx); err != nil {
		return Connection{}, err
	}
	key, _, _ := c.grantKey(ctx)
	found, err := c.host.config.State.node.Look(ctx, key)
	if err != nil {
		return Connection{}, c.fail(StageToken, stateError(fmt.Errorf("the connection cannot be read: %w", err)))
	}
	connection := Connection{Condition: conditions[found.Standing], Age: found.Age}
	if connection.Condition == ConditionUncertain && c.config.NeverResend {
		connection.Condition = ConditionLost
	}
	return connection, nil
}

// conditions has the conditions of grants, by their standing in the store.
var conditions = map[lease.Standing]Condition{
	lease.None: ConditionNotConnected, lease.Good: ConditionConnected, lease.Uncertain: ConditionUncertain, lease.Lost: ConditionLost, lease.Refused: ConditionRefused,
}

// Grants returns the numbers of grants in the store by their condition. None of them is [ConditionNotConnected].
func (s *State) Grants(ctx context.Context) (map[Condition]int, error) {
	found, err := s.node.Standings(ctx)
	all := map[Condition]int{}
	for standing, n := range found {
		all[conditions[standing]] = n
	}
	return all, err
}

// Disconnect forgets the grant of the context's user, or of the operator if the context has no user, and has the authorization
// server revoke it if the connector says how (RFC 7009). It may wait for a token request under way, for up to the time of a
// lease. The grant is forgotten even if the server has not revoked it, or if no state key opens it. Then the error wraps
// [ErrNotRevoked]. It is no error if there is no grant.
//
// This host does not use tokens of the grant any more. Other nodes do not after half a minute. Disconnect goes on if ctx ends, because
// half of it would leave a grant that is valid and forgotten.
func (c *Connector) Disconnect(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if err := c.canConsent(ctx); err != nil {
		return err
	}
	if err := c.host.enter(); err != nil {
		return c.fail(StagePlugin, err)
	}
	defer c.host.calls.Done()
	key, _, _ := c.grantKey(ctx)
	bounded, cancel := context.WithTimeout(ctx, c.turnTime())
	defer cancel()
	token, err := c.host.config.State.node.Forget(bounded, key)
	c.host.grants.forget(key)
	switch {
	case errors.Is(err, lease.ErrUnread):
		return fmt.Errorf("%w: %w", ErrNotRevoked, c.fail(StageToken, err))
	case err != nil:
		return c.fail(StageToken, stateError(fmt.Errorf("the grant cannot be forgotten: %w", err)))
	case token == nil || !c.plugin.Guest.Has(contract.ExportDisconnect):
		return nil
	}
	in, stats, err := c.consenting(ctx)
	if err == nil {
		defer c.host.calls.Done()
		_, _, err = c.runConsent(ctx, in, contract.ExportDisconnect, &consentTurn{token: token}, stats)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotRevoked, err)
	}
	return nil
}

// ErrNotRevoked means that [Connector.Disconnect] has forgotten a grant, and that the authorization server may still accept it.
var ErrNotRevoked = errors.New("the grant is forgotten here, but the authorization server has not revoked it")

// renew keeps what a consent has brought as the grant of the context's user.
func (c *Connector) renew(ctx context.Context, token []byte) error {
	key, _, _ := c.grantKey(ctx)
	ctx, cancel := context.WithTimeout(ctx, c.turnTime())
	defer cancel()
	err := c.host.config.State.node.Renew(ctx, key, token)
	c.host.grants.forget(key)
	if err != nil {
		return c.fail(StageToken, stateError(fmt.Errorf("the grant cannot be kept: %w", err)))
	}
	return nil
}

// grantKnown is the time for which a host uses what it has got with a grant without asking the store whether the grant is still
// there, and still the same.
const grantKnown = 30 * time.Second

// maxGrants is the number of grants whose names a host remembers.
const maxGrants = 1 << 16

// knownGrants remembers the names of grants.
type knownGrants struct {
	mu    sync.Mutex
	cache *lru.Cache[lease.Key, knownGrant]
	// forgotten is the number of grants that this host has taken back or replaced. A name that was asked for before is not
	// remembered after it has risen: it may be that of the grant before.
	forgotten int
}

// knownGrant is the name of a grant, and when the store was asked for it.
type knownGrant struct {
	name    string
	askTime time.Time
}

// ask returns the name of a grant that is remembered, if there is one, and reports whether the store must be asked for it. If it
// must, ask also returns what remember needs, and other calls use the name meanwhile.
func (k *knownGrants) ask(key lease.Key, now time.Time) (name string, ok, must bool, epoch int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	grant, ok := k.cache.Get(key)
	if age := now.Sub(grant.askTime); ok && age >= 0 && age < grantKnown {
		return grant.name, true, false, 0
	}
	if ok {
		k.cache.Add(key, knownGrant{grant.name, now})
	}
	return grant.name, ok, true, k.forgotten
}

// remember remembers a name, unless a grant was forgotten since ask returned epoch.
func (k *knownGrants) remember(key lease.Key, name string, now time.Time, epoch int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.forgotten == epoch {
		k.cache.Add(key, knownGrant{name, now})
	}
}

// forget forgets the name of a grant that was taken back or replaced.
func (k *knownGrants) forget(key lease.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgotten++
	k.cache.Remove(key)
}

// grantName returns the name of the grant of the context's user, which is a part of the partition of what was got with it. If
// there is no grant, the error is a [GrantError], and no plugin runs: one may have cached what it got in the run of connect, which
// has no grant yet. If the store fails, the name that was last known counts: access tokens are used to their end.
func (c *Connector) grantName(ctx context.Context) (string, error) {
	if err := c.canConsent(ctx); err != nil {
		return "", err
	}
	key, tenant, user := c.grantKey(ctx)
	now := c.host.config.Clock()
	name, ok, must, epoch := c.host.grants.ask(key, now)
	if !must {
		return name, nil
	}
	// The answer is for all requests, so it counts even if the request that asks is cancelled.
	found, err := c.host.config.State.node.Look(context.WithoutCancel(ctx), key)
	switch {
	case err != nil && ok:
		return name, nil
	case err != nil:
		return "", c.fail(StageToken, stateError(fmt.Errorf("the grant cannot be read: %w", err)))
	case found.Grant == "": // another node may know a new one at any time
		c.host.grants.cache.Remove(key)
		return "", c.fail(StageToken, &GrantError{Connector: c.config.Name, Tenant: tenant, User: user, Condition: ConditionNotConnected, Renew: connectFirst})
	}
	c.host.grants.remember(key, found.Grant, now, epoch)
	return found.Grant, nil
}
