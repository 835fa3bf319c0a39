// Plugin oauthpassword adds an access token that it requests with the resource owner password credentials grant, RFC 6749
// section 4.3.
package main

import (
	"github.com/keywright/keywright/plugins/internal/oauth"
	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	token := []sdk.Sink{sdk.ToToken}
	owner := []sdk.Field{
		{Name: "username", Kind: sdk.String, Required: true, Sinks: token, Doc: "Name of the resource owner."},
		{Name: "password", Kind: sdk.String, Required: true, Sealed: true, Sinks: token, Doc: "Password of the resource owner."},
	}
	return sdk.Description{
		ABI: sdk.ABI, Type: "oauth_password", Version: "1.1.0",
		Summary: "A bearer token from the OAuth 2.0 password grant, cached until a minute before it expires.",
		Uses:    []sdk.Group{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign},
		Fields:  oauth.Fields(owner, oauth.Ways(oauth.Post, true), true),
		Answers: oauth.Answers(oauth.URL()), Challenge: oauth.Challenge(),
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem { return oauth.Problems(c, "username", "password") }

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	return oauth.Exchange(c, func() []sdk.Pair {
		return []sdk.Pair{
			{Name: "grant_type", Value: "password"}, {Name: "username", Value: c.Config("username")}, {Name: "password", Value: c.Config("password")},
		}
	})
}
