// Plugin hmac signs requests with an HMAC, RFC 2104. The configuration says what is signed, and where the signature goes.
package main

import (
	"strings"

	"github.com/keywright/keywright/sdk"
)

// special are the characters that begin a placeholder or an escape. The host escapes them in values of templates.
const special = `\{`

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	sent := []string{sdk.ToHeader, sdk.ToQuery}
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "hmac",
		Version: "1.0.0",
		Summary: "An HMAC over parts of each request, which the configuration describes.",
		Uses:    []string{sdk.UsesSign, sdk.UsesBody},
		Fields: []sdk.Field{
			{Name: "secret", Kind: sdk.String, Required: true, Sealed: true, Sinks: []string{sdk.ToSign}, Derived: sent, Doc: "Secret key of the HMAC."},
			{Name: "secret_encoding", Kind: sdk.String, Enum: []string{"text", "base64", "base64url", "base32", "hex"}, Default: "text", Doc: "How the secret is written."},
			{Name: "algorithm", Kind: sdk.String, Enum: []string{"SHA-1", "SHA-256", "SHA-384", "SHA-512"}, Default: "SHA-256", Doc: "Hash function of the HMAC."},
			{Name: "message", Kind: sdk.String, Required: true, Sinks: []string{sdk.ToDigest}, Derived: sent, Escape: special, Doc: "Text that is signed, with placeholders such as {method}, {path} and {body}."},
			{Name: "encoding", Kind: sdk.String, Enum: []string{"hex", "hex_upper", "base64", "base64url", "base64url_padded"}, Default: "hex", Doc: "How the signature is written."},
			{Name: "in", Kind: sdk.String, Enum: []string{"header", "query"}, Default: "header", Doc: "Where the signature goes."},
			{Name: "key", Kind: sdk.String, Required: true, Sinks: sent, Doc: "Name of the header or query parameter with the signature."},
			{Name: "value", Kind: sdk.String, Default: "{signature}", Sinks: sent, Escape: special, Doc: "Its value, with the placeholder {signature}."},
			{Name: "headers", Kind: sdk.Object, Sinks: []string{sdk.ToHeader, sdk.ToDigest}, Derived: sent, Escape: special, Doc: "Further headers, such as the time; values may have placeholders."},
			{Name: "query", Kind: sdk.Object, Sinks: []string{sdk.ToQuery, sdk.ToDigest}, Derived: sent, Escape: special, Doc: "Further query parameters; values may have placeholders."},
		},
		Challenge: &sdk.Challenge{}, // so that the host learns how far the API's clock is ahead
	}
}

// Validate checks the placeholders, and the names of headers. It skips texts with templates, which are checked when a
// request is made.
func (plugin) Validate(c *sdk.Config) (problems []sdk.Problem) {
	check := func(field, text string) {
		if strings.Contains(text, "{{") {
			return
		}
		_, err := expand(text, func(placeholder string) (string, error) { return "", known(placeholder, field == "value") })
		if err != nil {
			problems = append(problems, sdk.Problem{Field: field, Message: err.Error()})
		}
	}
	headerName := func(field, name string) {
		if problem := sdk.CheckHeaderName(name); problem != "" {
			problems = append(problems, sdk.Problem{Field: field, Message: problem})
		}
	}
	message, _ := c.Literal("message")
	check("message", message)
	value, literal := c.Literal("value")
	check("value", value)
	if literal && !strings.Contains(value, "{signature") {
		problems = append(problems, sdk.Problem{Field: "value", Message: "has no {signature}, so that the signature would not be sent"})
	}
	in, _ := c.Literal("in")
	key, literal := c.Literal("key")
	if literal && in == "header" {
		headerName("key", key)
	}
	for _, field := range []string{"headers", "query"} {
		object, _ := c.Literal(field)
		pairs, err := sdk.Pairs(object)
		if err != nil {
			problems = append(problems, sdk.Problem{Field: field, Message: err.Error()})
		}
		for _, p := range pairs {
			if check(field+"."+p.Name, p.Value); field == "headers" {
				headerName(field+"."+p.Name, p.Name)
			}
			if field == "headers" && in == "header" && sdk.Lower(p.Name) == sdk.Lower(key) {
				problems = append(problems, sdk.Problem{Field: field + "." + p.Name, Message: "is the header with the signature, remove it"})
			}
		}
	}
	return problems
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	m, err := newMessage(c)
	if err != nil {
		return sdk.Mutation{}, err
	}
	var out sdk.Mutation
	if out.Query, err = m.pairs("query"); err != nil {
		return sdk.Mutation{}, err
	}
	for _, p := range out.Query { // as the host appends them
		m.query = strings.TrimPrefix(m.query+"&"+c.Percent(p.Name)+"="+c.Percent(p.Value), "&")
	}
	if out.Headers, err = m.pairs("headers"); err != nil {
		return sdk.Mutation{}, err
	}
	m.headers = out.Headers
	text, err := m.field("message", c.Config("message"))
	if err != nil {
		return sdk.Mutation{}, err
	}
	secret := c.Config("secret")
	if encoding := c.Config("secret_encoding"); encoding != "text" {
		secret = c.Decode(encoding, secret)
	}
	hash := "HS" + strings.TrimPrefix(c.Config("algorithm"), "SHA-")
	m.signature = c.Encode(c.Config("encoding"), c.MAC(hash, secret, text))
	value, err := m.field("value", c.Config("value"))
	signed := sdk.Pair{Name: c.Config("key"), Value: value}
	if c.Config("in") == "query" {
		out.Query = append(out.Query, signed)
	} else {
		out.Headers = append(out.Headers, signed)
	}
	return out, err
}
