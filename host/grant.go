package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/internal/contract"
)

// grantKey returns the name of the grant of the context's user in the store, and whose it is. A secret of the client, the
// configuration and the plugin's bytes are no part of it: the grant outlives them.
func (c *Connector) grantKey(ctx context.Context) (key lease.Key, tenant, user string) {
	u, _ := UserFrom(ctx)
	parts := []string{"grant", c.plan.Owner, c.auth.Type}
	if c.plan.GrantOwner.Tenant {
		tenant = u.TenantID
		parts = append(parts, "tenant", tenant)
	}
	if c.plan.GrantOwner.User {
		user = u.ID
		parts = append(parts, "user", user)
	}
	return lease.Key{Partition: c.node.Partition(parts...)}, tenant, user
}

// turns implements the fields of [hostfn.Turns].
type turns struct{ *Connector }

// begin takes the turn of the grant of a call. resend is not set if the call has no need of a token that may have been sent.
func (c turns) begin(ctx context.Context, seed []byte, resend bool) (*lease.Turn, error) {
	key, _, user := c.grantKey(ctx)
	if seed != nil && c.plan.GrantOwner.User && user == "" {
		return nil, errors.New("the grant is the user's, and the request's user has no id")
	}
	waitCtx, span := c.events.Start(ctx, event.Span{Name: event.Wait, Awaits: event.AwaitTurn})
	turn, err := c.node.Begin(waitCtx, key, seed, resend && !c.config.NeverResend)
	if err != nil {
		err = c.error(ctx, err, nil)
	}
	span.End(event.End{Err: err})
	return turn, err
}

// error returns an error of package lease as one of this package, and logs the loss of the grant. cause is nil if an earlier call lost it.
func (c turns) error(ctx context.Context, err, cause error) error {
	_, tenant, user := c.grantKey(ctx)
	e := &GrantError{Connector: c.plan.Owner, Tenant: tenant, User: user, Condition: ConditionLost, Err: cause, renewal: c.plan.Renewal}
	var lost *lease.LostError
	var uncertain *lease.UncertainError
	level := contract.LevelError
	switch {
	case errors.As(err, &uncertain) && !c.config.NeverResend:
		e.Condition, e.RetryAfter, level = ConditionUncertain, uncertain.Wait, contract.LevelWarn
	case errors.As(err, &lost) && lost.Refused:
		e.Condition = ConditionRefused
	case uncertain != nil, lost != nil: // it is lost
	case errors.Is(err, lease.ErrNotConnected):
		e.Condition = ConditionNotConnected
		return e
	default:
		return stateError(err)
	}
	switch {
	case cause != nil:
		c.log.line(ctx, level, e.Error())
	case e.Condition != ConditionUncertain:
		c.log.seldom(ctx, e.Error())
	}
	return e
}

// grantTime returns a context for a change of a grant, which may have to wait for another node that holds a lease and then exchanges.
func (c *Connector) grantTime(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, c.node.Lease()+c.plan.ExchangeTime)
}

// grantName returns the name of the grant of the context's user, which is a part of the partition of what was got with it. If
// there is no grant, the error wraps a [GrantError], and no plugin runs: one may have cached what it got in the run of connect, which
// has no grant yet. If the store fails, the name that was last known counts: access tokens are used to their end.
func (c *Connector) grantName(ctx context.Context) (string, error) {
	if err := c.canConsent(ctx); err != nil {
		return "", err
	}
	key, tenant, user := c.grantKey(ctx)
	names, now := &c.host.grants, c.plan.Clock()
	name, fresh, epoch := names.ask(key, now)
	if fresh {
		return name, nil
	}
	// The answer is for all requests, so it counts even if the request that asks is cancelled.
	found, err := c.node.Look(context.WithoutCancel(ctx), key)
	switch {
	case err != nil && name != "":
		return name, nil
	case err != nil:
		return "", c.stateFailure("the grant cannot be read", err)
	case found.Grant == "": // another node may know a new one at any time
		names.cache.Remove(key)
		return "", c.fail(StageToken, &GrantError{Connector: c.plan.Owner, Tenant: tenant, User: user, Condition: ConditionNotConnected})
	}
	names.remember(key, found.Grant, now, epoch)
	return found.Grant, nil
}

// grantKnown is the time for which a host uses what it has got with a grant without asking the store whether the grant is still the same.
const grantKnown = 30 * time.Second

// knownGrants remembers the names of grants, and when the store was asked for them.
type knownGrants struct {
	mu    sync.Mutex
	cache *lru.Cache[lease.Key, knownGrant]
	// forgotten is the number of grants that this host has taken back or replaced. A name that was asked for before is not
	// remembered after it has risen: it may be that of the grant before.
	forgotten int
}

type knownGrant struct {
	name    string
	askTime time.Time
}

// ask returns the name of a grant, or "" if it is not remembered. Unless it is fresh, the caller must ask the store, and then call
// remember with epoch. Other calls use the name meanwhile.
func (k *knownGrants) ask(key lease.Key, now time.Time) (name string, fresh bool, epoch int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	grant, ok := k.cache.Get(key)
	age := now.Sub(grant.askTime)
	fresh = ok && age >= 0 && age < grantKnown
	if ok && !fresh {
		k.cache.Add(key, knownGrant{grant.name, now})
	}
	return grant.name, fresh, k.forgotten
}

// remember remembers a name, unless a grant was forgotten since ask returned epoch.
func (k *knownGrants) remember(key lease.Key, name string, now time.Time, epoch int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.forgotten == epoch {
		k.cache.Add(key, knownGrant{name, now})
	}
}

func (k *knownGrants) forget(key lease.Key) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.forgotten++
	k.cache.Remove(key)
}

// Connection returns the condition of the connection of the context's user, or of the operator if the context has no user. The error is
// an [Error]: of [StageToken] if the store cannot be read, of [StageConfig] if the auth type has no consent, and of [StageTemplate] if the
// user's ID cannot be used.
func (c *Connector) Connection(ctx context.Context) (Connection, error) {
	if err := c.canConsent(ctx); err != nil {
		return Connection{}, err
	}
	key, _, _ := c.grantKey(ctx)
	found, err := c.node.Look(ctx, key)
	if err != nil {
		return Connection{}, c.stateFailure("the connection cannot be read", err)
	}
	condition := Condition(found.Standing)
	if condition == ConditionUncertain && c.config.NeverResend {
		condition = ConditionLost
	}
	return Connection{condition, found.Age}, nil
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
	if err := c.enterConsent(ctx); err != nil {
		return err
	}
	defer c.runner.Gate.Leave()
	key, _, _ := c.grantKey(ctx)
	limited, cancel := c.grantTime(ctx)
	defer cancel()
	token, err := c.node.Forget(limited, key)
	c.host.grants.forget(key)
	switch {
	case errors.Is(err, lease.ErrUnread):
		return fmt.Errorf("%w: %w", ErrNotRevoked, c.fail(StageToken, err))
	case err != nil:
		return c.stateFailure("the grant cannot be forgotten", err)
	case token == nil || !c.plugin.Guest.Has(contract.ExportDisconnect):
		return nil
	}
	if err := c.runConsent(ctx, contract.ExportDisconnect, lease.NewTurn(token), nil, nil); err != nil {
		return fmt.Errorf("%w: %w", ErrNotRevoked, err)
	}
	return nil
}

// ErrNotRevoked means that [Connector.Disconnect] has forgotten a grant, and that the authorization server may still accept it.
var ErrNotRevoked = errors.New("the grant is forgotten here, but the authorization server has not revoked it")
