// Plugin dpop adds an access token that is bound to a key, and a proof of that key for each request: DPoP, RFC 9449.
package main

import (
	"github.com/keywright/keywright/plugins/internal/oauth"
	"github.com/keywright/keywright/sdk"
)

// jwtBearer is the value of the field grant_type for an assertion, RFC 7523.
const jwtBearer = "jwt_bearer"

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	bearer := sdk.Condition{Field: "grant_type", Values: []string{jwtBearer}}
	return sdk.Description{
		ABI: sdk.ABI, Type: "dpop", Version: "1.1.0",
		Summary: "An access token that is bound to a key, and a proof of the key for each request (DPoP, RFC 9449).",
		Uses:    []sdk.Group{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign},
		Fields: sdk.Fields(
			fields(bearer), oauth.Request(), oauth.Client("", oauth.Ways(oauth.Post, true)...), oauth.Key(bearer, oauth.Signs("")),
			oauth.Dialect(), []sdk.Field{oauth.Lifetime()}, oauth.Sender(true, oauth.DPoP),
		),
		Answers: oauth.Answers(), Challenge: oauth.Challenge(),
	}
}

// fields returns the fields of the grant and of the proofs. bearer is the condition for an assertion.
func fields(bearer sdk.Condition) []sdk.Field {
	claim, assertion := []sdk.Sink{sdk.ToClaim}, []sdk.Condition{bearer}
	return []sdk.Field{
		{Name: "grant_type", Kind: sdk.String, Enum: []string{"client_credentials", jwtBearer}, Default: "client_credentials", Doc: "RFC 6749 section 4.4, or RFC 7523."},
		{Name: "assertion_subject", Kind: sdk.String, RequiredIf: assertion, OnlyIf: assertion, Sinks: claim, Doc: "The sub of the assertion of jwt_bearer: whom the token is for."},
		{Name: "assertion_audience", Kind: sdk.String, RequiredIf: assertion, OnlyIf: assertion, Sinks: claim, Doc: "The aud of the assertion of jwt_bearer."},
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem { return oauth.Problems(c, "assertion") }

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	return oauth.Exchange(c, func() []sdk.Pair { return grant(c) })
}

// grant returns the parameters of the grant.
func grant(c *sdk.Call) []sdk.Pair {
	if c.Config("grant_type") != jwtBearer {
		return []sdk.Pair{{Name: "grant_type", Value: "client_credentials"}}
	}
	assertion := oauth.Sign(c, c.Config("client_id"), c.Config("assertion_subject"), c.Config("assertion_audience"), "")
	return []sdk.Pair{{Name: "grant_type", Value: oauth.JWTBearer}, {Name: "assertion", Value: assertion}}
}
