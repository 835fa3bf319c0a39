package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/internal/identity"
)

// What [NewSessions] is made of.
type (
	// Identity says how the user of a request is found: "none", "jwt" or "header".
	Identity = identity.Config
	// IdentityJWT says what a session token has to be.
	IdentityJWT = identity.JWT
	// IdentityClaims has the names of the claims that become the user.
	IdentityClaims = identity.Claims
	// IdentityHeader says which headers of which proxies become the user.
	IdentityHeader = identity.Header
)

// Sessions are [Users] by an [Identity].
type Sessions struct {
	*identity.Identifier
}

var _ Users = Sessions{}

// NewSessions makes them. Keys are fetched through transport, a host's guarded one.
func NewSessions(ctx context.Context, c Identity, transport http.RoundTripper, allowHTTP bool, logger *slog.Logger) (Sessions, error) {
	i, err := identity.New(ctx, c, identity.Options{Transport: transport, AllowHTTP: allowHTTP, Clock: time.Now, Logger: logger})
	return Sessions{i}, err
}

// CheckIdentity returns everything that is wrong with one. The paths of the problems begin at it: jwt.issuer.
func CheckIdentity(c Identity, allowHTTP bool) []host.Problem {
	var all []host.Problem
	for _, p := range c.Check(allowHTTP) {
		all = append(all, host.Problem{Path: p.Path, Message: p.Message})
	}
	return all
}
