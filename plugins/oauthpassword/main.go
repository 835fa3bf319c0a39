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
	token := []string{sdk.ToToken}
	fields := []sdk.Field{
		{Name: "username", Kind: sdk.String, Required: true, Sinks: token, Doc: "Name of the resource owner."},
		{Name: "password", Kind: sdk.String, Required: true, Sealed: true, Sinks: token, Doc: "Password of the resource owner."},
		{Name: "token_url", Kind: sdk.URL, Required: true, Sinks: []string{sdk.ToToken, sdk.ToClaim}, Doc: "Token endpoint."},
		{Name: "scope", Kind: sdk.String, Sinks: token, Doc: "Scopes to request, separated by spaces."},
		oauth.Parameters("parameters"),
	}
	client := oauth.Client("", oauth.Post, oauth.Basic, oauth.PrivateKeyJWT, oauth.TLS, oauth.None)
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "oauth_password",
		Version: "1.0.0",
		Summary: "A bearer token from the OAuth 2.0 password grant, cached until a minute before it expires.",
		Uses:    []string{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign},
		Fields:  sdk.Fields(fields, client, oauth.Key(sdk.Condition{Field: "client_auth", Values: []string{oauth.PrivateKeyJWT}})),
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	return append(oauth.Problems(c, "parameters", "username", "password", "scope"), oauth.HeaderProblems(c)...)
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	if token, ok := c.Cached("access_token"); ok {
		return sdk.Bearer(token), nil
	}
	url := c.Config("token_url")
	form, headers := oauth.Authenticate(c, "", url, []sdk.Pair{
		{Name: "grant_type", Value: "password"},
		{Name: "username", Value: c.Config("username")},
		{Name: "password", Value: c.Config("password")},
	})
	form = oauth.Optional(form, "scope", c.Config("scope"))
	token, err := oauth.Request(c, sdk.TokenRequest{URL: url, Form: form, Headers: headers}, "parameters")
	if err != nil {
		return sdk.Mutation{}, err
	}
	return oauth.Bearer(c, token)
}
