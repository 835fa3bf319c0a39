package main

import (
	"strings"

	"github.com/keywright/keywright/sdk"
)

// statuses are those of the challenge, which login_again may list.
const statuses = "400 401 403 419 440 498"

func (plugin) Validate(c *sdk.Config) (problems []sdk.Problem) {
	wrong := func(field, message string) { problems = append(problems, sdk.Problem{Field: field, Message: message}) }
	for _, step := range []string{"login", "second"} {
		objects := []string{step + "_headers"}
		if request, _ := c.Literal(step + "_request"); request == "form" || request == "query" {
			objects = append(objects, step+"_body")
		}
		for _, field := range objects {
			object, _ := c.Literal(field)
			pairs, err := sdk.Pairs(object)
			if err != nil {
				wrong(field, err.Error())
			}
			for _, p := range pairs {
				if message := sdk.CheckHeaderName(p.Name); message != "" && field == step+"_headers" {
					wrong(field+"."+p.Name, message)
				}
			}
		}
	}
	_, second := c.Literal("second_url")
	if first, _ := c.Literal("first_answer_from"); second && first == "" {
		wrong("first_answer_from", "is missing: it says what the second step needs of the first answer")
	}
	header, _ := c.Literal("extra_header")
	if extra, _ := c.Literal("extra_from"); header != "" && extra == "" {
		wrong("extra_from", "is missing: it says where the value of extra_header is")
	}
	if message := sdk.CheckHeaderName(header); message != "" && header != "" {
		wrong("extra_header", message)
	}
	again, _ := c.Literal("login_again")
	for _, status := range strings.Split(again, " ") {
		if again != "" && !lists(statuses, status) {
			wrong("login_again", "may list these, separated by spaces: "+statuses)
			break
		}
	}
	in, _ := c.Literal("in")
	key, literal := c.Literal("key")
	switch message := sdk.CheckHeaderName(key); {
	case !literal:
	case in == "header" && message != "":
		wrong("key", message)
	case in == "cookie" && !sdk.IsToken(key):
		wrong("key", "is not the name of a cookie: letters, digits and any of !#$%&'*+-.^_`|~ are allowed")
	}
	if prefix, _ := c.Literal("prefix"); prefix != "" && (in == "cookie" || in == "query") {
		wrong("prefix", "is for a header only: remove it, or set in to header")
	}
	return problems
}

// lists reports whether a list of words has a word.
func lists(list, word string) bool { return strings.Contains(" "+list+" ", " "+word+" ") }
