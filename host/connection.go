package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/internal/contract"
)

// Connection returns the condition of the connection of the context's user, or of the operator if the context has no user.
func (c *Connector) Connection(ctx context.Context) (Connection, error) {
	if err := c.canConsent(ctx); err != nil {
		return Connection{}, err
	}
	connection, err := c.grants.look(ctx)
	if err != nil {
		return Connection{}, c.fail(StageToken, err)
	}
	return connection, nil
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
	if err := c.runner.Gate.Enter(); err != nil {
		return c.fail(StagePlugin, err)
	}
	defer c.runner.Gate.Leave()
	token, err := c.grants.forget(ctx)
	switch {
	case errors.Is(err, lease.ErrUnread):
		return fmt.Errorf("%w: %w", ErrNotRevoked, c.fail(StageToken, err))
	case err != nil:
		return c.fail(StageToken, err)
	case token == nil || !c.plugin.Guest.Has(contract.ExportDisconnect):
		return nil
	}
	in, stats, err := c.consenting(ctx)
	if err == nil {
		defer c.runner.Gate.Leave()
		_, _, err = c.runConsent(ctx, in, contract.ExportDisconnect, &consentTurn{token: token}, stats)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotRevoked, err)
	}
	return nil
}

// ErrNotRevoked means that [Connector.Disconnect] has forgotten a grant, and that the authorization server may still accept it.
var ErrNotRevoked = errors.New("the grant is forgotten here, but the authorization server has not revoked it")

// grantName returns the name of the grant of the context's user.
func (c *Connector) grantName(ctx context.Context) (string, error) {
	if err := c.canConsent(ctx); err != nil {
		return "", err
	}
	name, err := c.grants.name(ctx)
	if err != nil {
		err = c.fail(StageToken, err)
	}
	return name, err
}
