package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/lease"
)

// Connection is the state of a user's grant at a connector.
type Connection struct {
	Condition Condition
	// Age is the time since the grant was renewed, redeemed, lost or refused last. It is 0 if there is none.
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
		return Connection{}, c.fail(StageToken, fmt.Errorf("the connection cannot be read: %w", err))
	}
	connection := Connection{Condition: Connected, Age: found.Age}
	switch found.Standing {
	case lease.None:
		connection = Connection{Condition: NotConnected}
	case lease.Lost:
		connection.Condition = Lost
	case lease.Refused:
		connection.Condition = Refused
	}
	return connection, nil
}

// Disconnect forgets the grant of the context's user, or of the operator if the context has no user, and has the authorization
// server revoke it if the connector says how (RFC 7009). It may wait for a token request under way, for up to the time of a
// lease. The grant is forgotten even if the server has not revoked it. Then the error wraps [ErrNotRevoked]. It is no error if
// there is no grant.
//
// This host does not use tokens of the grant any more. Other nodes do not after half a minute.
func (c *Connector) Disconnect(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	in, err := c.consenting(ctx)
	if err != nil {
		return err
	}
	defer c.host.calls.Done()
	key, _, _ := c.grantKey(ctx)
	bounded, cancel := context.WithTimeout(ctx, c.host.config.State.lease+c.exchangeTime())
	defer cancel()
	token, err := c.host.config.State.node.Forget(bounded, key)
	c.host.grants.Remove(key)
	switch {
	case err != nil:
		return c.fail(StageToken, fmt.Errorf("the grant cannot be forgotten: %w", err))
	case token == nil || !c.plugin.guest.Has(abi.ExportDisconnect):
		return nil
	}
	if _, _, err := c.runConsent(ctx, in, abi.ExportDisconnect, &consentTurn{token: token}); err != nil {
		return fmt.Errorf("%w: %w", ErrNotRevoked, err)
	}
	return nil
}

// ErrNotRevoked means that [Connector.Disconnect] has forgotten a grant, and that the authorization server may still accept it.
var ErrNotRevoked = errors.New("the grant is forgotten here, but the authorization server has not revoked it")

// renew keeps what a consent has brought as the grant of the context's user.
func (c *Connector) renew(ctx context.Context, token []byte) error {
	key, _, _ := c.grantKey(ctx)
	ctx, cancel := context.WithTimeout(ctx, c.host.config.State.lease+c.exchangeTime())
	defer cancel()
	err := c.host.config.State.node.Renew(ctx, key, token)
	c.host.grants.Remove(key)
	if err != nil {
		return c.fail(StageToken, hostfn.Passing(fmt.Errorf("the grant cannot be kept: %w", err)))
	}
	return nil
}

// grantKnown is the time for which a host uses what it has got with a grant without asking the store whether the grant is still
// there, and still the same.
const grantKnown = 30 * time.Second

// maxGrants is the number of grants whose names a host remembers.
const maxGrants = 1 << 16

// knownGrant is the name of a grant, and when the store was asked for it.
type knownGrant struct {
	name  string
	asked time.Time
}

// grantName returns the name of the grant of the context's user, which is a part of the partition of what was got with it. It is
// empty if there is no grant. If the store fails, the name that was last known counts: access tokens are used to their end.
func (c *Connector) grantName(ctx context.Context) (string, error) {
	if err := c.canConsent(ctx); err != nil {
		return "", err
	}
	key, _, _ := c.grantKey(ctx)
	now := c.host.config.Clock()
	known, ok := c.host.grants.Get(key)
	if age := now.Sub(known.asked); ok && age >= 0 && age < grantKnown {
		return known.name, nil
	}
	if ok { // meanwhile the others go on
		c.host.grants.Add(key, knownGrant{known.name, now})
	}
	found, err := c.host.config.State.node.Look(ctx, key)
	switch {
	case err != nil && ok:
		return known.name, nil
	case err != nil:
		return "", c.fail(StageToken, hostfn.Passing(fmt.Errorf("the grant cannot be read: %w", err)))
	case found.Grant == "": // another node may know a new one at any time
		c.host.grants.Remove(key)
	default:
		c.host.grants.Add(key, knownGrant{found.Grant, now})
	}
	return found.Grant, nil
}
