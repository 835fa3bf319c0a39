// Plugin tokenexchange exchanges a token, such as the user's, for one for the API: with a token exchange (RFC 8693), as
// Microsoft Entra does on behalf of a user, or in two steps with an assertion for another authorization server (ID-JAG).
package main

import (
	"errors"

	"github.com/keywright/keywright/plugins/internal/oauth"
	"github.com/keywright/keywright/sdk"
)

const (
	// types is the prefix of the token types of RFC 8693 section 3.
	types = "urn:ietf:params:oauth:token-type:"
	// tokenExchange and onBehalfOf are the values of the field grant_type.
	tokenExchange, onBehalfOf = "token_exchange", "on_behalf_of"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "token_exchange",
		Version: "1.0.0",
		Summary: "A bearer token that another token, such as the user's, is exchanged for (RFC 8693), cached until a minute before it expires.",
		Uses:    []sdk.Group{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign},
		Fields: sdk.Fields(
			tokens(),
			oauth.Request("https://sts.googleapis.com/v1/token"),
			oauth.Client("", oauth.Post, oauth.Basic, oauth.PrivateKeyJWT, oauth.TLS, oauth.None),
			assertion(),
			oauth.Client("assertion_", oauth.None, oauth.Post, oauth.Basic, oauth.PrivateKeyJWT, oauth.TLS),
			oauth.Key(oauth.Signs(""), oauth.Signs("assertion_")),
			[]sdk.Field{oauth.TokenType()},
		),
		Answers: []sdk.Answer{
			{Name: "assertion", From: "json:/access_token", Kind: sdk.AnswerSealed, Sinks: []sdk.Sink{sdk.ToToken}, Required: true},
			{Name: "token_type", From: "json:/token_type", Kind: sdk.AnswerEnum, Enum: []string{"N_A", "Bearer", "BearerToken", "DPoP"}},
		},
	}
}

// tokens returns the fields of the tokens that are exchanged, RFC 8693 section 2.1.
func tokens() []sdk.Field {
	token, suggested := []sdk.Sink{sdk.ToToken}, []string{types + "access_token", types + "id_token", types + "jwt", types + "id-jag"}
	standard := []sdk.Condition{{Field: "grant_type", Values: []string{tokenExchange}}}
	return []sdk.Field{
		{Name: "grant_type", Kind: sdk.String, Enum: []string{tokenExchange, onBehalfOf}, Default: tokenExchange, Doc: "RFC 8693, or the grant of Microsoft Entra."},
		{Name: "subject_token", Kind: sdk.String, Required: true, Sealed: true, Sinks: token, Doc: "The token to exchange."},
		{
			Name: "subject_token_type", Kind: sdk.String, OnlyIf: standard, Sinks: token, Default: types + "access_token", Suggested: suggested[:3],
			Doc: "Type of subject_token.",
		},
		{Name: "actor_token", Kind: sdk.String, OnlyIf: standard, Sealed: true, Sinks: token, Doc: "Token of who acts for the subject."},
		{
			Name: "actor_token_type", Kind: sdk.String, OnlyIf: []sdk.Condition{{Field: "actor_token"}}, Sinks: token, Default: types + "access_token",
			Suggested: suggested[:3], Doc: "Type of actor_token.",
		},
		{Name: "requested_token_type", Kind: sdk.String, Sinks: token, Suggested: suggested, Doc: "Type of the token to get."},
	}
}

// assertion returns the fields of the second step.
func assertion() []sdk.Field {
	parameters, sinks := oauth.Parameters("assertion_parameters"), []sdk.Sink{sdk.ToToken, sdk.ToClaim}
	parameters.OnlyIf = []sdk.Condition{{Field: "assertion_url"}}
	return []sdk.Field{
		{Name: "assertion_url", Kind: sdk.URL, Sinks: sinks, Doc: "Second token endpoint, which gets the token of the first as an assertion (RFC 7523)."},
		parameters,
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	problems := oauth.Problems(c, "subject_token", "subject_token_type", "actor_token", "actor_token_type", "requested_token_type",
		"requested_token_use", "assertion")
	return append(problems, oauth.ParameterProblems(c, "assertion_parameters", "assertion")...)
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	if token, ok := c.Cached("access_token"); ok {
		return sdk.Bearer(token), nil
	}
	token, err := oauth.OfClient(c, func() (sdk.Token, error) { return exchange(c) })
	if err != nil {
		return sdk.Mutation{}, err
	}
	if token.TokenType == "n_a" && c.Config("requested_token_type") != "" { // RFC 8693 section 2.2.1
		token.TokenType = ""
	}
	return oauth.Bearer(c, token)
}

// exchange returns the token for the API, which one endpoint or two have issued.
func exchange(c *sdk.Call) (sdk.Token, error) {
	request, err := oauth.TokenRequest(c, grant(c)...)
	if err != nil {
		return sdk.Token{}, err
	}
	if c.Config("assertion_url") == "" {
		return c.RequestToken(request)
	}
	answers, err := c.ExchangeOK("the token endpoint", sdk.Exchange{URL: request.URL, Form: request.Form, Headers: request.Headers})
	switch {
	case err != nil:
		return sdk.Token{}, err
	case answers["token_type"] != "" && answers["token_type"] != "N_A" && answers["token_type"] != "other":
		// An access token is for the servers of the first endpoint, and none of the second's business.
		return sdk.Token{}, errors.New("token_url answered with an access token in place of an assertion for assertion_url: set requested_token_type")
	}
	return redeem(c, answers["assertion"])
}

// redeem sends an assertion to assertion_url, and returns the token for the API.
func redeem(c *sdk.Call, assertion string) (sdk.Token, error) {
	further, err := sdk.Parameters(c.Config("assertion_parameters"))
	if err != nil {
		return sdk.Token{}, err
	}
	url := c.Config("assertion_url")
	form, headers := oauth.Authenticate(c, "assertion_", url, []sdk.Pair{
		{Name: "grant_type", Value: oauth.JWTBearer}, {Name: "assertion", Value: assertion},
	})
	return c.RequestToken(sdk.TokenRequest{URL: url, Form: append(form, further...), Headers: headers})
}

// grant returns the parameters of the grant: those of RFC 8693 section 2.1, or those of Microsoft Entra.
func grant(c *sdk.Call) (form []sdk.Pair) {
	subject := c.Config("subject_token")
	if c.Config("grant_type") == onBehalfOf {
		form = []sdk.Pair{
			{Name: "grant_type", Value: oauth.JWTBearer},
			{Name: "requested_token_use", Value: onBehalfOf},
			{Name: "assertion", Value: subject},
		}
	} else {
		form = []sdk.Pair{
			{Name: "grant_type", Value: "urn:ietf:params:oauth:grant-type:token-exchange"},
			{Name: "subject_token", Value: subject},
			{Name: "subject_token_type", Value: c.Config("subject_token_type")},
		}
		if actor := c.Config("actor_token"); actor != "" {
			form = append(form, sdk.Pair{Name: "actor_token", Value: actor}, sdk.Pair{Name: "actor_token_type", Value: c.Config("actor_token_type")})
		}
	}
	return oauth.Optional(form, "requested_token_type", c.Config("requested_token_type"))
}
