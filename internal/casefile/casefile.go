// Package casefile has the cases for tests of plugins: tests without code, as a file of YAML or JSON has them. It reads the files, and
// runs the cases with a harness of package hosttest.
package casefile

import (
	"errors"
	"fmt"
	"regexp"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/host/hosttest"
)

// A Case is a test of a plugin without code, as a file of [Read] has it. It is a connector, and one step or several.
type Case struct {
	Name string `yaml:"name"`
	// Type is an alias of the auth type, or empty.
	Type string `yaml:"type,omitempty"`
	// Config is the config object of the connector's auth. Auth, in its place, is a list of authentications, one of which is the plugin's.
	Config hosttest.Config `yaml:"config,omitempty"`
	Auth   host.Auths      `yaml:"auth,omitempty"`
	// Problems is set if the configuration has to be refused. There must be as many problems as texts. Each text must be part of a
	// problem, and each problem must have one of the texts.
	Problems []string `yaml:"problems,omitempty"`
	// Time is the time at which the case begins. By default, that is 2026-01-02T03:04:05Z.
	Time time.Time `yaml:"time,omitempty"`
	// Variables are the variables for get_variable. Grants are rights of the plugin: sign_raw, reveal.
	Variables map[string]string `yaml:"variables,omitempty"`
	Grants    []string          `yaml:"grants,omitempty"`
	// AllowHTTP allows origins and token URLs of plain http.
	AllowHTTP bool `yaml:"allow_http,omitempty"`
	// UserTokenHosts are the hosts of token endpoints that may get the user's token, and those of identities, which are secrets of their names.
	UserTokenHosts []string `yaml:"user_token_hosts,omitempty"`
	// Steps are done one after the other. A case without Steps is one Step itself. The secrets, users and answers that the case
	// itself has are set before its first step.
	Steps []Step `yaml:"steps,omitempty"`
	Step  `yaml:",inline"`
}

// A Step is one request to the API, or a part of a consent.
type Step struct {
	// Restart is set if the host is to be restarted. Advance is a time that passes, such as 4m30s. Both happen before the request.
	Restart bool          `yaml:"restart,omitempty"`
	Advance time.Duration `yaml:"advance,omitempty"`
	// Secrets are secrets of the host, from here on. Each has 8 bytes or more, or none, because shorter texts are not searched for.
	// Keys are secrets that are new private keys, by their JWS algorithm.
	Secrets map[string]string `yaml:"secrets,omitempty"`
	Keys    map[string]string `yaml:"keys,omitempty"`
	// User is the user of the request, and of those after it.
	User *User `yaml:"user,omitempty"`
	// Random replaces the random bytes that the plugin gets from here on.
	Random string `yaml:"random,omitempty"`
	// Endpoints are the answers of token endpoints by URL, from here on, and Answers are those of the API. The last answer is
	// repeated. The URL * stands for each one without answers of its own. By default, the API answers 200 with {}.
	Endpoints map[string][]Reply `yaml:"endpoints,omitempty"`
	Answers   []Reply            `yaml:"answers,omitempty"`
	// A step is a request to the API, a consent of the user, or the end of one. Consent has the parameters with which the browser
	// comes back, beside state.
	Request    *Request          `yaml:"request,omitempty"`
	Consent    map[string]string `yaml:"consent,omitempty"`
	Disconnect bool              `yaml:"disconnect,omitempty"`
	Expect     Expect            `yaml:"expect,omitempty"`

	// place is the file and the line.
	place string
}

// User is the user of a request.
type User struct {
	ID        string `yaml:"id,omitempty"`
	Tenant    string `yaml:"tenant,omitempty"`
	Email     string `yaml:"email,omitempty"`
	Username  string `yaml:"username,omitempty"`
	FirstName string `yaml:"first_name,omitempty"`
	LastName  string `yaml:"last_name,omitempty"`
	Token     string `yaml:"token,omitempty"`
}

// Request is a request of the connector's caller.
type Request struct {
	// Method is GET by default, and POST for a request with a body.
	Method  string            `yaml:"method,omitempty"`
	URL     string            `yaml:"url"`
	Headers map[string]string `yaml:"headers,omitempty"`
	Body    string            `yaml:"body,omitempty"`
	// Parallel is the number of such requests that are sent at once. Each must be as expected. It is 1 by default.
	Parallel int `yaml:"parallel,omitempty"`
}

