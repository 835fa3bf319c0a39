package main

import (
	"github.com/keywright/keywright/plugins/internal/oauth"
	"github.com/keywright/keywright/sdk"
)

// noPKCE is a value of the field pkce.
const noPKCE = "none"

// fields returns the fields of the grant.
func fields() []sdk.Field {
	token, both := []string{sdk.ToToken}, []string{sdk.ToToken, sdk.ToClaim}
	refresh := oauth.Parameters("refresh_parameters")
	refresh.Doc = "Parameters of the requests with a refresh token, in place of parameters."
	return []sdk.Field{
		{Name: "authorization_url", Kind: sdk.URL, Required: true, Doc: "Authorization endpoint, to which the user's browser goes."},
		{Name: "token_url", Kind: sdk.URL, Required: true, Sinks: both, Doc: "Token endpoint."},
		{Name: "refresh_url", Kind: sdk.URL, Sinks: both, Doc: "Token endpoint for refresh tokens, if it is another."},
		{Name: "revocation_url", Kind: sdk.URL, Doc: "Revocation endpoint (RFC 7009), which is asked when a user disconnects."},
		{Name: "issuer", Kind: sdk.URL, Doc: "Identifier of an authorization server that sends iss (RFC 9207). An answer without it is refused then."},
		{Name: "scope", Kind: sdk.String, Doc: "Scopes to request, separated by spaces."},
		{Name: "audience", Kind: sdk.String, Doc: "Names of the APIs that the token is for, separated by spaces."},
		{Name: "resource", Kind: sdk.String, Sinks: token, Doc: "URIs of the APIs that the token is for (RFC 8707), separated by spaces."},
		{Name: "authorization_parameters", Kind: sdk.Object, Doc: "Further parameters of the authorization request, such as access_type. A list repeats a parameter."},
		oauth.Parameters("parameters"),
		refresh,
		{Name: "pkce", Kind: sdk.String, Enum: []string{"S256", noPKCE}, Default: "S256", Doc: "PKCE (RFC 7636), or none for a server that refuses it."},
		{Name: "callback_code_parameter", Kind: sdk.String, Default: "code", Doc: "Parameter with which the browser brings the code."},
		{Name: "token_code_parameter", Kind: sdk.String, Default: "code", Doc: "Parameter of the token request that has the code."},
	}
}

// client returns the fields of a client, whose identifier a browser sees.
func client() []sdk.Field {
	fields := oauth.Client("", oauth.Post, oauth.Basic, oauth.PrivateKeyJWT, oauth.TLS, oauth.None)
	fields[0].Required, fields[0].RequiredIf = true, nil
	return fields
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	problems := append(oauth.HeaderProblems(c), oauth.DialectProblems(c)...)
	for _, field := range []string{"parameters", "refresh_parameters"} {
		problems = append(problems, oauth.ParameterProblems(c, field, "scope", "resource", "code", "code_verifier", "redirect_uri", oauth.RefreshToken)...)
	}
	pkce, _ := c.Literal("pkce")
	way, _ := c.Literal("client_auth")
	if _, headers := c.Literal("token_headers"); pkce == noPKCE && way == oauth.None && !headers {
		problems = append(problems, sdk.Problem{Field: "pkce", Message: "must be S256 for a public client: nothing else binds its codes to it"})
	}
	return append(problems, oauth.ParameterProblems(c, "authorization_parameters", "scope", "audience", "resource",
		"response_type", "response_mode", "redirect_uri", "state", "nonce", "code_challenge", "code_challenge_method")...)
}
