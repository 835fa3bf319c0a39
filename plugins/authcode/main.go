// Plugin authcode adds an access token that a user has granted with the authorization code grant, RFC 6749 section 4.1.
package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/keywright/keywright/plugins/internal/oauth"
	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

// accessToken is the name of a state, and of an entry of the cache.
const accessToken = "access_token"

func (plugin) Describe() sdk.Description {
	token := []string{sdk.ToToken}
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "oauth_authorization_code",
		Version: "1.0.0",
		Summary: "A bearer token that each user grants in a browser, with the OAuth 2.0 authorization code grant and PKCE.",
		Uses:    []string{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign, sdk.UsesState},
		Consent: true,
		Fields: sdk.Fields(
			[]sdk.Field{
				{Name: "authorization_url", Kind: sdk.URL, Required: true, Doc: "Authorization endpoint, to which the user's browser goes."},
				{Name: "token_url", Kind: sdk.URL, Required: true, Sinks: []string{sdk.ToToken, sdk.ToClaim}, Doc: "Token endpoint."},
				{Name: "revocation_url", Kind: sdk.URL, Doc: "Revocation endpoint (RFC 7009), which is asked when a user disconnects."},
				{Name: "issuer", Kind: sdk.URL, Doc: "Identifier of an authorization server that sends iss (RFC 9207). An answer without it is refused then."},
				{Name: "scope", Kind: sdk.String, Doc: "Scopes to request, separated by spaces."},
				{Name: "audience", Kind: sdk.String, Doc: "Names of the APIs that the token is for, separated by spaces."},
				{Name: "resource", Kind: sdk.String, Sinks: token, Doc: "URIs of the APIs that the token is for (RFC 8707), separated by spaces."},
				{Name: "authorization_parameters", Kind: sdk.Object, Doc: "Further parameters of the authorization request, such as access_type. A list repeats a parameter."},
				oauth.Parameters("parameters"),
			},
			client(),
			oauth.Key(oauth.Signs("")),
		),
		State:   []sdk.State{{Name: oauth.RefreshToken}, {Name: accessToken}},
		Answers: answers(),
	}
}

// answers returns the answers of the token endpoint. The access token is a state as well, because there may be no other.
func answers() []sdk.Answer {
	answers := oauth.Answers()
	answers[0].State, answers[0].Sinks = accessToken, []string{sdk.ToHeader, sdk.ToToken}
	return answers
}

// client returns the fields of a client, whose identifier a browser sees.
func client() []sdk.Field {
	fields := oauth.Client("", oauth.Post, oauth.Basic, oauth.PrivateKeyJWT, oauth.TLS, oauth.None)
	fields[0].Required, fields[0].RequiredIf = true, nil
	return fields
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	problems := append(oauth.HeaderProblems(c), oauth.ParameterProblems(c, "parameters", "scope", "resource", "code", "code_verifier", "redirect_uri", oauth.RefreshToken)...)
	return append(problems, oauth.ParameterProblems(c, "authorization_parameters", "scope", "audience", "resource",
		"response_type", "response_mode", "redirect_uri", "state", "nonce", "code_challenge", "code_challenge_method")...)
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	if token, ok := c.Cached(accessToken); ok {
		return sdk.Bearer(token), nil
	}
	if refresh, ok := c.State(oauth.RefreshToken); ok {
		token, err := request(c, sdk.Pair{Name: "grant_type", Value: "refresh_token"}, sdk.Pair{Name: "refresh_token", Value: refresh})
		if err != nil {
			return sdk.Mutation{}, err
		}
		return oauth.Bearer(c, token)
	}
	token, ok := c.State(accessToken)
	if !ok {
		return sdk.Mutation{}, errors.New("the grant has no token: connect again")
	}
	c.Cache(accessToken, token, lasting)
	return sdk.Bearer(token), nil
}

// lasting is the time for which an access token without a refresh token is cached. The grant keeps it longer.
const lasting = time.Hour

func (plugin) Consent(c *sdk.Call) (sdk.Consent, error) {
	query := []sdk.Pair{{Name: "client_id", Value: c.Config("client_id")}}
	query = oauth.Optional(query, "scope", strings.Join(strings.Fields(c.Config("scope")), " "))
	query = words(c, query, "audience", "resource")
	further, err := sdk.Parameters(c.Config("authorization_parameters"))
	issuer := c.Config("issuer")
	return sdk.Consent{
		URL: c.Config("authorization_url"), Query: append(query, further...), Issuer: issuer, IssRequired: issuer != "",
	}, err
}

// words adds a parameter for each word of each field.
func words(c *sdk.Call, form []sdk.Pair, fields ...string) []sdk.Pair {
	for _, name := range fields {
		for _, word := range strings.Fields(c.Config(name)) {
			form = append(form, sdk.Pair{Name: name, Value: word})
		}
	}
	return form
}

func (plugin) Connect(c *sdk.Call, code sdk.Code) error {
	token, err := request(c,
		sdk.Pair{Name: "grant_type", Value: "authorization_code"},
		sdk.Pair{Name: "code", Value: code.Code},
		sdk.Pair{Name: "redirect_uri", Value: code.RedirectURI},
		sdk.Pair{Name: "code_verifier", Value: code.Verifier},
	)
	if err != nil {
		return err
	}
	if _, ok := c.State(oauth.RefreshToken); !ok && token.ExpiresIn > 0 {
		c.Warn("the authorization server issued a token that expires, and no refresh token: users must connect again then. Many servers want the scope offline_access, or access_type=offline in authorization_parameters")
	}
	_, err = token.Bearer() // which refuses another type of token
	return err
}

// request asks the token endpoint for a token. The scope is that of the consent, so it is not repeated.
func request(c *sdk.Call, grant ...sdk.Pair) (sdk.Token, error) {
	url := c.Config("token_url")
	form, headers := oauth.Authenticate(c, "", url, grant)
	further, err := sdk.Parameters(c.Config("parameters"))
	if err != nil {
		return sdk.Token{}, err
	}
	return oauth.Redeem(c, sdk.TokenRequest{URL: url, Form: append(words(c, form, "resource"), further...), Headers: headers})
}

func (plugin) Disconnect(c *sdk.Call) error {
	url := c.Config("revocation_url")
	if url == "" {
		return nil
	}
	hint := oauth.RefreshToken
	token, ok := c.State(hint)
	if !ok {
		hint = accessToken
		if token, ok = c.State(hint); !ok {
			return nil
		}
	}
	form, headers := oauth.Authenticate(c, "", c.Config("token_url"), []sdk.Pair{{Name: "token", Value: token}, {Name: "token_type_hint", Value: hint}})
	status, _ := c.Exchange(sdk.Exchange{URL: url, Form: form, Headers: headers, Answers: []string{"token_type"}})
	if status != 200 {
		return errors.New("the revocation endpoint answered " + strconv.Itoa(status))
	}
	return nil
}