// Reply is an answer of a token endpoint or the API.
type Reply struct {
	// Status is 200 by default.
	Status  int               `yaml:"status,omitempty"`
	Headers map[string]string `yaml:"headers,omitempty"`
	// JSON is a body of JSON, and Body one of anything else.
	JSON any    `yaml:"json,omitempty"`
	Body string `yaml:"body,omitempty"`
	// Unreachable is set if there is no answer, as after a refused connection.
	Unreachable bool `yaml:"unreachable,omitempty"`
}

// Expect describes the result of a step. Members that are not set are not compared. A member that the step has nothing to compare with
// fails the case.
type Expect struct {
	// Error is a part of the error. Without it, there must be none. A request with an error must not reach the API, unless Attempts
	// says so.
	Error string `yaml:"error,omitempty"`
	// URL, Headers, Query, Form and Body are those of the request that the API got. If it got two, they are those of the second
	// one. For a consent, URL and Query are those of the page to which the browser goes.
	URL     *Text           `yaml:"url,omitempty"`
	Headers map[string]Text `yaml:"headers,omitempty"`
	Query   map[string]Text `yaml:"query,omitempty"`
	Form    map[string]Text `yaml:"form,omitempty"`
	Body    *Text           `yaml:"body,omitempty"`
	// Attempts is the number of requests that the API got. Status is that of the answer that the caller gets.
	Attempts *int `yaml:"attempts,omitempty"`
	Status   int  `yaml:"status,omitempty"`
	// Exchanges are all requests to token endpoints in this step. The empty list means none.
	Exchanges []Exchange `yaml:"exchanges,omitempty"`
	// Fuel is the most that the plugin may use.
	Fuel int64 `yaml:"fuel,omitempty"`
}

// Exchange describes a request to a token endpoint.
type Exchange struct {
	Method  string          `yaml:"method,omitempty"`
	URL     string          `yaml:"url,omitempty"`
	Headers map[string]Text `yaml:"headers,omitempty"`
	Form    map[string]Text `yaml:"form,omitempty"`
	Body    *Text           `yaml:"body,omitempty"`
	// JSON is a body of JSON.
	JSON any `yaml:"json,omitempty"`
}

// Text describes a text. In a file it is one of these:
//
//	Bearer {{ get_secret('crm') }}      the text, with the expressions of a connector's templates
//	null                                there is no such header, parameter or member
//	[a, b]                              the values of a header or parameter that is there several times
//	{matches: '^[0-9a-f]{64}$'}         a regular expression that matches
//	{jwt: {header: {…}, claims: {…}}}   a JWT with at least these members, perhaps after "Bearer "
type Text struct {
	// Texts are the values, which are templates. No value means that there is none.
	Texts []string
	// Matches is a regular expression in place of Texts, and JWT a JWT.
	Matches *regexp.Regexp
	JWT     *JWT
}

// JWT has members that a JSON Web Token must contain. Its signature is not verified.
type JWT struct {
	Header map[string]any `yaml:"header,omitempty"`
	Claims map[string]any `yaml:"claims,omitempty"`
}

// textForm is a Text that is an object.
type textForm struct {
	Matches string `yaml:"matches"`
	JWT     *JWT   `yaml:"jwt"`
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (x *Text) UnmarshalYAML(n *yaml.Node) error {
	switch {
	case n.Kind == yaml.SequenceNode:
		return n.Load(&x.Texts)
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null":
		return nil
	case n.Kind == yaml.ScalarNode:
		x.Texts = []string{n.Value}
		return nil
	}
	var form textForm
	err := n.Load(&form, yaml.WithKnownFields())
	switch x.JWT = form.JWT; {
	case err != nil:
		return err
	case (form.Matches == "") == (form.JWT == nil):
		return errors.New("a text, null, a list of texts, {matches: …} or {jwt: …} is wanted")
	case form.Matches == "":
		return nil
	}
	if x.Matches, err = regexp.Compile(form.Matches); err != nil {
		return fmt.Errorf("matches: %w", err)
	}
	return nil
}
