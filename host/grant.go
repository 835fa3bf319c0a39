package host

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/keywright/keywright/host/internal/connect"
	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/internal/contract"
)

// grants has the grants of a connector, of each user or of the operator.
type grants struct {
	node        *lease.Node
	plan        *connect.Plan
	authType    string
	neverResend bool
	events      *event.Stream
	log         *connectorLog
	clock       func() time.Time
	// known are the names of grants that the host remembers.
	known *knownGrants
}

// key returns the name of the grant of the context's user in the store, and whose it is. A secret of the client, the
// configuration and the plugin's bytes are no part of it: the grant outlives them.
func (g *grants) key(ctx context.Context) (key lease.Key, tenant, user string) {
	u, _ := UserFrom(ctx)
	parts := []string{"grant", g.plan.Owner, g.authType}
	if g.plan.GrantOwner.Tenant {
		tenant = u.TenantID
		parts = append(parts, "tenant", tenant)
	}
	if g.plan.GrantOwner.User {
		user = u.ID
		parts = append(parts, "user", user)
	}
	return lease.Key{Partition: g.node.Partition(parts...)}, tenant, user
}

// begin takes the turn of the grant of a call. resend is not set if the call has no need of a token that may have been sent.
func (g *grants) begin(ctx context.Context, seed []byte, resend bool) (hostfn.Turn, error) {
	key, tenant, user := g.key(ctx)
	if seed != nil && g.plan.GrantOwner.User && user == "" {
		return nil, errors.New("the grant is the user's, and the request's user has no id")
	}
	t := &turn{grants: g, tenant: tenant, user: user}
	waitCtx, span := g.events.Start(ctx, event.Span{Name: event.Wait, Awaits: event.AwaitTurn})
	var err error
	if t.Turn, err = g.node.Begin(waitCtx, key, seed, resend && !g.neverResend); err != nil {
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
	grants       *grants
	tenant, user string
}

var _ hostfn.Turn = (*turn)(nil)

// error returns an error of package lease as one of this package, and logs the loss of the grant. cause is nil if an earlier
// call has lost it.
func (t *turn) error(ctx context.Context, err, cause error) error {
	e := &GrantError{
		Connector: t.grants.plan.Owner, Tenant: t.tenant, User: t.user, Condition: ConditionLost, renewal: t.grants.plan.Renewal, Err: cause,
	}
	var answer *hostfn.TokenError
	if errors.As(cause, &answer) {
		e.Err = (*TokenError)(answer)
	}
	var lost *lease.LostError
	var uncertain *lease.UncertainError
	level := contract.LevelError
	switch {
	case errors.As(err, &uncertain):
		if !t.grants.neverResend {
			e.Condition, e.RetryAfter, level = ConditionUncertain, uncertain.Wait, contract.LevelWarn
		}
	case errors.As(err, &lost):
		if lost.Refused {
			e.Condition = ConditionRefused
		}
	case errors.Is(err, lease.ErrNotConnected):
		e.Condition, e.renewal = ConditionNotConnected, connectFirst
		return e
	default:
		return stateError(err)
	}
	switch {
	case cause != nil:
		t.grants.log.line(ctx, level, e.Error())
	case e.Condition != ConditionUncertain:
		t.grants.log.seldom(ctx, e.Error())
	}
	return e
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
	if t.grants.neverResend {
		return t.Lost(ctx, cause)
	}
	return t.error(ctx, t.Turn.Unknown(ctx, wait), cause)
}

// Lost implements hostfn.Turn.
func (t *turn) Lost(ctx context.Context, cause error) error {
	return t.error(ctx, t.Turn.Lost(ctx), cause)
}

// look returns the connection of the context's user.
func (g *grants) look(ctx context.Context) (Connection, error) {
	key, _, _ := g.key(ctx)
	found, err := g.node.Look(ctx, key)
	if err != nil {
		return Connection{}, stateError(fmt.Errorf("the connection cannot be read: %w", err))
	}
	connection := Connection{Condition: conditions[found.Standing], Age: found.Age}
	if connection.Condition == ConditionUncertain && g.neverResend {
		connection.Condition = ConditionLost
	}
	return connection, nil
}

// renew keeps what a consent has brought as the grant of the context's user.
func (g *grants) renew(ctx context.Context, token []byte) error {
	key, _, _ := g.key(ctx)
	ctx, cancel := context.WithTimeout(ctx, g.turnTime())
	defer cancel()
	err := g.node.Renew(ctx, key, token)
	g.known.forget(key)
	if err != nil {
		return stateError(fmt.Errorf("the grant cannot be kept: %w", err))
	}
	return nil
}

// forget forgets the grant of the context's user, and returns its token, if there is one. The error wraps [lease.ErrUnread] if no state
// key opens it.
func (g *grants) forget(ctx context.Context) (token []byte, err error) {
	key, _, _ := g.key(ctx)
	ctx, cancel := context.WithTimeout(ctx, g.turnTime())
	defer cancel()
	token, err = g.node.Forget(ctx, key)
	g.known.forget(key)
	if err != nil && !errors.Is(err, lease.ErrUnread) {
		err = stateError(fmt.Errorf("the grant cannot be forgotten: %w", err))
	}
	return token, err
}

// turnTime returns the time limit of a wait for another node, which may hold a lease and then exchange.
func (g *grants) turnTime() time.Duration { return g.node.Lease() + g.plan.ExchangeTime }

// name returns the name of the grant of the context's user, which is a part of the partition of what was got with it. If
// there is no grant, the error is a [GrantError], and no plugin runs: one may have cached what it got in the run of connect, which
// has no grant yet. If the store fails, the name that was last known counts: access tokens are used to their end.
func (g *grants) name(ctx context.Context) (string, error) {
	key, tenant, user := g.key(ctx)
	now := g.clock()
	name, ok, must, epoch := g.known.ask(key, now)
	if !must {
		return name, nil
	}
	// The answer is for all requests, so it counts even if the request that asks is cancelled.
	found, err := g.node.Look(context.WithoutCancel(ctx), key)
	switch {
	case err != nil && ok:
		return name, nil
	case err != nil:
		return "", stateError(fmt.Errorf("the grant cannot be read: %w", err))
	case found.Grant == "": // another node may know a new one at any time
		g.known.cache.Remove(key)
		return "", &GrantError{Connector: g.plan.Owner, Tenant: tenant, User: user, Condition: ConditionNotConnected, renewal: connectFirst}
	}
	g.known.remember(key, found.Grant, now, epoch)
	return found.Grant, nil
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

// Connection returns the condition of the connection of the context's user, or of the operator if the context has no user. The error is
// an [Error]: of [StageToken] if the store cannot be read, of [StageConfig] if the auth type has no consent, and of [StageTemplate] if the
// user's ID cannot be used.
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
