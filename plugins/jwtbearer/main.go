// Plugin jwtbearer adds an access token that it requests with a signed assertion: the JWT bearer grant, RFC 7523.
package main

import (
	"time"

	"github.com/keywright/keywright/plugins/internal/oauth"
	"github.com/keywright/keywright/sdk"
)

// margin is the time before the end of token_ttl in which the token is not used.
const margin = 60 * time.Second

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	claim, both := []sdk.Sink{sdk.ToClaim}, []sdk.Sink{sdk.ToClaim, sdk.ToToken}
	client := oauth.Client("", oauth.None, oauth.Post, oauth.Basic, oauth.PrivateKeyJWT, oauth.TLS)[1:] // without client_id
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "oauth_jwt_bearer",
		Version: "1.1.0",
		Summary: "A bearer token from the JWT bearer grant (RFC 7523), cached until a minute before token_ttl ends.",
		Uses:    []sdk.Group{sdk.UsesToken, sdk.UsesCache, sdk.UsesSign},
		Fields: sdk.Fields([]sdk.Field{
			{Name: "client_id", Kind: sdk.String, Required: true, Sinks: both, Doc: "The assertion's iss."},
			{Name: "private_key", Kind: sdk.Key, Required: true, AlgorithmField: "algorithm", Doc: "Signing key in PEM, or the HMAC secret."},
			{Name: "token_url", Kind: sdk.URL, Required: true, Sinks: both, Suggested: []string{"https://oauth2.googleapis.com/token"}, Doc: "Token endpoint."},
			{Name: "subject", Kind: sdk.String, Required: true, Sinks: claim, Doc: "The assertion's sub: whom the token is for."},
			{Name: "audience", Kind: sdk.String, Required: true, Sinks: claim, Doc: "The assertion's aud."},
			{Name: "token_ttl", Kind: sdk.Integer, Default: "3600", Minimum: sdk.Limit(1), Doc: "Seconds to cache the access token, less a minute."},
			{Name: "algorithm", Kind: sdk.String, Enum: sdk.Algorithms(), Default: "RS256", Doc: "Signature algorithm."},
			{Name: "additional_claims", Kind: sdk.Object, Sinks: claim, Doc: "Further claims of the assertion."},
			{Name: "jwt_headers", Kind: sdk.Object, Sinks: claim, Doc: "Further header members, such as kid."},
			oauth.TTL(),
			oauth.TokenType(),
			oauth.Parameters("parameters"),
		}, client, oauth.Assertion(oauth.Signs(""))),
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	problems := c.Reserved("additional_claims", "is fixed by the type", "iss", "sub", "aud", "iat", "exp")
	problems = append(problems, oauth.HeaderProblems(c)...)
	return append(problems, oauth.ParameterProblems(c, "parameters", "assertion")...)
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	if token, ok := c.Cached("access_token"); ok {
		return sdk.Bearer(token), nil
	}
	return exchange(c)
}

func exchange(c *sdk.Call) (sdk.Mutation, error) {
	ttl := c.Seconds("token_ttl") // read first: if it is not a number, the call ends before anything is sent
	token, err := oauth.InTime(c, func() (sdk.Token, error) {
		request, err := tokenRequest(c)
		if err != nil {
			return sdk.Token{}, err
		}
		return c.RequestToken(request)
	})
	if err != nil {
		return sdk.Mutation{}, err
	}
	mutation, err := oauth.Mutation(c, token)
	if err != nil {
		return sdk.Mutation{}, err
	}
	if token.ExpiresIn > 0 && token.ExpiresIn < ttl {
		c.Warn("the token endpoint's expires_in is shorter than token_ttl: lower token_ttl, or cached tokens will be refused")
	}
	if ttl > margin {
		c.Cache("access_token", token.AccessToken, ttl-margin)
	} else {
		c.Warn("the token is not cached: token_ttl is not above 60 seconds")
	}
	return mutation, nil
}

// tokenRequest returns the request of RFC 7523 section 2.1, with what authenticates the client beside the assertion.
func tokenRequest(c *sdk.Call) (r sdk.TokenRequest, err error) {
	claims, err := claims(c)
	if err != nil {
		return r, err
	}
	r.URL = c.Config("token_url")
	r.Form = []sdk.Pair{
		{Name: "grant_type", Value: oauth.JWTBearer},
		{Name: "assertion", Value: c.SignAssertion(sdk.JWT{
			Key:      "private_key",
			Header:   c.Config("jwt_headers"),
			Claims:   claims,
			Integers: []string{"exp", "iat", "nbf"},
		})},
	}
	if c.Config("client_auth") != oauth.None {
		r.Form, r.Headers = oauth.Authenticate(c, "", r.URL, r.Form)
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
