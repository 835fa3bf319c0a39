package main

import (
	"slices"
	"strings"

	"github.com/keywright/keywright/plugins/internal/oauth"
	"github.com/keywright/keywright/sdk"
)

// fapi2 is a value of the field profile: the FAPI 2.0 Security Profile (openid.net/specs/fapi-security-profile-2_0-final.html).
const fapi2 = "fapi2"

// strict is the condition that the profile is fapi2.
func strict() []sdk.Condition { return []sdk.Condition{{Field: "profile", Values: []string{fapi2}}} }

// pushFields returns the fields for requests that are pushed, and for the profile that wants them to be.
func pushFields() []sdk.Field {
	return []sdk.Field{
		{
			Name: "par_url", Kind: sdk.URL, RequiredIf: strict(), Sinks: []sdk.Sink{sdk.ToToken},
			Doc: "Endpoint of pushed authorization requests (RFC 9126): the browser gets a reference to the request in place of the request.",
		},
		{
			Name: "profile", Kind: sdk.String, Enum: []string{fapi2},
			Doc: "fapi2: a configuration that is not of the FAPI 2.0 Security Profile is refused, and so is an answer without iss.",
		},
	}
}

// audience returns the aud of the client's assertions at an endpoint, unless client_assertion_audience says another. That of FAPI 2.0 is
// the issuer, as one string.
func audience(c *sdk.Call, url string) string {
	if c.Config("profile") == fapi2 {
		return c.Config("issuer")
	}
	return url
}

// push returns how the authorization request is pushed, or nil if the browser brings it.
func push(c *sdk.Call) *sdk.Push {
	url := c.Config("par_url")
	if url == "" {
		return nil
	}
	form, headers := oauth.AuthenticateClient(c, "", audience(c, c.Config("token_url")), nil)
	return &sdk.Push{URL: url, Form: form, Headers: headers}
}

// profileProblems returns the problems of a configuration with the profile fapi2. FAPI 2.0 wants a client that authenticates with a
// key, tokens that are bound to one, PKCE with S256, and one of three algorithms.
func profileProblems(c *sdk.Config) (problems []sdk.Problem) {
	if profile, _ := c.Literal("profile"); profile != fapi2 {
		return nil
	}
	want := func(field string, values ...string) {
		if value, literal := c.Literal(field); literal && !slices.Contains(values, value) {
			problems = append(problems, sdk.Problem{Field: field, Message: "must be " + strings.Join(values, " or ") + " with the profile fapi2"})
		}
	}
	algorithms := []string{"PS256", "ES256", "EdDSA"}
	want("client_auth", oauth.PrivateKeyJWT, oauth.TLS)
	want("pkce", "S256")
	if way, _ := c.Literal("client_auth"); way != oauth.TLS { // whose tokens the certificate binds, RFC 8705 section 3
		want("sender", oauth.DPoP)
		want("algorithm", algorithms...)
	}
	if sender, _ := c.Literal("sender"); sender == oauth.DPoP {
		want("proof_algorithm", algorithms...)
	}
	if issuer, literal := c.Literal("issuer"); literal {
		want("client_assertion_audience", issuer)
	}
	return problems
}
