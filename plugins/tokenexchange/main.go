// Plugin tokenexchange exchanges a token, such as the user's, for one for the API: with a token exchange (RFC 8693), as
// Microsoft Entra does on behalf of a user, or in two steps with an assertion for another authorization server (ID-JAG).
package main

import (
	"errors"
	"strconv"

	"github.com/keywright/keywright/plugins/internal/oauth"
	"github.com/keywright/keywright/sdk"
)

const (
	// types is the prefix of the token types of RFC 8693 section 3.
	types = "urn:ietf:params:oauth:token-type:"
	// onBehalfOf is the value of the field grant for the grant of Microsoft Entra.
	onBehalfOf = "on_behalf_of"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	token, both := []string{sdk.ToToken}, []string{sdk.ToToken, sdk.ToClaim}
	suggested := []string{types + "access_token", types + "id_token", types + "jwt", types + "id-jag"}
	fields := []sdk.Field{
		{
			Name: "token_url", Kind: sdk.URL, Required: true, Sinks: both,
			Suggested: []string{"https://sts.googleapis.com/v1/token"}, Doc: "Token endpoint.",
		},
		{Name: "grant", Kind: sdk.String, Enum: []string{"token_exchange", onBehalfOf}, Default: "token_exchange", Doc: "RFC 8693, or the grant of Microsoft Entra."},
		{Name: "subject_token", Kind: sdk.String, Required: true, Sealed: true, Sinks: token, Doc: "The token to exchange."},
		{Name: "subject_token_type", Kind: sdk.String, Sinks: token, Default: types + "access_token", Suggested: suggested[:3], Doc: "Type of subject_token."},
		{Name: "actor_token", Kind: sdk.String, Sealed: true, Sinks: token, Doc: "Token of who acts for the subject."},
		{Name: "actor_token_type", Kind: sdk.String, Sinks: token, Default: types + "access_token", Suggested: suggested[:3], Doc: "Type of actor_token."},
		{
			Name: "requested_token_type", Kind: sdk.String, Sinks: token, Suggested: suggested,
			Doc: "Type of the token to get.",
		},
		{Name: "audience", Kind: sdk.String, Sinks: token, Doc: "Names of the APIs that the token is for, separated by spaces."},
		{Name: "resource", Kind: sdk.String, Sinks: token, Doc: "URIs of the APIs that the token is for, separated by spaces."},
		{Name: "scope", Kind: sdk.String, Sinks: token, Doc: "Scopes to request, separated by spaces."},
		oauth.Parameters("parameters"),
		{Name: "assertion_url", Kind: sdk.URL, Sinks: both, Doc: "Second token endpoint, which gets the token of the first as an assertion (RFC 7523)."},
		oauth.Parameters("assertion_parameters"),
	}
	ways := []string{oauth.Post, oauth.Basic, oauth.PrivateKeyJWT, oauth.TLS, oauth.None}
	second := []string{oauth.None, oauth.Post, oauth.Basic, oauth.PrivateKeyJWT, oauth.TLS}
	signs := []string{oauth.PrivateKeyJWT}
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "token_exchange",
		Version: "1.0.0",
		Summary: "A bearer token that another token, such as the user's, is exchanged for (RFC 8693), cached until a minute before it expires.",
		Uses:    []string{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign},
		Fields: sdk.Fields(fields, oauth.Client("", ways...), oauth.Client("assertion_", second...),
			oauth.Key(sdk.Condition{Field: "client_auth", Values: signs}, sdk.Condition{Field: "assertion_client_auth", Values: signs})),
		Answers: []sdk.Answer{
			{Name: "assertion", From: "json:/access_token", Kind: sdk.Sealed, Sinks: token, Required: true},
			{Name: "token_type", From: "json:/token_type", Kind: sdk.Enum, Enum: []string{"N_A", "Bearer", "DPoP"}},
		},
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	problems := oauth.Problems(c, "parameters", "subject_token", "subject_token_type", "actor_token", "actor_token_type",
		"requested_token_type", "requested_token_use", "audience", "resource", "scope", "assertion")
	problems = append(problems, oauth.Problems(c, "assertion_parameters", "assertion")...)
	return append(problems, oauth.HeaderProblems(c)...)
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	if token, ok := c.Cached("access_token"); ok {
		return sdk.Bearer(token), nil
	}
	token, err := exchange(c)
	if err != nil {
		return sdk.Mutation{}, err
	}
	if token.TokenType == "n_a" && c.Config("requested_token_type") != "" { // RFC 8693 section 2.2.1
		token.TokenType = ""
	}
	return oauth.Bearer(c, token)
}

//go:noinline
func exchange(c *sdk.Call) (sdk.Token, error) {
	r := first(c)
	url := c.Config("assertion_url")
	if url == "" {
		return oauth.Request(c, r, "parameters")
	}
	further, err := sdk.Parameters(c.Config("parameters"))
	if err != nil {
		return sdk.Token{}, err
	}
	status, answers := c.Exchange(sdk.Exchange{URL: r.URL, Form: append(r.Form, further...), Headers: r.Headers})
	switch {
	case status < 200 || status > 299:
		return sdk.Token{}, errors.New("the token endpoint answered " + strconv.Itoa(status))
	case answers["token_type"] == "Bearer" || answers["token_type"] == "DPoP":
		// An access token is for the servers of the first endpoint, and none of the second's business.
		return sdk.Token{}, errors.New("token_url answered with an access token in place of an assertion for assertion_url: set requested_token_type")
	}
	form, headers := oauth.Authenticate(c, "assertion_", url, []sdk.Pair{
		{Name: "grant_type", Value: oauth.JWTBearer}, {Name: "assertion", Value: answers["assertion"]},
	})
	return oauth.Request(c, sdk.TokenRequest{URL: url, Form: form, Headers: headers}, "assertion_parameters")
}

// first returns the request to token_url, without the parameters of the configuration.
//
//go:noinline
func first(c *sdk.Call) sdk.TokenRequest {
	r := sdk.TokenRequest{URL: c.Config("token_url")}
	subject := c.Config("subject_token")
	if c.Config("grant") == onBehalfOf {
		r.Form = []sdk.Pair{
			{Name: "grant_type", Value: oauth.JWTBearer},
			{Name: "requested_token_use", Value: onBehalfOf},
			{Name: "assertion", Value: subject},
		}
	} else {
		r.Form = []sdk.Pair{
			{Name: "grant_type", Value: "urn:ietf:params:oauth:grant-type:token-exchange"},
			{Name: "subject_token", Value: subject},
			{Name: "subject_token_type", Value: c.Config("subject_token_type")},
		}
		if actor := c.Config("actor_token"); actor != "" {
			r.Form = append(r.Form, sdk.Pair{Name: "actor_token", Value: actor}, sdk.Pair{Name: "actor_token_type", Value: c.Config("actor_token_type")})
		}
	}
	r.Form = oauth.Optional(r.Form, "requested_token_type", c.Config("requested_token_type"))
	r.Form = oauth.Words(r.Form, "audience", c.Config("audience"))
	r.Form = oauth.Words(r.Form, "resource", c.Config("resource"))
	r.Form = oauth.Optional(r.Form, "scope", c.Config("scope"))
	r.Form, r.Headers = oauth.Authenticate(c, "", r.URL, r.Form)
	return r
}
