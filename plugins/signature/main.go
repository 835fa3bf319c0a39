// Plugin signature signs requests with an HMAC, RFC 2104, or with a private key. The configuration says what is signed, and where the
// signature goes.
package main

import (
	"strconv"
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
	values := []string{"signature", "signed.*", "parts.*", "counter"}
	mac, signed := []sdk.Condition{{Field: "algorithm", Values: algorithms[:4]}}, []sdk.Condition{{Field: "algorithm", Values: algorithms[4:]}}
	return sdk.Description{
		ABI: sdk.ABI, Type: "signature", Aliases: []string{"hmac"}, Version: "1.0.0",
		Summary: "An HMAC or a signature over parts of each request, which the configuration describes.",
		Uses:    []sdk.Group{sdk.UsesSign, sdk.UsesBody, sdk.UsesTurn},
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
			{Name: "message", Kind: sdk.String, Required: true, Sinks: []sdk.Sink{sdk.ToDigest}, Derived: places, Composed: true, Values: values[2:], Doc: "Text that is signed, with placeholders such as {method}, {path}, {body}, and {counter}, a number that only rises."},
			{Name: "parts", Kind: sdk.Object, Sinks: []sdk.Sink{sdk.ToDigest}, Derived: places, Composed: true, Values: values[2:], Doc: "Texts with placeholders, whose names are placeholders of other fields."},
			{Name: "signed", Kind: sdk.Object, Sinks: []sdk.Sink{sdk.ToDigest}, Derived: places, Composed: true, Values: values[2:], Doc: "Further texts that are signed with the same key, whose names are placeholders for their signatures."},
			{Name: "encoding", Kind: sdk.String, Enum: []string{"hex", "hex_upper", "base64", "base64url", "base64url_padded"}, Default: "hex", Doc: "How the signature is written."},
			{Name: "in", Kind: sdk.String, Enum: []string{"header", "query"}, Default: "header", Doc: "Where the signature goes."},
			{Name: "key", Kind: sdk.String, Required: true, Sinks: places, Doc: "Name of the header or query parameter with the signature."},
			{
				Name: "value", Kind: sdk.String, Default: "{signature}", Sinks: places, Composed: true, Values: values, Doc: "Its value, with the placeholder {signature}.",
				Pattern: `[\d\D]*\{signature[\d\D]*`, PatternMessage: "has no {signature}, so that the signature would not be sent",
			},
			{Name: "headers", Kind: sdk.Object, Sinks: []sdk.Sink{sdk.ToHeader, sdk.ToDigest}, Derived: places, Composed: true, Values: values[1:], Doc: "Further headers, such as the time; values may have placeholders."},
			{Name: "query", Kind: sdk.Object, Sinks: []sdk.Sink{sdk.ToQuery, sdk.ToDigest}, Derived: places, Composed: true, Values: values[1:], Doc: "Further query parameters; values may have placeholders."},
			{Name: "form", Kind: sdk.Object, Sinks: []sdk.Sink{sdk.ToBody, sdk.ToDigest}, Derived: places, Composed: true, Values: values[3:], Doc: "Members that are added to the body, an HTML form; values may have placeholders. {body} has them."},
		},
		Challenge: &sdk.Challenge{}, // so that the host learns how far the API's clock is ahead
	}
}

// Validate checks the names of headers.
func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	in, _ := c.Literal("in")
	key, _ := c.Literal("key")
	problems := append(c.CheckName("key", in), c.CheckHeaders("headers")...)
	for _, field := range []string{"query", "form", "parts", "signed"} {
		problems = append(problems, c.CheckPairs(field)...)
	}
	if in == "header" {
		problems = append(problems, c.Reserved("headers", "is the header with the signature", sdk.Lower(key))...)
	}
	return problems
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	form, parts, more := c.Config("form"), c.Config("parts"), c.Config("signed")
	query, headers, message, value := c.Config("query"), c.Config("headers"), c.Config("message"), c.Config("value")
	r := signing{Call: c, values: count(c, message, headers, form, parts, more, query, value)}
	r.out.Form = r.pairs(form, false)
	r.values = append(r.values, r.pairs(parts, true)...)
	signed := r.pairs(more, false)
	for i := range signed {
		signed[i].Value = r.sign(signed[i].Value)
	}
	r.values = append(r.values, signed...)
	r.out.Query = r.pairs(query, false)
	r.out.Headers = r.pairs(headers, false)
	signature := sdk.Pair{Name: "signature", Value: r.sign(c.ComposeWith(message, r.out, r.values...))}
	if value == "{signature}" { // as most are, and compose takes its time
		value = signature.Value
	} else {
		value = c.ComposeWith(value, r.out, append(r.values, signature)...)
	}
	placed := sdk.Place(c.Config("in"), sdk.Pair{Name: c.Config("key"), Value: value})
	r.out.Query, r.out.Headers = append(r.out.Query, placed.Query...), append(r.out.Headers, placed.Headers...)
	return r.out, r.err
}

// signing is the work on one request.
type signing struct {
	*sdk.Call
	// out is the mutation so far, and values are the placeholders.
	out    sdk.Mutation
	values []sdk.Pair
	err    error
}

// count returns the number of the request, which has its turn then, if one of the texts names it.
func count(c *sdk.Call, texts ...string) []sdk.Pair {
	for _, text := range texts {
		if strings.Contains(text, "{counter") {
			return []sdk.Pair{{Name: "counter", Value: strconv.FormatInt(c.Counter(c.NowMillis()), 10)}}
		}
	}
	return nil
}

// sign returns the signature of a text in its encoding.
func (r *signing) sign(text string) string {
	encoding := r.Config("encoding")
	hash, mac := strings.CutPrefix(r.Config("algorithm"), "SHA-")
	if !mac {
		return r.Encode(encoding, r.SignSealed("private_key", sdk.ForMessage, text))
	}
	secret := r.Config("secret")
	if format := r.Config("secret_encoding"); format != "text" {
		secret = r.Decode(format, secret)
	}
	return r.Encode(encoding, r.MAC(sdk.MACHash("HS"+hash), secret, text))
}

// pairs returns the members of an object with their placeholders replaced. With chain, each is a placeholder of those behind it.
func (r *signing) pairs(object string, chain bool) []sdk.Pair {
	pairs, err := sdk.Pairs(object)
	if err != nil {
		r.err = err
	}
	for i := range pairs {
		if strings.ContainsAny(pairs[i].Value, sdk.TemplateEscape) { // an object may have thousands of others
			values := r.values
			if chain {
				values = append(values, pairs[:i]...)
			}
			pairs[i].Value = r.ComposeWith(pairs[i].Value, r.out, values...)
		}
	}
	return pairs
}
