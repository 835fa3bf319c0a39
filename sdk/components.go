package sdk

import (
	"errors"
	"strings"

	"github.com/keywright/keywright/internal/contract"
)

// Component is a part of a request that an HTTP message signature covers, RFC 9421 section 2.
type Component struct {
	// Identifier is the component identifier, such as "@query-param";name="id".
	Identifier string
	// Name is the name of a derived component, or that of a header in lower case.
	Name string
	// Argument is the value of the identifier's parameter, or "".
	Argument string
	// Value is a template of its value, see [Call.Compose].
	Value string
}

// Components are the parts of a request that a signature covers, in their order.
type Components []Component

// ParseComponents returns the components of a list. The list may be written as in Signature-Input, or without quotes and
// parentheses. The error says which word of the list cannot be signed, and why: "has host, which is signed as @authority".
//
// The component signature-agent may have a key, as Web Bot Auth writes it. Then its Value must be set: to a template of the value that
// this member of the header has.
func ParseComponents(list string) (covered Components, err error) {
	for _, word := range strings.Split(strings.Trim(strings.ReplaceAll(list, "\n", " "), " ()"), " ") {
		if word == "" {
			continue
		}
		c, problem := parseComponent(word)
		for _, earlier := range covered {
			if earlier.Identifier == c.Identifier || earlier.Name == c.Name && c.Name != "@query-param" {
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

// Find returns the component of a name, or nil.
func (l Components) Find(name string) *Component {
	for i := range l {
		if l[i].Name == name {
			return &l[i]
		}
	}
	return nil
}

// SignatureBase returns the signature base of the outgoing request, as it will be sent with the headers of a mutation (RFC 9421 section
// 2.5). It also returns the value of its member in Signature-Input, which are the components and the parameters. The parameters are
// written as there, such as ;created=1618884473;keyid="k1".
func (c *Call) SignatureBase(covered Components, parameters string, m Mutation) (base, input string) {
	template := ""
	for _, o := range covered {
		value := o.Value
		if o.Name == "content-length" && c.sendsNoBody() {
			value = "0"
		}
		template += o.Identifier + ": " + value + "\n"
		input += " " + o.Identifier
	}
	input = "(" + strings.TrimPrefix(input, " ") + ")" + parameters
	return c.ComposeWith(template+`"@signature-params": `+EscapeTemplate(input), m), input
}

// sendsNoBody reports whether the request has no body, and a Content-Length that says so.
//
//go:noinline
func (c *Call) sendsNoBody() bool {
	switch c.Compose("{method} {content_length}") {
	case "POST 0", "PUT 0", "PATCH 0": // net/http sends it
		return true
	}
	return false
}

// parseComponent returns the component that a word of a list names. problem says why it cannot be signed, or is "".
//
//go:noinline
func parseComponent(word string) (c Component, problem string) {
	name, rest, _ := strings.Cut(word, ";")
	parameter, argument, _ := strings.Cut(rest, "=")
	argument = strings.Trim(argument, `"`)
	c.Name = Lower(strings.Trim(name, `"`))
	c.Identifier = `"` + c.Name + `"`
	switch {
	case c.Name == "@query-param" && parameter == "name" && argument != "" && strings.IndexByte(argument, ';') < 0:
		c.Argument = percentEncode(formDecode(argument), "*-._")
	case c.Name == "@query-param" && (parameter != "name" || argument == ""):
		return c, "needs the name of a parameter, such as @query-param;name=id"
	case c.Name == "signature-agent" && parameter == "key" && isKey(argument):
		c.Argument = argument
	case rest != "":
		return c, "has a parameter that is not supported: there are @query-param;name=… and signature-agent;key=…"
	}
	if c.Argument != "" {
		c.Identifier += ";" + parameter + `="` + c.Argument + `"`
	}
	c.Value, problem = componentValue(c.Name, c.Argument)
	return c, problem
}

// componentValue returns a template of the value of a component.
func componentValue(name, argument string) (template, problem string) {
	switch name {
	case "@method", "@authority", "@scheme", "@path":
		return "{" + name[1:] + "}", ""
	case "@target-uri":
		return "{scheme}://{authority}{target}", ""
	case "@request-target":
		return "{target}", ""
	case "@query":
		return "?{query}", ""
	case "@query-param":
		return "{query_param:" + argument + "|required}", ""
	case "content-length":
		return "{header:content-length|required}", ""
	case "host":
		return "", "is signed as @authority"
	case "accept-encoding", "signature", "signature-input":
		return "", "may change after the request has been signed"
	}
	switch {
	case name != "" && name[0] == '@':
		return "", "is not a component of a request"
	case strings.IndexByte(name, '|') >= 0: // which ends the name in a template
		return "", "is a header with |, whose value cannot be composed"
	}
	return "{header:" + name + "|required}", contract.CheckHeaderName(name)
}

// isKey reports whether text is a key of a dictionary, RFC 9651 section 3.1.2.
func isKey(text string) bool {
	for i := 0; i < len(text); i++ {
		c := text[i]
		first := 'a' <= c && c <= 'z' || c == '*'
		if !first && (i == 0 || (c < '0' || c > '9') && c != '_' && c != '-' && c != '.') {
			return false
		}
	}
	return text != ""
}
