// Plugin refreshtoken adds an access token that it requests with a refresh token, RFC 6749 section 6.
package main

import (
	"github.com/keywright/keywright/plugins/internal/oauth"
	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	seed := []sdk.Field{{
		Name: oauth.RefreshToken, Kind: sdk.String, Required: true, Sealed: true, Sinks: []sdk.Sink{sdk.ToToken},
		Doc: "Refresh token to begin with. Those that the token endpoint answers with take its place.",
	}}
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "oauth_refresh_token",
		Version: "1.0.0",
		Summary: "A bearer token from the OAuth 2.0 refresh token grant, cached until a minute before it expires. The refresh token may rotate.",
		Uses:    []sdk.Group{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign, sdk.UsesState},
		Fields: sdk.Fields(
			seed,
			oauth.Request(),
			oauth.Dialect(),
			oauth.Client("", oauth.Post, oauth.Basic, oauth.PrivateKeyJWT, oauth.TLS, oauth.None),
			oauth.Key(oauth.Signs("")),
		),
		Answers: oauth.Answers(),
		State:   []sdk.State{{Name: oauth.RefreshToken, Seed: oauth.RefreshToken}},
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	return append(oauth.Problems(c, oauth.RefreshToken), oauth.DialectProblems(c)...)
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	if token, ok := c.Cached("access_token"); ok {
		return oauth.Send(c, token), nil
	}
	return oauth.Refresh(c)
}
