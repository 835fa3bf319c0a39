// Plugin authcode adds an access token that a user has granted with the authorization code grant, RFC 6749 section 4.1.
package main

import (
	"errors"
	"strings"
	"time"

	"github.com/keywright/keywright/plugins/internal/oauth"
	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

// accessToken is the name of a state, and of an entry of the cache. noPKCE is a value of the field pkce.
const accessToken, noPKCE = "access_token", "none"

func (plugin) Describe() sdk.Description {
	client := oauth.Client("", oauth.Ways(oauth.Post, true)...)
	client[0].Required, client[0].RequiredIf = true, nil // a browser sees it, whatever the client is
	answers := oauth.Answers(oauth.RefreshAnswer(), oauth.URL())
	answers[0].State, answers[0].Sinks = accessToken, []sdk.Sink{sdk.ToHeader, sdk.ToDigest, sdk.ToToken} // a state as well, because there may be no other
	return sdk.Description{
		ABI: sdk.ABI, Type: "oauth_authorization_code", Version: "1.1.0",
		Summary: "A bearer token that each user grants in a browser, with the OAuth 2.0 authorization code grant and PKCE.",
		Uses:    []sdk.Group{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign, sdk.UsesState},
		Consent: true,
		Fields: sdk.Fields(
			fields(), pushFields(), client, oauth.Dialect(), []sdk.Field{oauth.RefreshFrom(), oauth.Lifetime()}, oauth.Key(oauth.Signs("")),
			oauth.Sender(false, oauth.Senders()...), oauth.Bearer(),
		),
		State:   []sdk.State{{Name: oauth.RefreshToken}, {Name: accessToken}},
		Answers: answers, Challenge: oauth.Challenge(),
	}
}

// fields returns the fields of the grant.
func fields() []sdk.Field {
	token, both := []sdk.Sink{sdk.ToToken}, []sdk.Sink{sdk.ToToken, sdk.ToClaim}
	return []sdk.Field{
		{Name: "authorization_url", Kind: sdk.URL, Required: true, Doc: "Authorization endpoint, to which the user's browser goes."},
		{Name: "token_url", Kind: sdk.URL, Required: true, Sinks: both, Doc: "Token endpoint."},
		{Name: "refresh_url", Kind: sdk.URL, Sinks: both, Doc: "Token endpoint for refresh tokens, if it is another."},
		{Name: "revocation_url", Kind: sdk.URL, Doc: "Revocation endpoint (RFC 7009), which is asked when a user disconnects."},
		{Name: "issuer", Kind: sdk.URL, RequiredIf: strict(), Doc: "Identifier of the authorization server. An answer with another iss is refused (RFC 9207)."},
		{Name: "scope", Kind: sdk.String, Doc: "Scopes to request, separated by spaces."},
		{Name: "audience", Kind: sdk.String, Doc: "Names of the APIs that the token is for, separated by spaces."},
		{Name: "resource", Kind: sdk.String, Sinks: token, Doc: "URIs of the APIs that the token is for (RFC 8707), separated by spaces."},
		{Name: "authorization_parameters", Kind: sdk.Object, Doc: "Further parameters of the authorization request, such as access_type. A list repeats a parameter."},
		oauth.Parameters("parameters"),
		{Name: "refresh_parameters", Kind: sdk.Object, Sinks: token, Doc: "Parameters of the requests with a refresh token, in place of parameters."},
		{Name: "pkce", Kind: sdk.String, Enum: []string{"S256", noPKCE}, Default: "S256", Doc: "PKCE (RFC 7636), or none for a server that refuses it."},
		{Name: "callback_code_parameter", Kind: sdk.String, Default: "code", Doc: "Parameter with which the browser brings the code."},
		{Name: "token_code_parameter", Kind: sdk.String, Default: "code", Doc: "Parameter of the token request that has the code."},
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	problems := append(oauth.AssertionProblems(c), oauth.DialectProblems(c)...)
	problems = append(problems, profileProblems(c)...)
	for _, field := range []string{"parameters", "refresh_parameters"} {
		problems = append(problems, oauth.ParameterProblems(c, field, "resource", "code", "code_verifier", "redirect_uri", oauth.RefreshToken)...)
	}
	pkce, _ := c.Literal("pkce")
	way, _ := c.Literal("client_auth")
	if _, headers := c.Literal("token_headers"); pkce == noPKCE && way == oauth.None && !headers {
		problems = append(problems, sdk.Problem{Field: "pkce", Message: "must be S256 for a public client: nothing else binds its codes to it"})
	}
	return append(problems, oauth.ParameterProblems(c, "authorization_parameters", "scope", "audience", "resource",
		"response_type", "response_mode", "redirect_uri", "state", "nonce", "code_challenge", "code_challenge_method",
		"request", "request_uri", "registration", "dpop_jkt")...)
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	return oauth.Authenticate(c, func() (sdk.Token, error) {
		if refresh, ok := c.State(oauth.RefreshToken); ok {
			return redeem(c, c.First("refresh_url", "token_url"), c.First("refresh_parameters", "parameters"),
				sdk.Pair{Name: "grant_type", Value: "refresh_token"}, sdk.Pair{Name: "refresh_token", Value: refresh})
		}
		token, ok := c.State(accessToken)
		if !ok {
			return sdk.Token{}, errors.New("the grant has no token: connect again")
		}
		return oauth.KnownToken(c, token, time.Hour), nil // the grant keeps it longer
	})
}

func (plugin) Consent(c *sdk.Call) (sdk.Consent, error) {
	scope := strings.Join(strings.Fields(c.Config("scope")), " ")
	query := sdk.Present([]sdk.Pair{{Name: "client_id", Value: c.Config("client_id")}, {Name: "scope", Value: scope}})
	query = oauth.Words(c, query, "audience", "resource")
	if c.Config("sender") == oauth.DPoP { // so that the code is of use with the key only, RFC 9449 section 10
		query = append(query, sdk.Pair{Name: "dpop_jkt", Value: c.PublicKey("proof_key", sdk.JWKThumbprint)})
	}
	parameters, err := sdk.Parameters(c.Config("authorization_parameters"))
	return sdk.Consent{
		URL: c.Config("authorization_url"), Query: append(query, parameters...), Issuer: c.Config("issuer"),
		IssRequired:   c.Config("profile") == fapi2,
		CodeParameter: c.Config("callback_code_parameter"), NoPKCE: c.Config("pkce") == noPKCE, Push: push(c),
	}, err
}

func (plugin) Connect(c *sdk.Call, code sdk.Code) error {
	grant := []sdk.Pair{
		{Name: "grant_type", Value: "authorization_code"},
		{Name: c.Config("token_code_parameter"), Value: code.Code},
		{Name: "redirect_uri", Value: code.RedirectURI},
	}
	token, err := redeem(c, c.Config("token_url"), c.Config("parameters"), oauth.Optional(grant, "code_verifier", code.Verifier)...)
	if err != nil {
		return err
	}
	if _, ok := c.State(oauth.RefreshToken); !ok && token.ExpiresIn > 0 {
		c.Warn("the authorization server issued a token that expires, and no refresh token: users must connect again then. Many servers want the scope offline_access, or access_type=offline in authorization_parameters")
	}
	return oauth.CheckType(c, token)
}

// redeem asks a token endpoint for a token. The scope is that of the consent, so it is not repeated.
func redeem(c *sdk.Call, url, parameters string, grant ...sdk.Pair) (sdk.Token, error) {
	return oauth.Redeem(c, oauth.Grant{State: true, Request: func() (sdk.TokenRequest, error) {
		form, headers := oauth.AuthenticateClient(c, "", audience(c, url), grant)
		members, err := sdk.Parameters(parameters)
		return sdk.TokenRequest{URL: url, Form: append(oauth.Words(c, form, "resource"), members...), Headers: headers}, err
	}})
}

func (plugin) Disconnect(c *sdk.Call) error {
	url := c.Config("revocation_url")
	for _, hint := range []string{oauth.RefreshToken, accessToken} {
		if token, ok := c.State(hint); ok && url != "" {
			form, headers := oauth.AuthenticateClient(c, "", audience(c, c.Config("token_url")), []sdk.Pair{{Name: "token", Value: token}, {Name: "token_type_hint", Value: hint}})
			_, err := c.ExchangeOK("the revocation endpoint", sdk.Exchange{URL: url, Form: form, Headers: headers, Answers: []string{"token_type"}})
			return err
		}
	}
	return nil
}
