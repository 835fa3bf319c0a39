// Plugin signature signs requests with an HMAC, RFC 2104, or with a private key. The configuration says what is signed, and where the
// signature goes.
package main

import (
	"strings"

	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	places := []sdk.Sink{sdk.ToHeader, sdk.ToQuery}
	algorithms := []string{
		"SHA-1", "SHA-256", "SHA-384", "SHA-512",
		sdk.RS1, "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
	}
	mac, signed := []sdk.Condition{{Field: "algorithm", Values: algorithms[:4]}}, []sdk.Condition{{Field: "algorithm", Values: algorithms[4:]}}
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "signature",
		Aliases: []string{"hmac"},
		Version: "1.0.0",
		Summary: "An HMAC or a signature over parts of each request, which the configuration describes.",
		Uses:    []sdk.Group{sdk.UsesSign, sdk.UsesBody},
		Fields: []sdk.Field{
			{Name: "secret", Kind: sdk.String, RequiredIf: mac, OnlyIf: mac, Sealed: true, Sinks: []sdk.Sink{sdk.ToSign}, Derived: places, Doc: "Secret key of the HMAC."},
			{Name: "secret_encoding", Kind: sdk.String, OnlyIf: mac, Enum: sdk.SecretEncodings(), Default: "text", Doc: "How the secret is written."},
			{
				Name: "private_key", Kind: sdk.Key, RequiredIf: signed, OnlyIf: signed, AlgorithmField: "algorithm", Purposes: []sdk.Purpose{sdk.ForMessage},
				Derived: places, Doc: "Signing key, for the algorithms with one.",
			},
			{
				Name: "algorithm", Kind: sdk.String, Enum: algorithms, Default: "SHA-256",
				Doc: "Hash function of the HMAC, or signature algorithm of the private key.",
			},
			{Name: "message", Kind: sdk.String, Required: true, Sinks: []sdk.Sink{sdk.ToDigest}, Derived: places, Composed: true, Doc: "Text that is signed, with placeholders such as {method}, {path} and {body}."},
			{Name: "encoding", Kind: sdk.String, Enum: []string{"hex", "hex_upper", "base64", "base64url", "base64url_padded"}, Default: "hex", Doc: "How the signature is written."},
			{Name: "in", Kind: sdk.String, Enum: []string{"header", "query"}, Default: "header", Doc: "Where the signature goes."},
			{Name: "key", Kind: sdk.String, Required: true, Sinks: places, Doc: "Name of the header or query parameter with the signature."},
			{
				Name: "value", Kind: sdk.String, Default: "{signature}", Sinks: places, Composed: true, Values: []string{"signature"}, Doc: "Its value, with the placeholder {signature}.",
				Pattern: `[\d\D]*\{signature[\d\D]*`, PatternMessage: "has no {signature}, so that the signature would not be sent",
			},
			{Name: "headers", Kind: sdk.Object, Sinks: []sdk.Sink{sdk.ToHeader, sdk.ToDigest}, Derived: places, Composed: true, Doc: "Further headers, such as the time; values may have placeholders."},
			{Name: "query", Kind: sdk.Object, Sinks: []sdk.Sink{sdk.ToQuery, sdk.ToDigest}, Derived: places, Composed: true, Doc: "Further query parameters; values may have placeholders."},
		},
		Challenge: &sdk.Challenge{}, // so that the host learns how far the API's clock is ahead
	}
}

// Validate checks the names of headers.
func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	in, _ := c.Literal("in")
	key, _ := c.Literal("key")
	problems := append(c.CheckName("key", in), c.CheckHeaders("headers")...)
	problems = append(problems, c.CheckPairs("query")...)
	if in == "header" {
		problems = append(problems, c.Reserved("headers", "is the header with the signature", sdk.Lower(key))...)
	}
	return problems
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	var out sdk.Mutation
	var err error
	if out.Query, err = pairs(c, "query", out); err != nil {
		return sdk.Mutation{}, err
	}
	if out.Headers, err = pairs(c, "headers", out); err != nil {
		return sdk.Mutation{}, err
	}
	text := c.ComposeWith(c.Config("message"), out)
	signature := c.Encode(c.Config("encoding"), sign(c, text))
	signed := sdk.Pair{Name: c.Config("key"), Value: c.ComposeWith(c.Config("value"), out, sdk.Pair{Name: "signature", Value: signature})}
	if c.Config("in") == "query" {
		out.Query = append(out.Query, signed)
	} else {
		out.Headers = append(out.Headers, signed)
	}
	return out, nil
}

// sign returns the signature of a text as raw bytes.
func sign(c *sdk.Call, text string) string {
	hash, mac := strings.CutPrefix(c.Config("algorithm"), "SHA-")
	if !mac {
		return c.SignSealed("private_key", sdk.ForMessage, text)
	}
	secret := c.Config("secret")
	if encoding := c.Config("secret_encoding"); encoding != "text" {
		secret = c.Decode(encoding, secret)
	}
	return c.MAC(sdk.MACHash("HS"+hash), secret, text)
}

// pairs returns the members of an object field with their placeholders replaced, for a request with what is added so far.
func pairs(c *sdk.Call, field string, added sdk.Mutation) ([]sdk.Pair, error) {
	pairs, err := sdk.Pairs(c.Config(field))
	for i := range pairs {
		if strings.ContainsAny(pairs[i].Value, sdk.TemplateEscape) { // an object may have thousands of others
			pairs[i].Value = c.ComposeWith(pairs[i].Value, added)
		}
	}
	return pairs, err
}
