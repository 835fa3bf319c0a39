package hostfn

import (
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/keywright/keywright/host/internal/seal"
	"github.com/keywright/keywright/internal/printable"
)

// exchangeSink returns the sink that sealed values in a request to target must have. The user's token has no sink but Listed,
// so it goes only to hosts that the operator lists.
func (c *exchanging) exchangeSink(target string) seal.Sinks {
	if !c.plan.Names.UserToken() {
		return seal.Token
	}
	u, err := url.Parse(target)
	if err != nil {
		c.end(StageConfig, errors.New("the token URL is not a URL"))
	}
	c.asked = printable.Text(c.Scrub(u.Host), 256)
	if c.plan.ListsHost(u) {
		return seal.Listed
	}
	return seal.Token
}

// notListed ends the call if err is that of the user's token in an exchange with a host that the operator does not list.
func (c *core) notListed(err error) {
	var misuse *seal.Error
	if errors.As(err, &misuse) && misuse.Sink == seal.Token && misuse.Sinks&seal.Listed != 0 {
		c.endf(StageConfig, "user.token may not go to %s, and nothing was sent: if that host may get the tokens of users, the operator lists it in UserTokenHosts (gateway.user.jwt.token_hosts)", c.asked)
	}
}

// ttl returns the time to live of an entry. If the templates name the user's token, no entry outlives that: then it is at most
// the time until the token expires, and 0 if that is not known.
func (c *core) ttl(wanted time.Duration) time.Duration {
	switch expires := c.inputs.TokenExpires; {
	case !c.plan.Names.UserToken():
		return wanted
	case expires.IsZero():
		return 0
	default:
		return max(0, min(wanted, expires.Sub(c.plan.Clock())))
	}
}

// secrets returns the values of all secrets, and the user's token if there is one.
func (in *Inputs) secrets() []string {
	if in.User.Token == "" {
		return in.Secrets
	}
	return append(slices.Clip(in.Secrets), in.User.Token)
}
