// Plugin googleserviceaccount authenticates a service account of Google Cloud, with the key file that Google hands out.
package main

import (
	"errors"
	"time"

	"github.com/keywright/keywright/sdk"
)

const (
	// margin is the time before a token's expiry in which the token is not used.
	margin = 60 * time.Second
	// lifetime is the lifetime of signed JWTs, which Google limits to an hour, and that of its ID tokens.
	lifetime = time.Hour
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	claim := []string{sdk.ToClaim}
	of := func(tokens ...string) []sdk.Condition { return []sdk.Condition{{Field: "token", Values: tokens}} }
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "google_service_account",
		Version: "1.0.0",
		Summary: "An access token, ID token or self-signed JWT of a Google service account, cached until a minute before it expires.",
		Uses:    []string{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign},
		Fields: []sdk.Field{
			{Name: "client_email", Kind: sdk.String, Required: true, Sinks: claim, Doc: "client_email of the key file."},
			{Name: "private_key", Kind: sdk.Key, Required: true, AlgorithmField: "algorithm", Doc: "private_key of the key file."},
			{Name: "private_key_id", Kind: sdk.String, RequiredIf: of("self_signed"), Sinks: claim, Doc: "private_key_id of the key file."},
			{Name: "algorithm", Kind: sdk.String, Enum: []string{"RS256"}, Default: "RS256", Doc: "Signature algorithm: Google knows one."},
			{
				Name: "token", Kind: sdk.String, Enum: []string{"access_token", "id_token", "self_signed"}, Default: "access_token",
				Doc: "What the API gets: an access token for scope, an ID token for target_audience, or a self-signed JWT.",
			},
			{
				Name: "token_url", Kind: sdk.URL, RequiredIf: of("access_token", "id_token"), Sinks: []string{sdk.ToToken, sdk.ToClaim}, Suggested: []string{"https://oauth2.googleapis.com/token"},
				Doc: "token_uri of the key file. A self-signed JWT needs none.",
			},
			{Name: "scope", Kind: sdk.String, RequiredIf: of("access_token"), Sinks: claim, Doc: "Scopes, separated by spaces, of an access token or a self-signed JWT."},
			{Name: "audience", Kind: sdk.String, Sinks: claim, Doc: "Of a self-signed JWT, in place of scope: the service, such as https://pubsub.googleapis.com/."},
			{Name: "target_audience", Kind: sdk.String, RequiredIf: of("id_token"), Sinks: claim, Doc: "Of an ID token: the URL of a Cloud Run service, or the client ID of an application behind IAP."},
			{Name: "subject", Kind: sdk.String, Sinks: claim, Doc: "Of an access token: the user to act for, by domain-wide delegation."},
		},
		Answers: []sdk.Answer{{Name: "id_token", From: "json:/id_token", Kind: sdk.Sealed, Sinks: []string{sdk.ToHeader}, Required: true}},
	}
}

const either = "a self-signed JWT has either audience or scope: set one of them"

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	kind, _ := c.Literal("token")
	scope, _ := c.Literal("scope")
	audience, _ := c.Literal("audience")
	if kind == "self_signed" && scope != "" && audience != "" {
		return []sdk.Problem{{Field: "audience", Message: "is there beside scope: " + either}}
	}
	return nil
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	if token, ok := c.Cached("token"); ok {
		return sdk.Bearer(token), nil
	}
	token, expires, err := issue(c)
	if err != nil {
		return sdk.Mutation{}, err
	}
	if expires > margin {
		c.Cache("token", token, expires-margin)
	} else {
		c.Warn("the token is not cached: the token endpoint gave no expires_in above 60 seconds")
	}
	return sdk.Bearer(token), nil
}

// issue returns a new token and its lifetime.
func issue(c *sdk.Call) (token string, expires time.Duration, err error) {
	url, scope, audience, target := c.Config("token_url"), c.Config("scope"), c.Config("audience"), c.Config("target_audience")
	kind := c.Config("token")
	switch {
	case kind == "self_signed" && (scope == "") == (audience == ""):
		return "", 0, errors.New(either)
	case kind == "self_signed":
		email := c.Config("client_email")
		return c.SignJWT(claims(c, "sub", email, "aud", audience, "scope", scope)), lifetime, nil
	case kind == "id_token":
		status, answers := c.Exchange(sdk.Exchange{URL: url, Form: grant(c.SignAssertion(claims(c, "aud", url, "target_audience", target)))})
		if status > 399 {
			return "", 0, errors.New("check client_email, private_key and the host's clock")
		}
		return answers["id_token"], lifetime, nil
	}
	answer, err := c.RequestToken(sdk.TokenRequest{
		URL: url, Form: grant(c.SignAssertion(claims(c, "aud", url, "scope", scope, "sub", c.Config("subject")))),
	})
	if err == nil {
		_, err = answer.Bearer() // refuses other types of tokens
	}
	return answer.AccessToken, answer.ExpiresIn, err
}

// grant returns the form of the JWT bearer grant (RFC 7523 section 2.1).
func grant(assertion string) []sdk.Pair {
	return []sdk.Pair{{Name: "grant_type", Value: "urn:ietf:params:oauth:grant-type:jwt-bearer"}, {Name: "assertion", Value: assertion}}
}

// claims returns a JWT with the claims of all tokens, and more: pairs of a name and a value that may be empty.
func claims(c *sdk.Call, more ...string) sdk.JWT {
	var header, claims sdk.Members
	if id := c.Config("private_key_id"); id != "" {
		header.String("kid", id)
	}
	claims.String("iss", c.Config("client_email"))
	for i := 0; i+1 < len(more); i += 2 {
		if more[i+1] != "" {
			claims.String(more[i], more[i+1])
		}
	}
	now := c.Now()
	claims.Integer("iat", now)
	claims.Integer("exp", now+int64(lifetime/time.Second))
	return sdk.JWT{Key: "private_key", Header: header.JSON(), Claims: claims.JSON()}
}
