// Plugin oauth1 signs requests with OAuth 1.0, RFC 5849.
package main

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

// Describe has two fields for each shared secret. The secret of a signature can be nothing but a key. PLAINTEXT sends the
// secrets themselves, so it has fields of its own, which may go into the header.
func (plugin) Describe() sdk.Description {
	places, key, header := []sdk.Sink{sdk.ToHeader, sdk.ToQuery, sdk.ToBody}, []sdk.Sink{sdk.ToSign}, []sdk.Sink{sdk.ToHeader}
	signed := []sdk.Sink{sdk.ToHeader, sdk.ToQuery, sdk.ToBody, sdk.ToDigest}
	with := func(methods ...string) []sdk.Condition {
		return []sdk.Condition{{Field: "signature_method", Values: methods}}
	}
	hmac, rsa, plain := with("HMAC-SHA1", "HMAC-SHA256"), with("RSA-SHA1", "RSA-SHA256"), with("PLAINTEXT")
	return sdk.Description{
		ABI: sdk.ABI, Type: "oauth1", Version: "1.0.0",
		Summary: "A signature of OAuth 1.0 (RFC 5849) for each request, in the header, the query or a form.",
		Uses:    []sdk.Group{sdk.UsesSign, sdk.UsesBody},
		Fields: []sdk.Field{
			{Name: "consumer_key", Kind: sdk.String, Required: true, Sinks: signed, Derived: places, Doc: "Identifier of the client: oauth_consumer_key."},
			{Name: "consumer_secret", Kind: sdk.String, RequiredIf: hmac, OnlyIf: hmac, Sealed: true, Sinks: key, Derived: places, Doc: "Secret of the client."},
			{Name: "token", Kind: sdk.String, Sinks: signed, Derived: places, Doc: "Access token: oauth_token."},
			{Name: "token_secret", Kind: sdk.String, OnlyIf: hmac, Sealed: true, Sinks: key, Derived: places, Doc: "Secret of the token."},
			{
				Name: "signature_method", Kind: sdk.String, Enum: []string{"HMAC-SHA1", "HMAC-SHA256", "RSA-SHA1", "RSA-SHA256", "PLAINTEXT"}, Default: "HMAC-SHA1",
				Algorithms: []sdk.Pair{{Name: "RSA-SHA1", Value: sdk.RS1}, {Name: "RSA-SHA256", Value: "RS256"}}, Doc: "How requests are signed.",
			},
			{
				Name: "private_key", Kind: sdk.Key, RequiredIf: rsa, OnlyIf: rsa, AlgorithmField: "signature_method", Purposes: []sdk.Purpose{sdk.ForMessage},
				Derived: places, Doc: "RSA key in PEM.",
			},
			{Name: "plaintext_consumer_secret", Kind: sdk.String, RequiredIf: plain, OnlyIf: plain, Sealed: true, Sinks: header, Doc: "Secret of the client, which PLAINTEXT sends."},
			{Name: "plaintext_token_secret", Kind: sdk.String, OnlyIf: plain, Sealed: true, Sinks: header, Doc: "Secret of the token, which PLAINTEXT sends."},
			{Name: "in", Kind: sdk.String, Enum: []string{"header", "query", "form"}, Default: "header", Doc: "Where the parameters go."},
			{
				Name: "realm", Kind: sdk.String, OnlyIf: []sdk.Condition{{Field: "in", Values: []string{"header"}}}, Sinks: header,
				Doc: "Parameter realm of the header.",
			},
			{Name: "version", Kind: sdk.String, Enum: []string{"1.0", ""}, Default: "1.0", Doc: "Parameter oauth_version; empty text leaves it out."},
			{Name: "body_hash", Kind: sdk.Boolean, Default: "false", Doc: "Whether a body that is no form is signed, by oauth_body_hash."},
		},
		Challenge: &sdk.Challenge{}, // so that the host learns how far the API's clock is ahead
	}
}

