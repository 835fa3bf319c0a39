// Plugin jwt signs a JWT (RFC 7519) for each request and sends it as a bearer token.
package main

import "github.com/keywright/keywright/sdk"

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	claim := []sdk.Sink{sdk.ToClaim}
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "jwt",
		Version: "1.0.0",
		Summary: "A JWT that is signed for each request, sent as a bearer token.",
		Uses:    []sdk.Group{sdk.UsesSign},
		Fields: []sdk.Field{
			{Name: "private_key", Kind: sdk.Key, Required: true, AlgorithmField: "algorithm", Doc: "Signing key in PEM, or the HMAC secret."},
			{Name: "algorithm", Kind: sdk.String, Enum: sdk.Algorithms(), Default: "RS256", Doc: "Signature algorithm."},
			{Name: "claims", Kind: sdk.Object, Required: true, Sinks: claim, Doc: "The JWT's payload."},
			{Name: "jwt_headers", Kind: sdk.Object, Sinks: claim, Doc: "Further header members, such as kid."},
		},
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	return append(c.Reserved("jwt_headers", "is fixed by the host", sdk.ReservedHeaders()...), c.Misspelled("jwt_headers", "typ")...)
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	return sdk.Bearer(c.SignJWT(sdk.JWT{
		Key:      "private_key",
		Header:   c.Config("jwt_headers"),
		Claims:   c.Config("claims"),
		Integers: []string{"exp", "iat", "nbf"},
	})), nil
}
