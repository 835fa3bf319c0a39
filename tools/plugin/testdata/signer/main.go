// Plugin signer signs requests with HTTP Message Signatures, RFC 9421. It is an ordinary plugin that the compiler could inline
// into one large function.
package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {}

type plugin struct{}

func (plugin) Describe() sdk.Description {
	return sdk.Description{
		ABI: sdk.ABI, Type: "http_message_signature", Version: "0.1.0", Summary: "HTTP Message Signatures, RFC 9421.",
		Uses: []sdk.Group{sdk.UsesSign},
		Fields: []sdk.Field{
			{Name: "secret", Kind: sdk.String, Sealed: true, Sinks: []sdk.Sink{sdk.ToSign, sdk.ToHeader}, Doc: "Of hmac-sha256."},
			{Name: "private_key", Kind: sdk.Key, AlgorithmField: "algorithm", Doc: "Of the others; needs the grant sign_raw."},
			{Name: "algorithm", Kind: sdk.String, Enum: []string{"HS256", "EdDSA", "ES256", "ES384", "RS256", "PS512"}, Default: "HS256", Doc: "RFC 9421's hmac-sha256, ed25519, ecdsa-p256-sha256, ecdsa-p384-sha384, rsa-v1_5-sha256, rsa-pss-sha512."},
			{Name: "key_id", Kind: sdk.String, Required: true, Doc: "keyid."},
			{Name: "label", Kind: sdk.String, Default: "sig1", Doc: "Of the signature."},
			{Name: "components", Kind: sdk.String, Default: "@method @target-uri", Doc: "What is covered, separated by spaces; content-digest is added to the request."},
		},
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	if list, ok := c.Literal("components"); ok {
		for _, name := range strings.Fields(list) {
			if strings.HasPrefix(name, "@") && !derived(name) {
				return []sdk.Problem{{Field: "components", Message: "there is no " + name}}
			}
			if name == "authorization" || name == "cookie" {
				return []sdk.Problem{{Field: "components", Message: name + " is not shown to plugins"}}
			}
		}
	}
	return nil
}

func derived(name string) bool {
	switch name {
	case "@method", "@target-uri", "@authority", "@scheme", "@request-target", "@path", "@query":
		return true
	}
	return false
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	r, err := c.Request()
	if err != nil {
		return sdk.Mutation{}, err
	}
	var out []sdk.Pair
	base, list := "", ""
	for _, name := range strings.Fields(c.Config("components")) {
		value, ok := component(&r, name)
		if name == "content-digest" && !ok {
			value = "sha-256=:" + c.Base64(c.Digest(sdk.DigestSHA256, c.Body())) + ":"
			out, ok = append(out, sdk.Pair{Name: "Content-Digest", Value: value}), true
		}
		if !ok {
			return sdk.Mutation{}, errors.New("the request has no " + name + ", which is to be signed")
		}
		base += `"` + name + `": ` + value + "\n"
		list += ` "` + name + `"`
	}
	parameters := "(" + strings.TrimPrefix(list, " ") + ");created=" + strconv.FormatInt(c.Now(), 10) + `;keyid="` + c.Config("key_id") + `"`
	base += `"@signature-params": ` + parameters
	signature := ""
	if c.Config("algorithm") == "HS256" {
		signature = c.Base64(c.MAC(sdk.MACSHA256, c.Config("secret"), base))
	} else {
		signature = c.Base64(string(c.Sign("private_key", base)))
	}
	label := c.Config("label")
	return sdk.Mutation{Headers: append(out,
		sdk.Pair{Name: "Signature-Input", Value: label + "=" + parameters},
		sdk.Pair{Name: "Signature", Value: label + "=:" + signature + ":"},
	)}, nil
}

// component returns the value of a component of a request, RFC 9421 section 2, and reports whether there is one.
func component(r *sdk.Request, name string) (string, bool) {
	scheme, rest, _ := strings.Cut(r.URL, "://")
	rest, _, _ = strings.Cut(rest, "#")
	at := strings.IndexAny(rest, "/?")
	if at < 0 {
		at = len(rest)
	}
	authority, target := rest[:at], rest[at:]
	path, query, _ := strings.Cut(target, "?")
	if path == "" {
		path, target = "/", "/"+target
	}
	switch name {
	case "@method":
		return r.Method, true
	case "@scheme":
		return scheme, true
	case "@authority":
		return strings.ToLower(authority), true
	case "@path":
		return path, true
	case "@query":
		return "?" + query, true
	case "@request-target":
		return target, true
	case "@target-uri":
		return scheme + "://" + authority + target, true
	}
	value, found := "", false
	for _, h := range r.Headers {
		if strings.EqualFold(h.Name, name) {
			if found {
				value += ", "
			}
			value, found = value+strings.TrimSpace(h.Value), true
		}
	}
	return value, found
}
