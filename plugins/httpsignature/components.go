package main

import (
	"errors"
	"strconv"
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
	case "@method", "@target-uri", "@authority", "@scheme", "@request-target", "@path", "@query", "@query-param", "content-length":
		return c, ""
	case "host":
		return c, "is signed as @authority"
	case "authorization", "cookie":
		return c, "a plugin does not see"
	case "accept-encoding", "signature", "signature-input":
		return c, "may change after the request has been signed"
	}
	if c.name != "" && c.name[0] == '@' {
		return c, "is not a component of a request"
	}
	return c, sdk.CheckHeaderName(c.name)
}

// message is the request, with the parts of its URL and the headers that are added to it.
type message struct {
	sdk.Request
	// scheme and authority are in lower case, and the authority has no default port.
	scheme, authority, target, path, query string
	added                                  []sdk.Pair
}

// newMessage returns the outgoing request.
func newMessage(c *sdk.Call) (*message, error) {
	r, err := c.Request()
	m := &message{Request: r}
	m.scheme, m.authority, m.target = r.Split()
	m.path, m.query, _ = strings.Cut(m.target, "?")
	return m, err
}

// addDigest adds Content-Digest if it is covered and absent, RFC 9530.
func (m *message) addDigest(c *sdk.Call, covered []component) {
	if _, present := sdk.HeaderValue(m.Headers, "content-digest"); present || find(covered, "content-digest") == nil {
		return
	}
	name, hash := c.Config("content_digest"), sdk.DigestSHA256
	if name == "sha-512" {
		hash = sdk.DigestSHA512
	}
	m.added = append(m.added, sdk.Pair{Name: "Content-Digest", Value: name + "=:" + c.Base64(c.Digest(hash, c.Body())) + ":"})
}

// addAgent adds Signature-Agent. If the component has a key, the header is a dictionary, and otherwise a string.
func (m *message) addAgent(c *sdk.Call, covered []component) error {
	agent, signed := c.Config("signature_agent"), find(covered, "signature-agent")
	switch {
	case agent == "" && signed != nil && signed.argument != "":
		return errors.New("components has signature-agent;key=…, which needs the field signature_agent")
	case agent == "":
		return nil
	case signed == nil:
		return errors.New("signature_agent " + unsignedAgent)
	}
	value, err := quote(c, "signature_agent", agent)
	if signed.argument != "" {
		value = signed.argument + "=" + value
	}
	m.added = append(m.added, sdk.Pair{Name: "Signature-Agent", Value: value})
	return err
}

// parameter returns the value of a query parameter, RFC 9421 section 2.2.8. The name is as encode returns it.
func (m *message) parameter(name string) (value string, err error) {
	count := 0
	for _, p := range sdk.ParseQuery(m.query) {
		if encode(p.Name) == name {
			value = encode(p.Value)
			count++
		}
	}
	switch count {
	case 0:
		err = errors.New("the request's query has no " + name + ", which is to be signed: send it, or take it out of components")
	case 1:
	default:
		err = errors.New("the request's query has " + name + " more than once, so that it cannot be signed: put @query into components")
	}
	return value, err
}

// encode returns a decoded text of a query as it is signed: encoded as in a form, with %20 for a space.
func encode(text string) string { return sdk.PercentEncode(text, "*-._") }

// value returns the value of a component.
//
//go:noinline
func (m *message) value(c *component) (string, error) {
	switch c.name {
	case "@method":
		return m.Method, nil
	case "@target-uri":
		return m.scheme + "://" + m.authority + m.target, nil
	case "@authority":
		return m.authority, nil
	case "@scheme":
		return m.scheme, nil
	case "@request-target":
		return m.target, nil
	case "@path":
		return m.path, nil
	case "@query":
		return "?" + m.query, nil
	case "@query-param":
		return m.parameter(c.argument)
	case "content-length":
		const withZero = " POST PUT PATCH " // the methods with which net/http sends a length of 0
		if m.ContentLength > 0 || m.ContentLength == 0 && strings.Contains(withZero, " "+m.Method+" ") {
			return strconv.FormatInt(m.ContentLength, 10), nil
		}
	}
	value, found := sdk.HeaderValue(m.added, c.name)
	if !found {
		value, found = sdk.HeaderValue(m.Headers, c.name)
	}
	if !found || c.name == "content-length" {
		return "", errors.New("the request is sent without " + c.name + ", which is to be signed: send it, or take it out of components")
	}
	if c.argument != "" { // the key of Signature-Agent
		value = value[len(c.argument)+1:]
	}
	return value, nil
}
