// Plugin oauthcc adds an access token that it requests with the client credentials grant, RFC 6749 section 4.4.
package main

import (
	"time"

	"github.com/keywright/keywright/sdk"
)

// margin is the time before a token's expiry in which the token is not used.
const margin = 60 * time.Second

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	token := []string{sdk.ToToken}
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "oauth_client_credentials",
		Version: "1.0.0",
		Summary: "A bearer token from the OAuth 2.0 client credentials grant, cached until a minute before it expires.",
		Uses:    []string{sdk.UsesToken, sdk.UsesCache},
		Fields: []sdk.Field{
			{Name: "client_id", Kind: sdk.String, Required: true, Sinks: token, Doc: "OAuth client identifier."},
			{Name: "client_secret", Kind: sdk.String, Required: true, Sealed: true, Sinks: token, Doc: "OAuth client secret."},
			{Name: "token_url", Kind: sdk.URL, Required: true, Sinks: token, Doc: "Token endpoint."},
			{Name: "scope", Kind: sdk.String, Sinks: token, Doc: "Scopes to request, separated by spaces."},
		},
	}
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	if token, ok := c.Cached("access_token"); ok {
		return sdk.Bearer(token), nil
	}
	form := []sdk.Pair{
		{Name: "grant_type", Value: "client_credentials"},
		{Name: "client_id", Value: c.Config("client_id")},
		{Name: "client_secret", Value: c.Config("client_secret")},
	}
	if scope := c.Config("scope"); scope != "" {
		form = append(form, sdk.Pair{Name: "scope", Value: scope})
	}
	token, err := c.RequestToken(sdk.TokenRequest{URL: c.Config("token_url"), Form: form})
	if err != nil {
		return sdk.Mutation{}, err
	}
	mutation, err := token.Bearer()
	if err != nil {
		return sdk.Mutation{}, err
	}
	if token.ExpiresIn > margin {
		c.Cache("access_token", token.AccessToken, token.ExpiresIn-margin)
	} else {
		c.Warn("the token is not cached: the token endpoint gave no expires_in above 60 seconds")
	}
	return mutation, nil
}
