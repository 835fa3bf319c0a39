package host

import (
	"context"
	"errors"

	"github.com/keywright/keywright/host/internal/hostfn"
	"github.com/keywright/keywright/host/internal/template"
)

// Identities has tokens that say who the process is, such as that of the service account of a pod. Others issue them, for minutes or
// hours, so that no secret has to be kept. A field of a configuration names one with identity('NAME', 'AUDIENCE'), where the
// audience is the party that the token is for (RFC 7519 section 4.1.3). Such a field is sealed, has the sink token, and has nothing else.
//
// The host sends a token only to the hosts that Hosts lists for its audience. What a token endpoint issues for it is kept for its claims
// iss and sub, and not for its bytes, so that a new token of the same subject costs nothing. That of another subject gets tokens anew.
type Identities interface {
	// Hosts returns the hosts of token endpoints that may get the tokens of an identity for an audience, in the form of
	// [Config].UserTokenHosts. Without any, no connector may name that identity for it.
	Hosts(name, audience string) []string
	// Identity returns a token. The host asks before each request, and once more with Exchange before a call that may send the token, so
	// an implementation should remember it. It checks the token: whom it is for, and when it begins and ends. An error wraps
	// [ErrIdentityRefused] if a person has to fix it; any other may pass. It does not quote the token.
	Identity(ctx context.Context, r IdentityRequest) (token string, err error)
}

// IdentityRequest names a token of [Identities].
type IdentityRequest struct {
	Name, Audience string
	// Exchange is set if the token is about to be sent. If a token may be sent once only, nobody else gets this one.
	Exchange bool
}

// ErrIdentityRefused means that there is a token, and that it is not what it should be: for another audience, of another subject, at its
// end, or no token at all.
var ErrIdentityRefused = errors.New("the token is refused")

// identity returns the token of an identity, which the host has: no connector names another one. An error that may pass is marked.
func (h *Host) identity(ctx context.Context, identity template.Identity, exchange bool) (string, error) {
	token, err := h.config.Identities.Identity(ctx, IdentityRequest{Name: identity.Name, Audience: identity.Audience, Exchange: exchange})
	if err != nil && !errors.Is(err, ErrIdentityRefused) {
		err = hostfn.Passing(err)
	}
	return token, err
}

func (h *Host) identityHosts(name, audience string) []string {
	if h.config.Identities == nil {
		return nil
	}
	return h.config.Identities.Hosts(name, audience)
}
