// Plugin login adds a token or a session that it gets from a login of the API's own, in one step or two.
package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/keywright/keywright/sdk"
)

const (
	// margin is the time before the end of a session in which it is not used.
	margin = 60 * time.Second
	// placeholder stands for the first step's answer in the fields of the second step.
	placeholder = "{first_answer}"
	// special are the characters that begin the placeholder or an escape. The host escapes them in values of templates.
	special = `\{`
)

func init() { sdk.Register(plugin{}) }

func main() {} // a reactor module never runs it

type plugin struct{}

func (plugin) Describe() sdk.Description {
	token := []string{sdk.ToToken}
	return sdk.Description{
		ABI:     sdk.ABI,
		Type:    "login",
		Version: "1.0.0",
		Summary: "A token or session cookie from a login of the API's own, cached until a minute before it ends.",
		Uses:    []string{sdk.UsesToken, sdk.UsesCache},
		Fields:  sdk.Fields(stepFields(), sessionFields()),
		Answers: []sdk.Answer{
			{Name: "first_answer", FromField: "first_answer_from", Kind: sdk.Sealed, Sinks: token, Required: true},
			{Name: "token", FromField: "token_from", Kind: sdk.Sealed, Sinks: []string{sdk.ToHeader, sdk.ToQuery}, Required: true},
			{Name: "extra", FromField: "extra_from", Kind: sdk.Sealed, Sinks: []string{sdk.ToHeader}, Required: true},
			{Name: "expires_in", FromField: "expires_in_from", Kind: sdk.AnyInteger},
			{Name: "expires_at", FromField: "expires_at_from", Kind: sdk.Time},
		},
		Challenge: &sdk.Challenge{Statuses: []int{401, 400, 403, 419, 440, 498}},
	}
}

// stepFields returns the fields of the requests that log in. Those of the second step have the same names as those of the first.
func stepFields() []sdk.Field {
	token, requests := []string{sdk.ToToken}, []string{"json", "form", "query"}
	two := []sdk.Condition{{Field: "second_url"}}
	return []sdk.Field{
		{Name: "login_url", Kind: sdk.URL, Required: true, Sinks: token, Doc: "Where to log in."},
		{Name: "login_request", Kind: sdk.String, Enum: requests, Default: "json", Doc: "How login_body is sent: json and form by POST, query by GET."},
		{Name: "login_body", Kind: sdk.Object, Sinks: token, Doc: "Members of the login, such as user name and password."},
		{Name: "login_headers", Kind: sdk.Object, Sinks: token, Doc: "Headers of the login."},
		{Name: "second_url", Kind: sdk.URL, Sinks: token, Doc: "Where the second step goes."},
		{Name: "first_answer_from", Kind: sdk.String, RequiredIf: two, OnlyIf: two, Doc: "Place in the first answer of what the second step needs."},
		{Name: "second_request", Kind: sdk.String, OnlyIf: two, Enum: requests, Default: "json", Doc: "How second_body is sent."},
		{Name: "second_body", Kind: sdk.Object, OnlyIf: two, Sinks: token, Escape: special, Doc: "Members of the second step. In texts, {first_answer} is replaced."},
		{Name: "second_headers", Kind: sdk.Object, OnlyIf: two, Sinks: token, Escape: special, Doc: "Headers of the second step. {first_answer} is replaced."},
	}
}

// sessionFields returns the fields of what the API gets, and for how long.
func sessionFields() []sdk.Field {
	extra := []sdk.Condition{{Field: "extra_header"}}
	return []sdk.Field{
		{Name: "token_from", Kind: sdk.String, Required: true, Doc: "Place of the token in the answer, such as json:/data/token, header:X-Token or cookie:SESSION."},
		{Name: "in", Kind: sdk.String, Enum: []string{"header", "cookie", "query"}, Default: "header", Doc: "Where the API wants the token."},
		{Name: "key", Kind: sdk.String, Required: true, Doc: "Name of the header, cookie or query parameter."},
		{
			Name: "prefix", Kind: sdk.String, OnlyIf: []sdk.Condition{{Field: "in", Values: []string{"header"}}},
			Doc: "Word in front of the token in the header, such as Bearer.",
		},
		{Name: "extra_header", Kind: sdk.String, Doc: "Name of a header with another value that the API wants, such as a CSRF token."},
		{Name: "extra_from", Kind: sdk.String, RequiredIf: extra, OnlyIf: extra, Doc: "Place of that value in the answer."},
		{Name: "expires_in_from", Kind: sdk.String, Doc: "Place of the token's lifetime in seconds."},
		{Name: "expires_at_from", Kind: sdk.String, Doc: "Place of the time at which the token ends."},
		{Name: "token_ttl", Kind: sdk.Integer, Default: "3600", Minimum: sdk.AtLeast(1), Doc: "Lifetime of the token in seconds if the answer has none."},
		{Name: "login_again", Kind: sdk.String, Default: "401", Doc: "Statuses of the API after which the session is over, separated by spaces."},
	}
}

