package host

import (
	"context"
	"errors"
	"time"

	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/internal/contract"
)

// grantKey returns the name of the grant of the context's user in the store, and whose it is. A secret of the client, the
// configuration and the plugin's bytes are no part of it: the grant outlives them.
func (c *Connector) grantKey(ctx context.Context) (key lease.Key, tenant, user string) {
	u, _ := UserFrom(ctx)
	parts := []string{"grant", c.config.Name, c.plugin.info.Type}
	if c.plan.GrantOwner.Tenant {
		tenant = u.TenantID
		parts = append(parts, "tenant", tenant)
	}
	if c.plan.GrantOwner.User {
		user = u.ID
		parts = append(parts, "user", user)
	}
	return lease.Key{Partition: c.host.config.State.node.Partition(parts...)}, tenant, user
}

// beginTurn takes the turn of the grant of a call. resend is not set if the call has no need of a token that may have been sent.
func (c *Connector) beginTurn(ctx context.Context, seed []byte, resend bool) (hostfn.Turn, error) {
	key, tenant, user := c.grantKey(ctx)
	if seed != nil && c.plan.GrantOwner.User && user == "" {
		return nil, errors.New("the grant is the user's, and the request's user has no id")
	}
	t := &turn{connector: c, tenant: tenant, user: user}
	waitCtx, span := c.events.Start(ctx, event.Span{Name: event.Wait, Awaits: string(AwaitTurn)})
	var err error
	if t.Turn, err = c.host.config.State.node.Begin(waitCtx, key, seed, resend && !c.config.NeverResend); err != nil {
		err = t.error(ctx, err, nil)
	}
	span.End(event.End{Err: err})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// turn is the turn of a connector's grant.
type turn struct {
	*lease.Turn
	connector    *Connector
	tenant, user string
}

var _ hostfn.Turn = (*turn)(nil)

// error returns an error of package lease as one of this package, and logs the loss of the grant. cause is nil if an earlier
// call has lost it.
func (t *turn) error(ctx context.Context, err, cause error) error {
	c := t.connector
	g := &GrantError{Connector: c.config.Name, Tenant: t.tenant, User: t.user, Condition: ConditionLost, Renew: c.plan.Renewal, Err: cause}
	var answer *hostfn.TokenError
	if errors.As(cause, &answer) {
		g.Err = (*TokenError)(answer)
	}
	var lost *lease.LostError
	var uncertain *lease.UncertainError
	level := contract.LevelError
	switch {
	case errors.As(err, &uncertain):
		if !c.config.NeverResend {
			g.Condition, g.RetryAfter, level = ConditionUncertain, uncertain.Wait, contract.LevelWarn
		}
	case errors.As(err, &lost):
		if lost.Refused {
			g.Condition = ConditionRefused
		}
	case errors.Is(err, lease.ErrNotConnected):
		g.Condition, g.Renew = ConditionNotConnected, connectFirst
		return g
	default:
		return stateError(err)
	}
	switch {
	case cause != nil:
		c.log.line(ctx, level, g.Error())
	case g.Condition != ConditionUncertain:
		c.log.seldom(ctx, g.Error())
	}
	return g
}

// Intent implements hostfn.Turn.
func (t *turn) Intent(ctx context.Context) (context.Context, context.CancelFunc, error) {
	intentCtx, cancel, err := t.Turn.Intent(ctx)
	if err != nil {
		return nil, nil, hostfn.Passing(err) // nothing was sent
	}
	return intentCtx, cancel, nil
}

// Refused implements hostfn.Turn.
func (t *turn) Refused(ctx context.Context, cause error) error {
	return t.error(ctx, t.Turn.Refused(ctx), cause)
}

// Unknown implements hostfn.Turn.
func (t *turn) Unknown(ctx context.Context, wait func(count int) time.Duration, cause error) error {
	if t.connector.config.NeverResend {
		return t.Lost(ctx, cause)
	}
	return t.error(ctx, t.Turn.Unknown(ctx, wait), cause)
}

// Lost implements hostfn.Turn.
func (t *turn) Lost(ctx context.Context, cause error) error {
	return t.error(ctx, t.Turn.Lost(ctx), cause)
}
