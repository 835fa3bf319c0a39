package host

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host/internal/event"
	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/lease"
)

// Condition is the condition of a grant: of what a connector has from a user or an operator to get tokens with, such as a
// refresh token.
type Condition string

// The conditions.
const (
	// ConditionNotConnected means that nobody has given consent yet, or that it was taken back.
	ConditionNotConnected Condition = "not connected"
	// ConditionConnected means that requests can be authenticated, as far as the host knows.
	ConditionConnected Condition = "connected"
	// ConditionUncertain means that the grant may have been redeemed without an answer. Until a later request has redeemed it, nobody knows.
	ConditionUncertain Condition = "uncertain"
	// ConditionLost means that the grant may have been redeemed, and what was issued is not there. It is not used again.
	ConditionLost Condition = "lost"
	// ConditionRefused means that the authorization server refuses the grant.
	ConditionRefused Condition = "refused"
)

// GrantError is the error for a grant that cannot be used until a person renews it, or for some time if it is [ConditionUncertain]. An
// [Error] of [StageToken] wraps it; find it with [errors.As].
type GrantError struct {
	// Connector is the name of the connector.
	Connector string
	// Tenant and User are the IDs of the tenant and the user whose grant it is. They are empty if it is the operator's.
	Tenant, User string
	// Condition is [ConditionNotConnected], [ConditionUncertain], [ConditionLost] or [ConditionRefused].
	Condition Condition
	// RetryAfter is the time in which requests with an [ConditionUncertain] grant get this error, without a request to the token endpoint. It
	// is the endpoint's Retry-After, or about one second at first, and twice as long after each further attempt, up to five minutes.
	RetryAfter time.Duration
	// Renew says how to renew the grant.
	Renew string
	// Err is the cause, such as a [TokenError], or nil if an earlier request has met it.
	Err error
}

// connectFirst is the Renew of a grant that is not there.
const connectFirst = "connect first"

func (e *GrantError) Error() string {
	whose := "the grant"
	switch {
	case e.User != "":
		whose += fmt.Sprintf(" of user %q", Printable(e.User))
		if e.Tenant != "" {
			whose += fmt.Sprintf(" of tenant %q", Printable(e.Tenant))
		}
	case e.Tenant != "":
		whose += fmt.Sprintf(" of tenant %q", Printable(e.Tenant))
	}
	text := whose + " may be lost, because its token was sent and no answer says what became of it, so that it is not sent again"
	renew := ": " + e.Renew
	switch e.Condition {
	case ConditionUncertain:
		text, renew = whose+" is uncertain, because its token was sent and no answer says what became of it: a later request sends it again", ""
	case ConditionRefused:
		text = whose + " is lost, because the authorization server refused its token"
	case ConditionNotConnected:
		text = "there is no grant"
		if whose != "the grant" {
			text = whose + " is not there"
		}
	}
	text += renew
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

func (e *GrantError) Unwrap() error { return e.Err }

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
	level := abi.LevelError
	switch {
	case errors.As(err, &uncertain):
		if !c.config.NeverResend {
			g.Condition, g.RetryAfter, level = ConditionUncertain, uncertain.Wait, abi.LevelWarn
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