func (plugin) Authenticate(c *sdk.Call) (sdk.Mutation, error) {
	if status := c.Challenge().Status; status != 0 { // the API has refused the request
		over := lists(c.Config("login_again"), strconv.Itoa(status))
		if !over || !c.Drop("session") {
			return sdk.Mutation{Pass: true}, nil
		}
	}
	session, ok := c.Cached("session")
	if !ok {
		var err error
		if session, err = login(c); err != nil {
			return sdk.Mutation{}, err
		}
	}
	return send(c, session), nil
}

// send returns the mutation that sends a session.
func send(c *sdk.Call, session string) (m sdk.Mutation) {
	token, extra, _ := strings.Cut(session, "\n")
	switch key := c.Config("key"); c.Config("in") {
	case "cookie":
		m.Cookies = []sdk.Pair{{Name: key, Value: token}}
	case "query":
		m.Query = []sdk.Pair{{Name: key, Value: token}}
	default:
		m.Headers = []sdk.Pair{{Name: key, Value: strings.TrimPrefix(c.Config("prefix")+" "+token, " ")}}
	}
	if extra != "" {
		m.Headers = append(m.Headers, sdk.Pair{Name: c.Config("extra_header"), Value: extra})
	}
	return m
}

// login returns a new session: the token, a line break, and the extra value if there is one.
func login(c *sdk.Call) (string, error) {
	lifetime := c.Seconds("token_ttl") // read first: if it is not a number, the call ends before anything is sent
	step, first := "login", ""
	if c.Config("second_url") != "" {
		answers, err := exchange(c, step, first, "first_answer")
		if err != nil {
			return "", err
		}
		step, first = "second", answers["first_answer"]
	}
	wanted := []string{"token", "expires_in", "expires_at"}
	if c.Config("extra_header") != "" {
		wanted = append(wanted, "extra")
	}
	answers, err := exchange(c, step, first, wanted...)
	switch {
	case err != nil:
		return "", err
	case answers["expires_in"] != "":
		lifetime = time.Duration(answers.Time("expires_in")) * time.Second
	case answers["expires_at"] != "":
		lifetime = time.Duration(min(answers.Time("expires_at")-c.Now(), 1<<31)) * time.Second
	}
	session := answers["token"] + "\n" + answers["extra"]
	if lifetime > margin {
		c.Cache("session", session, lifetime-margin)
	} else {
		c.Warn("the session is not cached: it lasts no longer than 60 seconds")
	}
	return session, nil
}

// exchange sends the request of a step, login or second, and returns the answers. In the second step, first replaces
// the placeholder.
func exchange(c *sdk.Call, step, first string, wanted ...string) (sdk.Answers, error) {
	header, body, request := c.Config(step+"_headers"), c.Config(step+"_body"), c.Config(step+"_request")
	if step == "second" {
		header, body = fill(header, first), fill(body, first)
	}
	headers, err := sdk.Pairs(header)
	e := sdk.Exchange{URL: c.Config(step + "_url"), Headers: headers, Answers: wanted}
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

// fill returns a JSON document with first in place of each placeholder, and with escapes replaced: \\ and \{ in its texts,
// which are \\\\ and \\{ in JSON. Any other backslash stays.
func fill(document, first string) string {
	var b []byte
	for document != "" {
		n := 1
		switch {
		case strings.HasPrefix(document, placeholder):
			b, document = append(b, first...), document[len(placeholder):]
			continue
		case strings.HasPrefix(document, `\\{`):
			document = document[len(`\\`):]
		case strings.HasPrefix(document, `\\\\`):
			document, n = document[len(`\\`):], len(`\\`)
		case document[0] == '\\': // an escape of JSON
			n = len(`\n`)
		}
		b, document = append(b, document[:n]...), document[n:]
	}
	return string(b)
}
