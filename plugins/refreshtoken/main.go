// Plugin refreshtoken adds an access token that it requests with a refresh token, RFC 6749 section 6.
package main

import (
	"errors"

	"github.com/keywright/keywright/plugins/internal/oauth"
	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	own := []sdk.Field{
		{
			Name: oauth.RefreshToken, Kind: sdk.String, Required: true, Sealed: true, Sinks: []sdk.Sink{sdk.ToToken},
			Doc: "Refresh token to begin with. Those that the token endpoint answers with take its place.",
		},
		oauth.RefreshFrom(),
	}
	return sdk.Description{
		ABI: sdk.ABI, Type: "oauth_refresh_token", Version: "1.1.0",
		Summary:   "A bearer token from the OAuth 2.0 refresh token grant, cached until a minute before it expires. The refresh token may rotate.",
		Uses:      []sdk.Group{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign, sdk.UsesState},
		Fields:    oauth.Fields(own, oauth.Ways(oauth.Post, true), false),
		Answers:   oauth.Answers(oauth.RefreshAnswer(), oauth.URL()),
		Challenge: oauth.Challenge(),
		State:     []sdk.State{{Name: oauth.RefreshToken, Seed: oauth.RefreshToken}},
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem { return oauth.Problems(c, oauth.RefreshToken) }

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	return oauth.Authenticate(c, func() (sdk.Token, error) {
		refresh, ok := c.State(oauth.RefreshToken)
		if !ok {
			return sdk.Token{}, errors.New("the grant has no refresh token")
		}
		return oauth.Redeem(c, oauth.Grant{State: true, Request: func() (sdk.TokenRequest, error) {
			return oauth.TokenRequest(c, sdk.Pair{Name: "grant_type", Value: "refresh_token"}, sdk.Pair{Name: "refresh_token", Value: refresh})
		}})
	})
}
