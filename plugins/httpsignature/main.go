// Plugin httpsignature signs requests with HTTP Message Signatures, RFC 9421.
package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	text := []string{sdk.ToHeader, sdk.ToDigest}
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "http_signature",
		Version: "1.0.0",
		Summary: "A signature of parts of each request, by HTTP Message Signatures (RFC 9421).",
		Uses:    []string{sdk.UsesSign, sdk.UsesBody},
		Fields: []sdk.Field{
			{Name: "private_key", Kind: sdk.Key, Required: true, AlgorithmField: "algorithm", Purposes: []string{sdk.ForHTTPSignature}, Derived: []string{sdk.ToHeader}, Doc: "Signing key in PEM, or the HMAC secret."},
			{Name: "algorithm", Kind: sdk.String, Required: true, Enum: sdk.HTTPSignatureAlgorithms(), Doc: "Signature algorithm."},
			{Name: "components", Kind: sdk.String, Default: "@method @target-uri content-digest", Doc: "What is signed: component names of RFC 9421 section 2, separated by spaces."},
			{Name: "content_digest", Kind: sdk.String, Enum: []string{"sha-256", "sha-512"}, Default: "sha-256", Doc: "Algorithm of the Content-Digest that is added if it is signed and absent (RFC 9530)."},
			{Name: "label", Kind: sdk.String, Default: "sig1", Doc: "Label of the signature."},
			{Name: "keyid", Kind: sdk.String, Sinks: text, Doc: "Identifier of the key; if it is absent, the thumbprint of the key's JWK (RFC 7638)."},
			{Name: "created", Kind: sdk.Boolean, Default: "true", Doc: "Whether the signature states its time."},
			{Name: "expires", Kind: sdk.Integer, Minimum: sdk.AtLeast(1), Doc: "Seconds until the signature expires."},
			{Name: "alg", Kind: sdk.Boolean, Default: "false", Doc: "Whether the signature states its algorithm."},
			{Name: "nonce", Kind: sdk.String, Sinks: text, Doc: "The word random for 64 random bytes in base64, or another text that is sent as it is."},
			{Name: "tag", Kind: sdk.String, Sinks: text, Doc: "Tag of the application, such as web-bot-auth."},
			{Name: "signature_agent", Kind: sdk.String, Sinks: text, Doc: "URL of the key directory, sent in the header Signature-Agent."},
		},
	}
}

func (plugin) Validate(c *sdk.Config) (problems []sdk.Problem) {
	list, literal := c.Literal("components")
	covered, err := parse(list)
	_, agent := c.Literal("signature_agent")
	switch {
	case !literal:
	case err != nil:
		problems = append(problems, sdk.Problem{Field: "components", Message: err.Error()})
	case agent && find(covered, "signature-agent") == nil:
		problems = append(problems, sdk.Problem{Field: "signature_agent", Message: unsignedAgent})
	}
	for _, name := range []string{"keyid", "nonce", "tag", "signature_agent"} {
		text, _ := c.Literal(name)
		if err := checkString(text); err != nil {
			problems = append(problems, sdk.Problem{Field: name, Message: err.Error()})
		}
	}
	if label, literal := c.Literal("label"); literal && !isKey(label) {
		problems = append(problems, sdk.Problem{Field: "label", Message: "may have lower-case letters, digits and _-.*, and begins with a letter or *"})
	}
	return problems
}

const unsignedAgent = "must be signed: add signature-agent to components"

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	covered, err := parse(c.Config("components"))
	if err != nil {
		return sdk.Mutation{}, errors.New("components " + err.Error())
	}
	m := message{}
	if m.Request, err = c.Request(); err != nil {
		return sdk.Mutation{}, err
	}
	m.split()
	m.addDigest(c, covered)
	if err := m.addAgent(c, covered); err != nil {
		return sdk.Mutation{}, err
	}
	base, identifiers := "", ""
	for i := range covered {
		value, err := m.value(&covered[i])
		if err != nil {
			return sdk.Mutation{}, err
		}
		base += covered[i].identifier + ": " + value + "\n"
		identifiers += " " + covered[i].identifier
	}
	stated, err := parameters(c)
	if err != nil {
		return sdk.Mutation{}, err
	}
	input := "(" + strings.TrimPrefix(identifiers, " ") + ")" + stated
	signature := c.SignSealed("private_key", sdk.ForHTTPSignature, base+`"@signature-params": `+input)
	label := c.Config("label")
	return sdk.Mutation{Headers: append(m.added,
		sdk.Pair{Name: "Signature-Input", Value: label + "=" + input},
		sdk.Pair{Name: "Signature", Value: label + "=:" + c.Base64(signature) + ":"},
	)}, nil
}

// parameters returns the signature parameters, RFC 9421 section 2.3.
//
//go:noinline
func parameters(c *sdk.Call) (string, error) {
	now := c.Now()
	keyid, algorithm, nonce := c.Config("keyid"), c.Config("algorithm"), c.Config("nonce")
	if keyid == "" && algorithm != "hmac-sha256" {
		keyid = c.PublicKey("private_key", sdk.JWKThumbprint)
	}
	if nonce == "random" {
		nonce = c.Base64(c.Decode(sdk.HexFormat, c.Random(64)))
	}
	created, expires := "", ""
	if c.Config("created") == "true" {
		created = strconv.FormatInt(now, 10)
	}
	if lifetime := c.Integer("expires"); lifetime > 0 {
		expires = strconv.FormatInt(now+lifetime, 10)
	}
	if c.Config("alg") != "true" {
		algorithm = ""
	}
	all := ""
	for _, p := range []sdk.Pair{
		{Name: "created", Value: created},
		{Name: "keyid", Value: keyid},
		{Name: "alg", Value: algorithm},
		{Name: "expires", Value: expires},
		{Name: "nonce", Value: nonce},
		{Name: "tag", Value: c.Config("tag")},
	} {
		var err error
		if p.Name != "created" && p.Name != "expires" && p.Value != "" {
			if p.Value, err = quote(c, p.Name, p.Value); err != nil {
				return "", err
			}
		}
		if p.Value != "" {
			all += ";" + p.Name + "=" + p.Value
		}
	}
	return all, nil
}
