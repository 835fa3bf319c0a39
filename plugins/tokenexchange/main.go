// Plugin tokenexchange exchanges a token, such as the user's, for one for the API: with a token exchange (RFC 8693), as
// Microsoft Entra does on behalf of a user, or in two steps with an assertion for another authorization server (ID-JAG).
package main

import (
	"errors"
	"strings"

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
		ABI: sdk.ABI, Type: "token_exchange", Version: "1.1.0",
		Summary: "A bearer token that another token, such as the user's, is exchanged for (RFC 8693), cached until a minute before it expires.",
		Uses:    []sdk.Group{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign},
		Fields: sdk.Fields(
			tokens(), oauth.Request("https://sts.googleapis.com/v1/token"), oauth.Client("", oauth.Ways(oauth.Post, true)...), secondStep(),
			oauth.Client("assertion_", oauth.Ways(oauth.None, true)...), oauth.Key(oauth.Signs(""), oauth.Signs("assertion_")),
			oauth.Dialect(), []sdk.Field{oauth.Lifetime()}, oauth.Sender(true, oauth.Senders()...), oauth.Bearer(),
		),
		Answers: oauth.Answers(oauth.URL(),
			sdk.Answer{Name: "assertion", From: "json:/access_token", Kind: sdk.AnswerSealed, Sinks: []sdk.Sink{sdk.ToToken}, Required: true},
			sdk.Answer{Name: "impersonated", From: "json:/accessToken", Kind: sdk.AnswerSealed, Sinks: []sdk.Sink{sdk.ToHeader, sdk.ToDigest}, Required: true},
			sdk.Answer{Name: "expire_time", From: "json:/expireTime", Kind: sdk.AnswerTime},
			sdk.Answer{Name: "issued", From: "json:/token_type", Kind: sdk.AnswerEnum, Enum: []string{oauth.NoToken, "Bearer", "BearerToken", "DPoP"}},
		),
		Challenge: oauth.Challenge(),
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

// secondStep returns the fields of the second step.
func secondStep() []sdk.Field {
	parameters, sinks := oauth.Parameters("assertion_parameters"), []sdk.Sink{sdk.ToToken, sdk.ToClaim}
	parameters.OnlyIf = []sdk.Condition{{Field: "assertion_url"}}
	return []sdk.Field{
		{Name: "assertion_url", Kind: sdk.URL, Sinks: sinks, Doc: "Second token endpoint, which gets the token of the first as an assertion (RFC 7523)."},
		parameters,
		{Name: "impersonation_url", Kind: sdk.URL, Sinks: []sdk.Sink{sdk.ToToken}, Doc: "Google's generateAccessToken for a service account, which gets the token of token_url."},
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	problems := oauth.Problems(c, "subject_token", "subject_token_type", "actor_token", "actor_token_type", "requested_token_type",
		"requested_token_use", "assertion")
	_, impersonates := c.Literal("impersonation_url")
	if _, steps := c.Literal("assertion_url"); steps && impersonates {
		problems = append(problems, sdk.Problem{Field: "impersonation_url", Message: "is there beside assertion_url: remove one of them"})
	}
	return append(problems, oauth.ParameterProblems(c, "assertion_parameters", "assertion")...)
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	return oauth.Authenticate(c, func() (sdk.Token, error) {
		if c.Config("assertion_url") != "" {
			return inTwoSteps(c)
		}
		if c.Config("impersonation_url") != "" {
			return impersonate(c)
		}
		token, err := oauth.Redeem(c, oauth.Grant{Request: func() (sdk.TokenRequest, error) { return oauth.TokenRequest(c, grant(c)...) }})
		if token.TokenType == oauth.NoToken && c.Config("requested_token_type") != "" { // RFC 8693 section 2.2.1
			token.TokenType = ""
		}
		return token, err
	})
}

// firstStep returns the token of token_url, for the second step. scope, if not empty, takes the place of that of the configuration.
func firstStep(c *sdk.Call, scope string) (sdk.Answers, error) {
	return oauth.OfClient(c, func() (sdk.Answers, error) {
		r, err := oauth.TokenRequest(c, grant(c)...)
		if err != nil {
			return nil, err
		}
		for i, p := range r.Form {
			if p.Name == "scope" && scope != "" {
				r.Form[i].Value = scope
			}
		}
		return c.ExchangeOK("the token endpoint", sdk.Exchange{URL: r.URL, Form: r.Form, Headers: r.Headers, Answers: []string{"assertion", "issued"}})
	})
}

// impersonate returns a token of a service account of Google, for which impersonation_url takes the token of token_url: that needs the scope
// cloud-platform (docs.cloud.google.com/iam/docs/reference/credentials/rest/v1/projects.serviceAccounts/generateAccessToken).
func impersonate(c *sdk.Call) (sdk.Token, error) {
	if c.Config("scope") == "" {
		return sdk.Token{}, errors.New("impersonation_url needs scope")
	}
	first, err := firstStep(c, "https://www.googleapis.com/auth/cloud-platform")
	if err != nil {
		return sdk.Token{}, err
	}
	var body sdk.Members
	body.Raw("scope", sdk.Strings(strings.Fields(c.Config("scope"))))
	answers, err := c.ExchangeOK("impersonation_url", sdk.Exchange{
		URL: c.Config("impersonation_url"), Headers: []sdk.Pair{{Name: "Authorization", Value: "Bearer " + first["assertion"]}}, JSON: body.JSON(),
		Answers: []string{"impersonated", "expire_time"},
	})
	return sdk.Token{AccessToken: answers["impersonated"], TokenType: "bearer", ExpiresIn: c.Lifetime(sdk.Answers{"expires_at": answers["expire_time"]}, 0)}, err
}

// inTwoSteps returns the token that assertion_url has issued for the assertion of token_url. The first endpoint has no dialect.
func inTwoSteps(c *sdk.Call) (sdk.Token, error) {
	answers, err := firstStep(c, "")
	switch {
	case err != nil:
		return sdk.Token{}, err
	case answers["issued"] != "" && answers["issued"] != oauth.NoToken && answers["issued"] != "other":
		// An access token is for the servers of the first endpoint, and none of the second's business.
		return sdk.Token{}, errors.New("token_url answered with an access token in place of an assertion for assertion_url: set requested_token_type")
	}
	return oauth.Redeem(c, oauth.Grant{Request: func() (sdk.TokenRequest, error) {
		url := c.Config("assertion_url")
		form, headers := oauth.AuthenticateClient(c, "assertion_", url, []sdk.Pair{
			{Name: "grant_type", Value: oauth.JWTBearer}, {Name: "assertion", Value: answers["assertion"]},
		})
		further, err := sdk.Parameters(c.Config("assertion_parameters"))
		return sdk.TokenRequest{URL: url, Form: append(form, further...), Headers: headers}, err
	}})
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
