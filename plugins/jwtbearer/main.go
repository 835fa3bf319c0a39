// Plugin jwtbearer adds an access token that it requests with a signed assertion: the JWT bearer grant, RFC 7523.
package main

import (
	"github.com/keywright/keywright/plugins/internal/oauth"
	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	claim, both := []sdk.Sink{sdk.ToClaim}, []sdk.Sink{sdk.ToClaim, sdk.ToToken}
	client, signs := oauth.Client("", oauth.Ways(oauth.None, true)...), []sdk.Condition{{Field: "assertion", Absent: true}}
	client[0].RequiredIf, client[0].Doc = []sdk.Condition{signs[0], client[0].RequiredIf[0]}, "The assertion's iss."
	key := sdk.Field{Name: "private_key", Kind: sdk.Key, RequiredIf: []sdk.Condition{signs[0], oauth.Signs("")}, AlgorithmField: "algorithm", Doc: "Signing key in PEM, or the HMAC secret."}
	return sdk.Description{
		ABI: sdk.ABI, Type: "oauth_jwt_bearer", Version: "1.2.0",
		Summary: "A bearer token from the JWT bearer grant (RFC 7523), cached until a minute before token_ttl ends.",
		Uses:    []sdk.Group{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign},
		Fields: sdk.Fields(client, []sdk.Field{
			key,
			{Name: "token_url", Kind: sdk.URL, Required: true, Sinks: both, Suggested: []string{"https://oauth2.googleapis.com/token"}, Doc: "Token endpoint."},
			{Name: "subject", Kind: sdk.String, RequiredIf: signs, OnlyIf: signs, Sinks: claim, Doc: "The assertion's sub: whom the token is for."},
			{Name: "audience", Kind: sdk.String, RequiredIf: signs, OnlyIf: signs, Sinks: claim, Doc: "The assertion's aud."},
			{
				Name: "assertion", Kind: sdk.String, Sealed: true, Sinks: []sdk.Sink{sdk.ToToken},
				Doc: "Assertion that another party has signed, in place of private_key, subject and audience.",
			},
			{Name: "token_ttl", Kind: sdk.Integer, Default: "3600", Minimum: sdk.Limit(1), Doc: "Seconds to cache the access token, less a minute."},
			{Name: "algorithm", Kind: sdk.String, Enum: sdk.Algorithms(), Default: "RS256", Doc: "Signature algorithm."},
			{Name: "additional_claims", Kind: sdk.Object, OnlyIf: signs, Sinks: claim, Doc: "Further claims of the assertion."},
			{Name: "jwt_headers", Kind: sdk.Object, Sinks: claim, Doc: "Further header members, such as kid."},
			oauth.TTL(),
			oauth.Parameters("parameters"),
		}, oauth.Assertions(oauth.Signs("")), oauth.Dialect(), oauth.Sender(true, oauth.Senders()...), oauth.Bearer()),
		Answers: oauth.Answers(oauth.URL()), Challenge: oauth.Challenge(),
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	problems := c.Reserved("additional_claims", "is fixed by the type", "iss", "sub", "aud", "iat", "exp")
	problems = append(append(problems, oauth.AssertionProblems(c)...), oauth.DialectProblems(c)...)
	return append(problems, oauth.ParameterProblems(c, "parameters", "assertion")...)
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	return oauth.Authenticate(c, func() (sdk.Token, error) {
		ttl := c.Seconds("token_ttl") // read first: if it is not a number, the call ends before anything is sent
		token, err := oauth.Redeem(c, oauth.Grant{Signed: c.Config("assertion") == "", Request: func() (sdk.TokenRequest, error) { return tokenRequest(c) }})
		if err == nil && token.ExpiresIn < ttl {
			c.Warn("the token endpoint's expires_in is shorter than token_ttl: lower token_ttl, or cached tokens will be refused")
		}
		token.ExpiresIn = ttl
		return token, err
	})
}

// tokenRequest returns the request of RFC 7523 section 2.1, with what authenticates the client beside the assertion.
func tokenRequest(c *sdk.Call) (r sdk.TokenRequest, err error) {
	assertion := c.Config("assertion")
	if assertion == "" {
		claims, err := claims(c)
		if err != nil {
			return r, err
		}
		assertion = c.SignAssertion(sdk.JWT{Key: "private_key", Header: c.Config("jwt_headers"), Claims: claims, Integers: []string{"exp", "iat", "nbf"}})
	}
	r.URL = c.Config("token_url")
	r.Form = []sdk.Pair{{Name: "grant_type", Value: oauth.JWTBearer}, {Name: "assertion", Value: assertion}}
	if c.Config("client_auth") != oauth.None {
		r.Form, r.Headers = oauth.AuthenticateClient(c, "", r.URL, r.Form)
	}
	parameters, err := sdk.Parameters(c.Config("parameters"))
	r.Form = append(r.Form, parameters...)
	return r, err
}

// claims returns the claims of the assertion, RFC 7523 section 3.
func claims(c *sdk.Call) (string, error) {
	now := c.Now() + c.ClockOffset()
	var claims sdk.Members
	claims.String("iss", c.Config("client_id"))
	claims.String("sub", c.Config("subject"))
	claims.String("aud", c.Config("audience"))
	claims.Integer("iat", now)
	claims.Integer("exp", now+c.Integer("assertion_ttl"))
	err := claims.Append(c.Config("additional_claims"))
	return claims.JSON(), err
}
