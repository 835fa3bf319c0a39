// Plugin acme_hmac signs each request to Acme's API with a shared secret. It is an example of an auth type outside of
// Keywright: its Go module requires only the SDK.
//
// The signature is an HMAC with SHA-256, in hex. It covers four lines: the method, the path and query, the Unix time, and
// the SHA-256 of the body in hex. It is sent in the header
//
//	Authorization: ACME-HMAC-SHA256 key=ID, time=UNIX, signature=HEX
package main

import (
	"errors"

	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "acme_hmac",
		Version: "1.0.0",
		Summary: "An HMAC over method, path, time and body, for Acme's API.",
		Uses:    []sdk.Group{sdk.UsesSign, sdk.UsesBody},
		Fields: []sdk.Field{
			{Name: "key_id", Kind: sdk.String, Required: true, Sinks: []sdk.Sink{sdk.ToHeader}, Doc: "Which key the request is signed with."},
			// Only what is derived from the secret may go into a header, not the secret itself.
			{Name: "secret", Kind: sdk.String, Required: true, Sealed: true, Sinks: []sdk.Sink{sdk.ToSign}, Derived: []sdk.Sink{sdk.ToHeader}, Doc: "The shared secret."},
		},
	}
}

const noToken = "has a character that is neither a letter nor a digit nor one of !#$%&'*+-.^_`|~"

// Validate implements [sdk.Validator].
func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	if keyID, literal := c.Literal("key_id"); literal && !sdk.IsToken(keyID) {
		return []sdk.Problem{{Field: "key_id", Message: noToken}}
	}
	return nil
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	if !sdk.IsToken(c.Config("key_id")) { // it came from a template
		return sdk.Mutation{}, errors.New("key_id " + noToken)
	}
	signed := c.Compose("{method}\n{target}\n{timestamp}\n{body|sha256|hex}")
	signature := c.Hex(c.MAC(sdk.MACSHA256, c.Config("secret"), signed))
	return sdk.Header("Authorization", c.Compose("ACME-HMAC-SHA256 key={config:key_id}, time={timestamp}, signature=")+signature), nil
}
