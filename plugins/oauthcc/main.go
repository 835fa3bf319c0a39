// Plugin oauthcc adds an access token that it requests with the client credentials grant, RFC 6749 section 4.4.
package main

import (
	"github.com/keywright/keywright/plugins/internal/oauth"
	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	return sdk.Description{
		ABI: sdk.ABI, Type: "oauth_client_credentials", Version: "1.2.0",
		Summary: "A bearer token from the OAuth 2.0 client credentials grant, cached until a minute before it expires.",
		Uses:    []sdk.Group{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign},
		Fields:  oauth.Fields(nil, oauth.Ways(oauth.Post, false), true),
		Answers: oauth.Answers(oauth.URL()), Challenge: oauth.Challenge(),
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem { return oauth.Problems(c) }

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	return oauth.Exchange(c, func() []sdk.Pair { return []sdk.Pair{{Name: "grant_type", Value: "client_credentials"}} })
}
