// Plugin login adds a token or a session that it gets from a login of the API's own, in one step or two.
package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/keywright/keywright/sdk"
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

// refusal is a pattern of a status of the challenge.
const refusal = `(40[013]|419|440|498)`

func (plugin) Describe() sdk.Description {
	token, requests, escape := []sdk.Sink{sdk.ToToken}, []string{"json", "form", "query"}, sdk.TemplateEscape
	two, extra := []sdk.Condition{{Field: "second_url"}}, []sdk.Condition{{Field: "extra_from"}}
	placed := func(name string, sink sdk.Sink, doc string) sdk.Field {
		return sdk.Field{Name: name, Kind: sdk.Object, Sinks: []sdk.Sink{sink}, Composed: true, Values: []string{"token", "extra", "first_answer"}, Doc: doc}
	}
	return sdk.Description{
		ABI: sdk.ABI, Type: "login", Version: "1.0.0",
		Summary: "A token or session cookie from a login of the API's own, cached until a minute before it ends.",
		Uses:    []sdk.Group{sdk.UsesToken, sdk.UsesCache},
		Fields: []sdk.Field{
			{Name: "login_url", Kind: sdk.URL, Required: true, Sinks: token, Doc: "Where to log in."},
			{Name: "login_request", Kind: sdk.String, Enum: requests, Default: "json", Doc: "How login_body is sent: json and form by POST, query by GET."},
			{Name: "login_body", Kind: sdk.Object, Sinks: token, Doc: "Members of the login, such as user name and password."},
			{Name: "login_headers", Kind: sdk.Object, Sinks: token, Doc: "Headers of the login."},
			{Name: "second_url", Kind: sdk.URL, Sinks: token, Doc: "Where the second step goes."},
			{Name: "first_answer_from", Kind: sdk.String, RequiredIf: two, OnlyIf: two, Doc: "Place in the first answer of what the second step needs."},
			{Name: "second_request", Kind: sdk.String, OnlyIf: two, Enum: requests, Default: "json", Doc: "How second_body is sent."},
			{Name: "second_body", Kind: sdk.Object, OnlyIf: two, Sinks: token, Escape: escape, Doc: "Members of the second step. In texts, {first_answer} is replaced."},
			{Name: "second_headers", Kind: sdk.Object, OnlyIf: two, Sinks: token, Escape: escape, Doc: "Headers of the second step. {first_answer} is replaced."},
			{Name: "token_from", Kind: sdk.String, Required: true, Doc: "Place of the token in the answer, such as json:/data/token, header:X-Token or cookie:SESSION."},
			{Name: "in", Kind: sdk.String, Enum: []string{"header", "cookie", "query"}, Default: "header", Doc: "Where the API wants the token."},
			{Name: "key", Kind: sdk.String, Required: true, Doc: "Name of the header, cookie or query parameter."},
			{Name: "prefix", Kind: sdk.String, OnlyIf: []sdk.Condition{{Field: "in", Values: []string{"header"}}}, Doc: "Word in front of the token in the header, such as Bearer."},
			{Name: "extra_header", Kind: sdk.String, OnlyIf: extra, Doc: "Name of a header with another value that the API wants, such as a CSRF token."},
			{Name: "extra_from", Kind: sdk.String, Doc: "Place of that value in the answer."},
			placed("headers", sdk.ToHeader, "Further headers, with {token}, {extra} and {first_answer}."),
			placed("cookies", sdk.ToHeader, "Further cookies, with the same placeholders."),
			placed("query", sdk.ToQuery, "Further query parameters, with the same placeholders."),
			{Name: "url_from", Kind: sdk.String, Doc: "Place in the answer of the API's URL."},
			{Name: "expires_in_from", Kind: sdk.String, Doc: "Place of the token's lifetime in seconds."},
			{Name: "expires_at_from", Kind: sdk.String, Doc: "Place of the time at which the token ends."},
			{Name: "token_ttl", Kind: sdk.Integer, Default: "3600", Minimum: sdk.Limit(1), Doc: "Lifetime of the token in seconds if the answer has none."},
			{
				Name: "login_again", Kind: sdk.String, Default: "401", Doc: "Statuses of the API after which the session is over, separated by spaces.",
				Pattern: `(` + refusal + `( ` + refusal + `)*)?`, PatternMessage: "may list these, separated by spaces: 400 401 403 419 440 498",
			},
		},
		Answers: []sdk.Answer{
			{Name: "first_answer", FromField: "first_answer_from", Kind: sdk.AnswerSealed, Sinks: []sdk.Sink{sdk.ToToken, sdk.ToHeader, sdk.ToQuery}, Required: true},
			{Name: "token", FromField: "token_from", Kind: sdk.AnswerSealed, Sinks: []sdk.Sink{sdk.ToHeader, sdk.ToQuery}, Required: true},
			{Name: "extra", FromField: "extra_from", Kind: sdk.AnswerSealed, Sinks: []sdk.Sink{sdk.ToHeader, sdk.ToQuery}, Required: true},
			{Name: "url", FromField: "url_from", Kind: sdk.AnswerSealed, Sinks: []sdk.Sink{sdk.ToURL}, Required: true},
			{Name: "expires_in", FromField: "expires_in_from", Kind: sdk.AnswerInteger},
			{Name: "expires_at", FromField: "expires_at_from", Kind: sdk.AnswerTime},
		},
		Challenge: &sdk.Challenge{Statuses: []int{401, 400, 403, 419, 440, 498}},
	}
}

