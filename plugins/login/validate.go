package main

import (
	"strings"

	"github.com/keywright/keywright/sdk"
)

// statuses are those of the challenge, which login_again may list.
const statuses = "400 401 403 419 440 498"

// problems collects what is wrong in a configuration.
type problems []sdk.Problem

func (p *problems) add(field, message string) {
	if message != "" {
		*p = append(*p, sdk.Problem{Field: field, Message: message})
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	var p problems
	p.step(c, "login")
	p.step(c, "second")
	in, _ := c.Literal("in")
	if key, literal := c.Literal("key"); literal {
		p.add("key", checkKey(in, key))
	}
	if header, literal := c.Literal("extra_header"); literal {
		p.add("extra_header", sdk.CheckHeaderName(header))
	}
	again, _ := c.Literal("login_again")
	for _, status := range strings.Split(again, " ") {
		if again != "" && !lists(statuses, status) {
			p.add("login_again", "may list these, separated by spaces: "+statuses)
			break
		}
	}
	return p
}

// step checks the headers of a step, and its body if that is a form or a query.
func (p *problems) step(c *sdk.Config, step string) {
	headers, _ := c.Literal(step + "_headers")
	pairs, err := sdk.Pairs(headers)
	if err != nil {
		p.add(step+"_headers", err.Error())
	}
	for _, header := range pairs {
		p.add(step+"_headers."+header.Name, sdk.CheckHeaderName(header.Name))
	}
	if request, _ := c.Literal(step + "_request"); request == "form" || request == "query" {
		body, _ := c.Literal(step + "_body")
		if _, err := sdk.Pairs(body); err != nil {
			p.add(step+"_body", err.Error())
		}
	}
}

// checkKey returns the reason why no request could carry a token under a name, or "".
func checkKey(in, key string) string {
	switch {
	case in == "header":
		return sdk.CheckHeaderName(key)
	case in == "cookie" && !sdk.IsToken(key):
		return "is not the name of a cookie: letters, digits and any of !#$%&'*+-.^_`|~ are allowed"
	}
	return ""
}

// lists reports whether a list of words has a word.
func lists(list, word string) bool { return strings.Contains(" "+list+" ", " "+word+" ") }
