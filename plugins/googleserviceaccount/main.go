// Plugin googleserviceaccount authenticates a service account of Google Cloud, with the key file that Google hands out.
package main

import (
	"errors"
	"strings"
	"time"

	"github.com/keywright/keywright/plugins/internal/oauth"
	"github.com/keywright/keywright/sdk"
)

// lifetime is the lifetime of signed JWTs, which Google limits to an hour, and that of its ID tokens.
const lifetime = time.Hour

// Kinds of tokens, in Google's words: the values of the field token_type.
const accessToken, idToken, selfSigned = "access_token", "id_token", "self_signed_jwt"

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	claim := []sdk.Sink{sdk.ToClaim}
	typeIs := func(kinds ...string) []sdk.Condition { return []sdk.Condition{{Field: "token_type", Values: kinds}} }
	requested := typeIs(accessToken, idToken)
	return sdk.Description{
		ABI: sdk.ABI, Type: "google_service_account", Version: "1.0.0",
		Summary: "An access token, ID token or self-signed JWT of a Google service account, cached until a minute before it expires.",
		Uses:    []sdk.Group{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign},
		Fields: []sdk.Field{
			{Name: "client_email", Kind: sdk.String, Required: true, Sinks: claim, Doc: "client_email of the key file."},
			{
				Name: "private_key", Kind: sdk.Key, Required: true, AlgorithmField: "algorithm", Doc: "private_key of the key file.",
				Obtain: "In the Google Cloud console: IAM, Service Accounts, Keys, Add key, JSON.",
			},
			{Name: "private_key_id", Kind: sdk.String, RequiredIf: typeIs(selfSigned), Sinks: claim, Doc: "private_key_id of the key file."},
			{Name: "algorithm", Kind: sdk.String, Enum: []string{"RS256"}, Default: "RS256", Doc: "Signature algorithm: Google knows one."},
			{Name: "token_type", Kind: sdk.String, Enum: []string{accessToken, idToken, selfSigned}, Default: accessToken, Doc: "What the API gets."},
			{
				Name: "token_url", Kind: sdk.URL, RequiredIf: requested, OnlyIf: requested, Sinks: []sdk.Sink{sdk.ToToken, sdk.ToClaim},
				Suggested: []string{"https://oauth2.googleapis.com/token"}, Doc: "token_uri of the key file.",
			},
			{Name: "scope", Kind: sdk.String, RequiredIf: typeIs(accessToken), OnlyIf: typeIs(accessToken, selfSigned), Sinks: claim, Doc: "Scopes, separated by spaces."},
			{Name: "audience", Kind: sdk.String, OnlyIf: typeIs(selfSigned), Sinks: claim, Doc: "In place of scope: the service, such as https://pubsub.googleapis.com/."},
			{
				Name: "target_audience", Kind: sdk.String, RequiredIf: typeIs(idToken), OnlyIf: typeIs(idToken), Sinks: claim,
				Doc: "URL of a Cloud Run service, or client ID of an application behind IAP.",
			},
			{Name: "subject", Kind: sdk.String, OnlyIf: typeIs(accessToken), Sinks: claim, Doc: "User to act for, by domain-wide delegation."},
		},
		Answers: []sdk.Answer{{Name: "id_token", From: "json:/id_token", Kind: sdk.AnswerSealed, Sinks: []sdk.Sink{sdk.ToHeader}, Required: true}},
	}
}

const either = "a self-signed JWT has either audience or scope: set one of them"

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	kind, _ := c.Literal("token_type")
	scope, _ := c.Literal("scope")
	audience, _ := c.Literal("audience")
	if kind == selfSigned && scope != "" && audience != "" {
		return []sdk.Problem{{Field: "audience", Message: "is there beside scope: " + either}}
	}
	return nil
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	token, err := c.CachedToken("token", issue)
	return sdk.Bearer(token), err
}

// issue returns a new token and its lifetime.
func issue(c *sdk.Call) (token string, expires time.Duration, err error) {
	switch c.Config("token_type") {
	case selfSigned:
		token, err = sign(c)
		return token, lifetime, err
	case idToken:
		token, err = oauth.InTime(c, func() (string, error) { return requestIDToken(c) })
		return token, lifetime, err
	}
	url := c.Config("token_url")
	claims := []sdk.Pair{{Name: "aud", Value: url}, {Name: "scope", Value: scopes(c)}, {Name: "sub", Value: c.Config("subject")}}
	answer, err := oauth.InTime(c, func() (sdk.Token, error) {
		return c.RequestToken(sdk.TokenRequest{URL: url, Form: grant(c.SignAssertion(unsigned(c, claims)))})
	})
	if err == nil {
		_, err = answer.Bearer() // refuses other types of tokens
	}
	return answer.AccessToken, answer.ExpiresIn, err
}

// sign returns a self-signed JWT, which many of Google's APIs take in place of an access token.
func sign(c *sdk.Call) (string, error) {
	scope, audience := scopes(c), c.Config("audience")
	if (scope == "") == (audience == "") {
		return "", errors.New(either)
	}
	claims := []sdk.Pair{{Name: "sub", Value: c.Config("client_email")}, {Name: "aud", Value: audience}, {Name: "scope", Value: scope}}
	return c.SignJWT(unsigned(c, claims)), nil
}

// scopes returns the field scope, with one space between them (RFC 6749 section 3.3).
func scopes(c *sdk.Call) string { return strings.Join(strings.Fields(c.Config("scope")), " ") }

// requestIDToken returns an ID token. It is no access token, so the endpoint's answer is not one of RFC 6749.
func requestIDToken(c *sdk.Call) (string, error) {
	url := c.Config("token_url")
	claims := []sdk.Pair{{Name: "aud", Value: url}, {Name: "target_audience", Value: c.Config("target_audience")}}
	status, answers := c.Exchange(sdk.Exchange{URL: url, Form: grant(c.SignAssertion(unsigned(c, claims)))})
	if status > 399 {
		return "", errors.New("check client_email, private_key and the host's clock")
	}
	return answers["id_token"], nil
}

// grant returns the form of the JWT bearer grant (RFC 7523 section 2.1).
func grant(assertion string) []sdk.Pair {
	return []sdk.Pair{{Name: "grant_type", Value: oauth.JWTBearer}, {Name: "assertion", Value: assertion}}
}

// unsigned returns a JWT with the claims that all have, and those of more that have a value.
func unsigned(c *sdk.Call, more []sdk.Pair) sdk.JWT {
	var header, claims sdk.Members
	if id := c.Config("private_key_id"); id != "" {
		header.String("kid", id)
	}
	claims.String("iss", c.Config("client_email"))
	for _, p := range sdk.Present(more) {
		claims.String(p.Name, p.Value)
	}
	now := c.Now() + c.ClockOffset()
	claims.Integer("iat", now)
	claims.Integer("exp", now+int64(lifetime/time.Second))
	return sdk.JWT{Key: "private_key", Header: header.JSON(), Claims: claims.JSON()}
}