// Validate returns the fields that contradict each other.
func (plugin) Validate(c *sdk.Config) (problems []sdk.Problem) {
	method, _ := c.Literal("signature_method")
	in, _ := c.Literal("in")
	hashed, _ := c.Literal("body_hash")
	if method == "PLAINTEXT" && (in == "query" || in == "form") {
		problems = append(problems, sdk.Problem{Field: "in", Message: "must be header with PLAINTEXT, which sends the secrets themselves"})
	}
	if hashed == "true" && (method == "PLAINTEXT" || in == "form") {
		problems = append(problems, sdk.Problem{
			Field: "body_hash", Message: "is for bodies that are signed and are no forms: remove it, as signature_method or in excludes it",
		})
	}
	return problems
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	own, err := sign(c, sdk.Present([]sdk.Pair{
		{Name: "oauth_consumer_key", Value: c.Config("consumer_key")},
		{Name: "oauth_token", Value: c.Config("token")},
		{Name: "oauth_signature_method", Value: c.Config("signature_method")},
		{Name: "oauth_timestamp", Value: strconv.FormatInt(c.Now()+c.ClockOffset(), 10)},
		{Name: "oauth_nonce", Value: c.Random(12)},
		{Name: "oauth_version", Value: c.Config("version")},
	}))
	if err != nil {
		return sdk.Mutation{}, err
	}
	if in := c.Config("in"); in != "header" {
		return sdk.Place(in, own...), nil
	}
	value := "OAuth "
	if realm := c.Config("realm"); realm != "" {
		value += "realm=" + c.Quoted(realm) + ", "
	}
	for _, p := range own {
		value += p.Name + `="` + c.Percent(p.Value) + `", `
	}
	return sdk.Header("Authorization", strings.TrimSuffix(value, ", ")), nil
}

// sign adds the digest of the body, if that is wanted, and the signature, section 3.4.
func sign(c *sdk.Call, own []sdk.Pair) ([]sdk.Pair, error) {
	method, hash, digest := c.Config("signature_method"), sdk.MACSHA1, sdk.DigestSHA1
	switch method {
	case "PLAINTEXT":
		both := secrets(c, "plaintext_consumer_secret", "plaintext_token_secret")
		return append(own, sdk.Pair{Name: "oauth_signature", Value: both}), nil
	case "HMAC-SHA256", "RSA-SHA256":
		hash, digest = sdk.MACSHA256, sdk.DigestSHA256
	}
	form, isForm := c.BodyForm()
	if !isForm && c.Config("body_hash") == "true" {
		own = append(own, sdk.Pair{Name: "oauth_body_hash", Value: c.Base64(c.Digest(digest, c.Body()))})
	}
	base, err := baseString(c, form, own)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(method, "RSA") {
		return append(own, sdk.Pair{Name: "oauth_signature", Value: c.Base64(c.SignSealed("private_key", sdk.ForMessage, base))}), nil
	}
	mac := c.MAC(hash, secrets(c, "consumer_secret", "token_secret"), base)
	return append(own, sdk.Pair{Name: "oauth_signature", Value: c.Base64(mac)}), nil
}

// secrets returns the two secrets, joined as in section 3.4.2. There may be none of a token.
func secrets(c *sdk.Call, consumer, token string) string {
	return c.Percent(c.Config(consumer)) + "&" + c.Percent(c.Config(token))
}

// baseString returns the signature base string, section 3.4.1.1. form has the members of the body.
func baseString(c *sdk.Call, form, own []sdk.Pair) (string, error) {
	for _, p := range append(sdk.ParseQuery(c.Compose("{query}")), form...) {
		if slices.ContainsFunc(own, func(reserved sdk.Pair) bool { return reserved.Name == p.Name }) || p.Name == "oauth_signature" {
			return "", errors.New("the request has the parameter " + p.Name + ": leave it out, this auth type sets it")
		}
	}
	return c.ComposeWith("{method|upper|percent}&{scheme}%3A%2F%2F{authority|percent}{path|percent}&{query|query_sorted|percent}", sdk.Mutation{Query: append(form, own...)}), nil
}
