// Plugin jws signs requests with a detached JWS, RFC 7515 appendix F and RFC 7797, as banks ask for it.
package main

import (
	"slices"
	"strings"

	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	header, claim := []sdk.Sink{sdk.ToHeader}, []sdk.Sink{sdk.ToClaim}
	return sdk.Description{
		ABI: sdk.ABI, Type: "jws", Version: "1.0.0",
		Summary: "A JWS over the body or other parts of each request, sent without what it signs.",
		Uses:    []sdk.Group{sdk.UsesSign, sdk.UsesBody},
		Fields: []sdk.Field{
			{
				Name: "private_key", Kind: sdk.Key, Required: true, AlgorithmField: "algorithm", Purposes: []sdk.Purpose{sdk.ForJWS}, Derived: header,
				Doc: "Signing key, which may serve nothing else.",
			},
			{Name: "algorithm", Kind: sdk.String, Enum: sdk.Algorithms()[3:], Default: "RS256", Doc: "Signature algorithm."}, // all but those of HMACs
			{
				Name: "jwt_headers", Kind: sdk.Object, Sinks: []sdk.Sink{sdk.ToClaim, sdk.ToDigest}, Derived: claim, Composed: true,
				Doc: "Further header members, such as kid; texts may have placeholders.",
			},
			{Name: "crit", Kind: sdk.String, Default: "", Doc: "Names of the header members that the API must understand, with spaces between them."},
			{Name: "b64", Kind: sdk.Boolean, Default: "true", Doc: "Whether the payload is signed in base64url; false adds b64 to crit."},
			{
				Name: "payload", Kind: sdk.String, Default: "{body}", Sinks: []sdk.Sink{sdk.ToDigest}, Derived: header, Composed: true,
				Doc: "Text that is signed, with placeholders such as {method}, {path} and {body}.",
			},
			{Name: "key", Kind: sdk.String, Required: true, Doc: "Name of the header with the JWS."},
			{Name: "prefix", Kind: sdk.String, Doc: "Word in front of the JWS."},
			{Name: "detached", Kind: sdk.Boolean, Default: "true", Doc: "Whether the payload is left out; false sends it, and it cannot be the body."},
		},
		Challenge: &sdk.Challenge{}, // so that the host learns how far the API's clock is ahead
	}
}

// numbers are header members that are times in seconds: the last of Open Banking UK, Read/Write Data API profile 3.1.
func numbers() []string { return []string{"iat", "exp", "http://openbanking.org.uk/iat"} }

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	problems := append(c.CheckName("key", "header"), c.Reserved("jwt_headers", "is fixed by the host", sdk.ReservedHeaders()...)...)
	problems = append(problems, c.Reserved("jwt_headers", "would make the JWS something else, or say which key verifies it", "cty", "zip", "jku", "jwk")...)
	problems = append(problems, c.Misspelled("jwt_headers", "typ")...)
	crit, _ := c.Literal("crit")
	missing := strings.Fields(crit)
	object, _ := c.Literal("jwt_headers")
	_ = sdk.EachMember(object, func(name, value string) error {
		if name == "typ" && value != `"JOSE"` && value != `"JOSE+JSON"` {
			problems = append(problems, sdk.Problem{Field: "jwt_headers.typ", Message: "is neither JOSE nor JOSE+JSON, remove it"})
		}
		missing = slices.DeleteFunc(missing, func(critical string) bool { return critical == name })
		return nil
	})
	for _, name := range missing {
		if name != "b64" {
			problems = append(problems, sdk.Problem{Field: "crit", Message: "has " + name + ", which is no member of jwt_headers"})
		}
	}
	b64, _ := c.Literal("b64")
	payload, _ := c.Literal("payload")
	if detached, _ := c.Literal("detached"); detached == "false" && (b64 == "false" || strings.Contains(payload, "{body}")) {
		problems = append(problems, sdk.Problem{Field: "detached", Message: "is false, and only a payload without the body, with b64, can be sent in the JWS"})
	}
	return problems
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	jws := c.SignJWS(sdk.JWS{
		Key: "private_key", Header: c.ComposeObject(c.Config("jwt_headers")), Crit: strings.Fields(c.Config("crit")), Unencoded: c.Config("b64") == "false",
		Payload: c.Compose(c.Config("payload")), Attached: c.Config("detached") == "false", Integers: numbers(),
	})
	return sdk.Header(c.Config("key"), strings.TrimPrefix(c.Config("prefix")+" "+jws, " ")), nil
}
