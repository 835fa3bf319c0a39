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
	token := []string{sdk.ToToken}
	own := []sdk.Field{
		{Name: "token_url", Kind: sdk.URL, Required: true, Sinks: []string{sdk.ToToken, sdk.ToClaim}, Doc: "Token endpoint."},
		{Name: "scope", Kind: sdk.String, Sinks: token, Doc: "Scopes to request, separated by spaces."},
		{Name: "audience", Kind: sdk.String, Sinks: token, Doc: "Name of the API that the token is for, as some token endpoints want it."},
		{Name: "resource", Kind: sdk.String, Sinks: token, Doc: "URIs of the APIs that the token is for (RFC 8707), separated by spaces."},
		oauth.Parameters("parameters"),
	}
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "oauth_client_credentials",
		Version: "1.1.0",
		Summary: "A bearer token from the OAuth 2.0 client credentials grant, cached until a minute before it expires.",
		Uses:    []string{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign},
		Fields: sdk.Fields(oauth.Client("", oauth.Post, oauth.Basic, oauth.PrivateKeyJWT, oauth.TLS), own,
			oauth.Key(sdk.Condition{Field: "client_auth", Values: []string{oauth.PrivateKeyJWT}})),
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	return append(oauth.Problems(c, "parameters", "scope", "audience", "resource"), oauth.HeaderProblems(c)...)
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	if token, ok := c.Cached("access_token"); ok {
		return sdk.Bearer(token), nil
	}
	return exchange(c)
}

//go:noinline
func exchange(c *sdk.Call) (sdk.Mutation, error) {
	url := c.Config("token_url")
	form, headers := oauth.Authenticate(c, "", url, []sdk.Pair{{Name: "grant_type", Value: "client_credentials"}})
	form = oauth.Optional(form, "scope", c.Config("scope"))
	form = oauth.Optional(form, "audience", c.Config("audience"))
	form = oauth.Words(form, "resource", c.Config("resource"))
	token, err := oauth.Request(c, sdk.TokenRequest{URL: url, Form: form, Headers: headers}, "parameters")
	if err != nil {
		return sdk.Mutation{}, err
	}
	return oauth.Bearer(c, token)
}
