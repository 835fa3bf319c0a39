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
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "oauth_authorization_code",
		Version: "1.0.0",
		Summary: "A bearer token that each user grants in a browser, with the OAuth 2.0 authorization code grant and PKCE.",
		Uses:    []string{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign, sdk.UsesState},
		Consent: true,
		Fields:  sdk.Fields(fields(), client(), oauth.Dialect(), oauth.Key(oauth.Signs(""))),
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

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	if token, ok := c.Cached(accessToken); ok {
		return oauth.Send(c, token), nil
	}
	if refresh, ok := c.State(oauth.RefreshToken); ok {
		return renew(c, refresh)
	}
	token, ok := c.State(accessToken)
	if !ok {
		return sdk.Mutation{}, errors.New("the grant has no token: connect again")
	}
	c.Cache(accessToken, token, lasting)
	return oauth.Send(c, token), nil
}

// renew requests a token with a refresh token, RFC 6749 section 6, and returns the mutation that sends it.
func renew(c *sdk.Call, refresh string) (sdk.Mutation, error) {
	url, parameters := c.Config("refresh_url"), c.Config("refresh_parameters")
	if url == "" {
		url = c.Config("token_url")
	}
	if parameters == "" {
		parameters = c.Config("parameters")
	}
	token, err := request(c, url, parameters, sdk.Pair{Name: "grant_type", Value: "refresh_token"}, sdk.Pair{Name: "refresh_token", Value: refresh})
	if err != nil {
		return sdk.Mutation{}, err
	}
	return oauth.SendNew(c, token)
}

// lasting is the time for which an access token without a refresh token is cached. The grant keeps it longer.
const lasting = time.Hour

func (plugin) Consent(c *sdk.Call) (sdk.Consent, error) {
	query := []sdk.Pair{{Name: "client_id", Value: c.Config("client_id")}}
	query = oauth.Optional(query, "scope", strings.Join(strings.Fields(c.Config("scope")), " "))
	query = oauth.Words(c, query, "audience", "resource")
	further, err := sdk.Parameters(c.Config("authorization_parameters"))
	issuer := c.Config("issuer")
	return sdk.Consent{
		URL: c.Config("authorization_url"), Query: append(query, further...), Issuer: issuer, IssRequired: issuer != "",
		CodeParameter: c.Config("callback_code_parameter"), NoPKCE: c.Config("pkce") == noPKCE,
	}, err
}

func (plugin) Connect(c *sdk.Call, code sdk.Code) error {
	grant := []sdk.Pair{
		{Name: "grant_type", Value: "authorization_code"},
		{Name: c.Config("token_code_parameter"), Value: code.Code},
		{Name: "redirect_uri", Value: code.RedirectURI},
	}
	token, err := request(c, c.Config("token_url"), c.Config("parameters"), oauth.Optional(grant, "code_verifier", code.Verifier)...)
	if err != nil {
		return err
	}
	if _, ok := c.State(oauth.RefreshToken); !ok && token.ExpiresIn > 0 {
		c.Warn("the authorization server issued a token that expires, and no refresh token: users must connect again then. Many servers want the scope offline_access, or access_type=offline in authorization_parameters")
	}
	_, err = token.Bearer() // which refuses another type of token
	return err
}

// request asks a token endpoint for a token. The scope is that of the consent, so it is not repeated.
func request(c *sdk.Call, url, parameters string, grant ...sdk.Pair) (sdk.Token, error) {
	form, headers := oauth.Authenticate(c, "", url, grant)
	further, err := sdk.Parameters(parameters)
	if err != nil {
		return sdk.Token{}, err
	}
	return oauth.Redeem(c, sdk.TokenRequest{URL: url, Form: append(oauth.Words(c, form, "resource"), further...), Headers: headers})
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
