// Plugin httpsignature signs requests with HTTP Message Signatures, RFC 9421.
package main

import (
	"errors"
	"strconv"

	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	sinks := []sdk.Sink{sdk.ToHeader, sdk.ToDigest}
	text := func(name, doc string) sdk.Field { // a string of a structured field, RFC 9651 section 3.3.3
		return sdk.Field{
			Name: name, Kind: sdk.String, Sinks: sinks, Pattern: `[ -~]*`, PatternMessage: "has a character that is not printable ASCII", Doc: doc,
		}
	}
	return sdk.Description{
		ABI: sdk.ABI, Type: "http_signature", Version: "1.0.0",
		Summary: "A signature of parts of each request, by HTTP Message Signatures (RFC 9421).",
		Uses:    []sdk.Group{sdk.UsesSign, sdk.UsesBody},
		Fields: []sdk.Field{
			{Name: "private_key", Kind: sdk.Key, Required: true, AlgorithmField: "algorithm", Purposes: []sdk.Purpose{sdk.ForHTTPSignature}, Derived: []sdk.Sink{sdk.ToHeader}, Doc: "Signing key in PEM, or the HMAC secret."},
			{Name: "algorithm", Kind: sdk.String, Required: true, Enum: sdk.Names(sdk.HTTPSignatureAlgorithms()), Algorithms: sdk.HTTPSignatureAlgorithms(), Doc: "Signature algorithm."},
			{Name: "components", Kind: sdk.String, Default: "@method @target-uri content-digest", Doc: "What is signed: component names of RFC 9421 section 2, separated by spaces."},
			{Name: "content_digest", Kind: sdk.String, Enum: []string{"sha-256", "sha-512"}, Default: "sha-256", Doc: "Algorithm of the Content-Digest that is added if it is signed and absent (RFC 9530)."},
			{
				Name: "label", Kind: sdk.String, Default: "sig1", Doc: "Label of the signature.", Pattern: `[a-z*][a-z0-9_.*-]*`,
				PatternMessage: "may have lower-case letters, digits and _-.*, and begins with a letter or *",
			},
			text("keyid", "Identifier of the key; if it is absent, the thumbprint of the key's JWK (RFC 7638)."),
			{Name: "created", Kind: sdk.Boolean, Default: "true", Doc: "Whether the signature states its time."},
			{Name: "expires_seconds", Kind: sdk.Integer, Minimum: sdk.Limit(1), Doc: "Seconds for which the signature is valid."},
			{Name: "alg", Kind: sdk.Boolean, Default: "false", Doc: "Whether the signature states its algorithm."},
			text("nonce", "The word random for 64 random bytes in base64, or another text that is sent as it is."),
			text("tag", "Tag of the application, such as web-bot-auth."),
			text("signature_agent", "URL of the key directory, sent in the header Signature-Agent."),
		},
		Challenge: &sdk.Challenge{}, // so that the host learns how far the API's clock is ahead
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	list, literal := c.Literal("components")
	covered, err := sdk.ParseComponents(list)
	_, agent := c.Literal("signature_agent")
	switch {
	case !literal:
	case err != nil:
		return []sdk.Problem{{Field: "components", Message: err.Error()}}
	case agent && covered.Find("signature-agent") == nil:
		return []sdk.Problem{{Field: "signature_agent", Message: unsignedAgent}}
	}
	return nil
}

const unsignedAgent = "must be signed: add signature-agent to components"

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	covered, err := sdk.ParseComponents(c.Config("components"))
	if err != nil {
		return sdk.Mutation{}, errors.New("components " + err.Error())
	}
	agent, err := addAgent(c, covered)
	if err != nil {
		return sdk.Mutation{}, err
	}
	added := append(addDigest(c, covered), agent...)
	base, input := c.SignatureBase(covered, parameters(c), sdk.Mutation{Headers: added})
	signature := c.SignSealed("private_key", sdk.ForHTTPSignature, base)
	label := c.Config("label")
	return sdk.Mutation{Headers: append(added,
		sdk.Pair{Name: "Signature-Input", Value: label + "=" + input},
		sdk.Pair{Name: "Signature", Value: label + "=:" + c.Base64(signature) + ":"},
	)}, nil
}

// parameters returns the signature parameters, RFC 9421 section 2.3.
func parameters(c *sdk.Call) (all string) {
	now := c.Now() + c.ClockOffset()
	if c.Config("created") == "true" {
		all = ";created=" + strconv.FormatInt(now, 10)
	}
	if lifetime := c.Integer("expires_seconds"); lifetime > 0 {
		all += ";expires=" + strconv.FormatInt(now+lifetime, 10)
	}
	keyid, algorithm, nonce := c.Config("keyid"), c.Config("algorithm"), c.Config("nonce")
	if keyid == "" && algorithm != "hmac-sha256" {
		keyid = c.PublicKey("private_key", sdk.JWKThumbprint)
	}
	if c.Config("alg") != "true" {
		algorithm = ""
	}
	if nonce == "random" {
		nonce = c.Base64(c.Decode("hex", c.Random(64)))
	}
	more := []sdk.Pair{{Name: "keyid", Value: keyid}, {Name: "alg", Value: algorithm}, {Name: "nonce", Value: nonce}, {Name: "tag", Value: c.Config("tag")}}
	for _, p := range sdk.Present(more) {
		all += ";" + p.Name + "=" + c.Quoted(p.Value)
	}
	return all
}

// addDigest returns Content-Digest if it is covered and absent, RFC 9530.
func addDigest(c *sdk.Call, covered sdk.Components) (added []sdk.Pair) {
	if covered.Find("content-digest") == nil || c.Compose("{header:content-digest}") != "" {
		return nil
	}
	template := "sha-256=:{body|sha256|base64}:"
	if c.Config("content_digest") == "sha-512" {
		template = "sha-512=:{body|sha512|base64}:"
	}
	return []sdk.Pair{{Name: "Content-Digest", Value: c.Compose(template)}}
}

// addAgent returns Signature-Agent. If the component has a key, the header is a dictionary, and otherwise a string.
func addAgent(c *sdk.Call, covered sdk.Components) ([]sdk.Pair, error) {
	agent, signed := c.Config("signature_agent"), covered.Find("signature-agent")
	switch {
	case agent == "" && signed != nil && signed.Argument != "":
		return nil, errors.New("components has signature-agent;key=…, which needs the field signature_agent")
	case agent == "":
		return nil, nil
	case signed == nil:
		return nil, errors.New("signature_agent " + unsignedAgent)
	}
	value := c.Quoted(agent)
	if signed.Argument != "" {
		signed.Value = sdk.EscapeTemplate(value)
		value = signed.Argument + "=" + value
	}
	return []sdk.Pair{{Name: "Signature-Agent", Value: value}}, nil
}
