// Plugin jwt signs a JWT (RFC 7519) for each request and sends it as a bearer token.
package main

import (
	"slices"

	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	claim, parts := []sdk.Sink{sdk.ToClaim}, []string{"parts.*"}
	composed := []sdk.Sink{sdk.ToClaim, sdk.ToDigest}
	secret := []sdk.Condition{{Field: "algorithm", Values: []string{"HS256", "HS384", "HS512"}}}
	hasName := []sdk.Condition{{Field: "in", Values: []string{"query", "cookie"}}}
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "jwt",
		Version: "1.0.0",
		Summary: "A JWT that is signed for each request, sent as a bearer token.",
		Uses:    []sdk.Group{sdk.UsesSign, sdk.UsesBody},
		Fields: []sdk.Field{
			{Name: "private_key", Kind: sdk.Key, Required: true, AlgorithmField: "algorithm", EncodingField: "key_encoding", Doc: "Signing key in PEM, or the HMAC secret."},
			{Name: "algorithm", Kind: sdk.String, Enum: sdk.Algorithms(), Default: "RS256", Doc: "Signature algorithm."},
			{Name: "key_encoding", Kind: sdk.String, OnlyIf: secret, Enum: sdk.SecretEncodings(), Default: "text", Doc: "How the HMAC secret is written."},
			{Name: "claims", Kind: sdk.Object, Required: true, Sinks: claim, Doc: "The JWT's payload."},
			{Name: "jwt_headers", Kind: sdk.Object, Sinks: claim, Doc: "Further header members, such as kid."},
			{Name: "request_claims", Kind: sdk.Object, Sinks: composed, Derived: claim, Composed: true, Values: parts, Doc: "Claims with placeholders such as {method} and {path}."},
			{Name: "request_headers", Kind: sdk.Object, Sinks: composed, Derived: claim, Composed: true, Values: parts, Doc: "Header members with placeholders, such as {nonce}."},
			{
				Name: "parts", Kind: sdk.Object, Sinks: composed, Derived: claim, Composed: true, Values: parts,
				Doc: "Texts with placeholders, whose names are placeholders of request_claims and request_headers.",
			},
			{Name: "in", Kind: sdk.String, Enum: []string{"header", "query", "cookie"}, Default: "header", Doc: "Where the JWT goes."},
			{Name: "key", Kind: sdk.String, RequiredIf: hasName, Doc: "Name of the header, the query parameter or the cookie. Of a header, Authorization unless given."},
			{
				Name: "prefix", Kind: sdk.String, OnlyIf: []sdk.Condition{{Field: "in", Values: []string{"header"}}}, Default: "Bearer",
				Doc: "Word in front of the JWT in the header. It may be empty.",
			},
		},
	}
}

// fixedClaims say whom a JWT is for, and when. No caller chooses them.
var fixedClaims = []string{"iss", "sub", "aud", "exp", "nbf"}

// fixedHeaders say what a JWT is, and with which key it is verified.
var fixedHeaders = []string{"alg", "crit", "b64", "typ", "cty", "kid", "jku", "jwk", "x5u", "x5c", "x5t", "x5t#s256"}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	problems := append(c.Reserved("jwt_headers", "is fixed by the host", sdk.ReservedHeaders()...), c.Misspelled("jwt_headers", "typ")...)
	in, _ := c.Literal("in")
	problems = append(problems, c.CheckName("key", in)...)
	problems = append(problems, c.Reserved("request_claims", "belongs into claims, since no request may choose it", fixedClaims...)...)
	problems = append(problems, c.Reserved("request_headers", "belongs into jwt_headers, since no request may choose it", fixedHeaders...)...)
	problems = append(problems, twice(c, "request_claims", "claims")...)
	problems = append(problems, twice(c, "request_headers", "jwt_headers")...)
	return append(problems, c.CheckPairs("parts")...)
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	jwt := sdk.JWT{Key: "private_key", Header: c.Config("jwt_headers"), Claims: c.Config("claims"), Integers: []string{"exp", "iat", "nbf"}}
	if err := addRequest(c, &jwt); err != nil {
		return sdk.Mutation{}, err
	}
	in, name := c.Config("in"), c.Config("key")
	if in == "query" {
		return sdk.Mutation{Query: []sdk.Pair{{Name: name, Value: c.SignQueryJWT(jwt)}}}, nil
	}
	token := c.SignJWT(jwt)
	if in == "cookie" {
		return sdk.Mutation{Cookies: []sdk.Pair{{Name: name, Value: token}}}, nil
	}
	if name == "" {
		name = "Authorization"
	}
	if prefix := c.Config("prefix"); prefix != "" {
		token = prefix + " " + token
	}
	return sdk.Header(name, token), nil
}

// twice returns a problem for each member of an object field that the one with fixed members has too.
func twice(c *sdk.Config, field, fixed string) (problems []sdk.Problem) {
	object, _ := c.Literal(fixed)
	var names []string
	_ = sdk.EachMember(object, func(name, _ string) error { names = append(names, name); return nil })
	object, _ = c.Literal(field)
	_ = sdk.EachMember(object, func(name, _ string) error {
		if slices.Contains(names, name) {
			problems = append(problems, sdk.Problem{Field: field + "." + name, Message: "stands in " + fixed + " too, remove one of them"})
		}
		return nil
	})
	return problems
}

// addRequest adds the claims and header members of the request to a JWT.
func addRequest(c *sdk.Call, jwt *sdk.JWT) error {
	claims, headers := c.Config("request_claims"), c.Config("request_headers")
	if claims == "" && headers == "" {
		return nil
	}
	parts, err := c.Parts("parts")
	if err != nil {
		return err
	}
	if jwt.Claims, err = merged(jwt.Claims, c.ComposeObject(claims, parts...)); err != nil {
		return err
	}
	jwt.Header, err = merged(jwt.Header, c.ComposeObject(headers, parts...))
	return err
}

// merged returns an object with the members of two.
func merged(object, addition string) (string, error) {
	var o sdk.Members
	if err := o.Append(object); err != nil {
		return "", err
	}
	err := o.Append(addition)
	return o.JSON(), err
}