func (plugin) Validate(c *sdk.Config) []sdk.Problem {
	in, _ := c.Literal("in")
	problems := append(c.CheckHeaders("login_headers", "second_headers"), c.CheckName("key", in)...)
	for _, step := range []string{"login", "second"} {
		if request, _ := c.Literal(step + "_request"); request == "form" || request == "query" {
			problems = append(problems, c.CheckPairs(step+"_body")...)
		}
	}
	problems = append(problems, c.CheckHeaders("headers")...)
	problems = append(problems, c.CheckPairs("cookies", "query")...)
	return append(problems, c.CheckName("extra_header", "header")...)
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	// It is read in any case, so that a template with other statuses is found before the API refuses a request.
	statuses := c.Config("login_again")
	if status := c.Challenge().Status; status != 0 { // the API has refused the request
		over := strings.Contains(statuses, strconv.Itoa(status))
		if !over || !c.Drop("session") {
			return sdk.Mutation{Pass: true}, nil
		}
	}
	session, err := c.CachedToken("session", login)
	if err != nil {
		return sdk.Mutation{}, err
	}
	parts := strings.Split(session, "\n")
	token, extra, first := parts[0], parts[1], parts[2]
	values := []sdk.Pair{{Name: "token", Value: token}, {Name: "extra", Value: extra}, {Name: "first_answer", Value: first}}
	in := c.Config("in")
	if in == "header" {
		token = strings.TrimPrefix(c.Config("prefix")+" "+token, " ")
	}
	m := sdk.Place(in, sdk.Pair{Name: c.Config("key"), Value: token})
	m.URL = parts[3]
	if name := c.Config("extra_header"); name != "" {
		m.Headers = append(m.Headers, sdk.Pair{Name: name, Value: extra})
	}
	lists := []*[]sdk.Pair{&m.Headers, &m.Cookies, &m.Query}
	for i, field := range []string{"headers", "cookies", "query"} {
		pairs, err := sdk.Pairs(c.Config(field))
		if err != nil {
			return sdk.Mutation{}, err
		}
		for _, p := range pairs {
			*lists[i] = append(*lists[i], sdk.Pair{Name: p.Name, Value: c.Compose(p.Value, values...)})
		}
	}
	return m, nil
}

// login returns a new session: the token, the extra value, the part of the first answer and the API's URL, on a line each. It also returns
// how long it lasts.
func login(c *sdk.Call) (session string, lifetime time.Duration, err error) {
	usual := c.Seconds("token_ttl") // read first: if it is not a number, the call ends before anything is sent
	step, first := "login", ""
	if c.Config("second_url") != "" {
		answers, err := exchange(c, step, first, "first_answer")
		if err != nil {
			return "", 0, err
		}
		step, first = "second", answers["first_answer"]
	}
	names := []string{"token", "expires_in", "expires_at"}
	for _, name := range []string{"extra", "url"} {
		if c.Config(name+"_from") != "" {
			names = append(names, name)
		}
	}
	answers, err := exchange(c, step, first, names...)
	return answers["token"] + "\n" + answers["extra"] + "\n" + first + "\n" + answers["url"], c.Lifetime(answers, usual), err
}

// exchange sends the request of a step, login or second, and returns the answers. In the second step, first replaces
// the placeholder.
func exchange(c *sdk.Call, step, first string, names ...string) (sdk.Answers, error) {
	header, body, request := c.Config(step+"_headers"), c.Config(step+"_body"), c.Config(step+"_request")
	if step == "second" {
		answer := sdk.Pair{Name: "first_answer", Value: first}
		header, body = sdk.Fill(header, answer), sdk.Fill(body, answer)
	}
	headers, err := sdk.Pairs(header)
	e := sdk.Exchange{URL: c.Config(step + "_url"), Headers: headers, Answers: names}
	switch {
	case err != nil:
	case request == "json":
		e.JSON = body
	case request == "form":
		e.Form, err = sdk.Pairs(body)
	default:
		e.Method = "GET"
		e.Query, err = sdk.Pairs(body)
	}
	if err != nil {
		return nil, err
	}
	status, answers := c.Exchange(e)
	if status > 399 { // a form is often answered with a redirect, which is not followed
		return nil, errors.New("check " + step + "_body and " + step + "_headers")
	}
	return answers, nil
}
