package main

import (
	"errors"
	"strings"

	"github.com/keywright/keywright/sdk"
)

// component is a component that the signature covers, RFC 9421 section 2.
type component struct {
	// identifier is the component identifier, such as "@query-param";name="id".
	identifier string
	// name is the name of a derived component, or that of a header in lower case.
	name string
	// argument is the value of the identifier's parameter, or "".
	argument string
	// value is a template of its value.
	value string
}

// parse returns the components of a list. The list may be written as in Signature-Input, or without quotes and parentheses.
func parse(list string) (covered []component, err error) {
	for _, word := range strings.Split(strings.Trim(strings.ReplaceAll(list, "\n", " "), " ()"), " ") {
		if word == "" {
			continue
		}
		c, problem := identify(word)
		for _, other := range covered {
			if other.identifier == c.identifier || other.name == c.name && c.name != "@query-param" {
				problem = "is there twice"
			}
		}
		if problem != "" {
			return nil, errors.New("has " + word + ", which " + problem)
		}
		covered = append(covered, c)
	}
	if covered == nil && strings.IndexByte(list, '(') < 0 {
		return nil, errors.New("names nothing to sign: write () if that is meant")
	}
	return covered, nil
}

// find returns the component of a name, or nil.
func find(list []component, name string) *component {
	for i := range list {
		if list[i].name == name {
			return &list[i]
		}
	}
	return nil
}

// identify returns the component that a word of the list names. problem says why it cannot be signed, or is "".
//
//go:noinline
func identify(word string) (c component, problem string) {
	name, rest, _ := strings.Cut(word, ";")
	parameter, argument, _ := strings.Cut(rest, "=")
	argument = strings.Trim(argument, `"`)
	c.name = sdk.Lower(strings.Trim(name, `"`))
	c.identifier = `"` + c.name + `"`
	switch {
	case c.name == "@query-param" && parameter == "name" && argument != "":
		c.argument = encode(sdk.FormDecode(argument))
	case c.name == "@query-param":
		return c, "needs the name of a parameter, such as @query-param;name=id"
	case c.name == "signature-agent" && parameter == "key" && isKey(argument):
		c.argument = argument
	case rest != "":
		return c, "has a parameter that is not supported: there are @query-param;name=… and signature-agent;key=…"
	}
	if c.argument != "" {
		c.identifier += ";" + parameter + `="` + c.argument + `"`
	}
	switch c.name {
	case "@method", "@authority", "@scheme", "@path":
		c.value = "{" + c.name[1:] + "}"
	case "@target-uri":
		c.value = "{scheme}://{authority}{target}"
	case "@request-target":
		c.value = "{target}"
	case "@query":
		c.value = "?{query}"
	case "@query-param":
		c.value = "{query_param:" + c.argument + "|required}"
	case "content-length":
		c.value = "{header:content-length|required}"
	case "host":
		return c, "is signed as @authority"
	case "authorization", "cookie":
		return c, "a plugin does not see"
	case "accept-encoding", "signature", "signature-input":
		return c, "may change after the request has been signed"
	default:
		if c.name != "" && c.name[0] == '@' {
			return c, "is not a component of a request"
		}
		c.value = "{header:" + c.name + "|required}"
		return c, sdk.CheckHeaderName(c.name)
	}
	return c, ""
}

// addDigest returns Content-Digest if it is covered and absent, RFC 9530.
func addDigest(c *sdk.Call, covered []component) (added []sdk.Pair) {
	if find(covered, "content-digest") == nil || c.Compose("{header:content-digest}") != "" {
		return nil
	}
	template := "sha-256=:{body|sha256|base64}:"
	if c.Config("content_digest") == "sha-512" {
		template = "sha-512=:{body|sha512|base64}:"
	}
	return []sdk.Pair{{Name: "Content-Digest", Value: c.Compose(template)}}
}

// addAgent returns Signature-Agent. If the component has a key, the header is a dictionary, and otherwise a string.
func addAgent(c *sdk.Call, covered []component) (added []sdk.Pair, err error) {
	agent, signed := c.Config("signature_agent"), find(covered, "signature-agent")
	switch {
	case agent == "" && signed != nil && signed.argument != "":
		return nil, errors.New("components has signature-agent;key=…, which needs the field signature_agent")
	case agent == "":
		return nil, nil
	case signed == nil:
		return nil, errors.New("signature_agent " + unsignedAgent)
	}
	value, err := quote(c, "signature_agent", agent)
	if signed.argument != "" {
		signed.value = sdk.Literal(value)
		value = signed.argument + "=" + value
	}
	return []sdk.Pair{{Name: "Signature-Agent", Value: value}}, err
}

// encode returns a decoded text of a query as it is signed: encoded as in a form, with %20 for a space.
func encode(text string) string { return sdk.PercentEncode(text, "*-._") }
