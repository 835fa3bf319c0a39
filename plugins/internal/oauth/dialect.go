package oauth

import (
	"strings"
	"time"

	"github.com/keywright/keywright/sdk"
)

// Values of fields of [Dialect].
const (
	formRequest, jsonRequest = "form", "json"
	bearerToken, anyToken    = "bearer", "any"
	// apigeeToken is the token_type of Apigee (cloud.google.com/apigee/docs/api-platform/security/oauth/access-tokens), whose tokens
	// are those of RFC 6750.
	apigeeToken = "BearerToken"
)

// Dialect returns the fields for servers that take a token request, answer it, or want the token at the API in another way than
// RFC 6749 and RFC 6750 describe.
func Dialect() []sdk.Field {
	return []sdk.Field{
		{Name: "token_request", Kind: sdk.String, Enum: []string{formRequest, jsonRequest}, Default: formRequest, Doc: "How the token request is sent."},
		{Name: "token_headers", Kind: sdk.Object, Sinks: []sdk.Sink{sdk.ToToken}, Doc: "Further headers of the token request."},
		{Name: "token_from", Kind: sdk.String, Default: "json:/access_token", Doc: "Place of the access token in the answer."},
		{Name: "refresh_token_from", Kind: sdk.String, Default: "json:/refresh_token", Doc: "Place of the refresh token in the answer."},
		{Name: "expires_in_from", Kind: sdk.String, Default: "json:/expires_in", Doc: "Place of the token's lifetime in seconds."},
		{Name: "expires_at_from", Kind: sdk.String, Doc: "Place of the time at which the token ends."},
		{Name: "token_ttl", Kind: sdk.Integer, Minimum: sdk.Limit(1), Doc: "Lifetime of the token in seconds if the answer has none."},
		TokenType(),
		{Name: "key", Kind: sdk.String, Default: "Authorization", Doc: "Name of the header that the API wants the token in."},
		{Name: "prefix", Kind: sdk.String, Default: "Bearer", Doc: "Word in front of the token in the header. Empty: none."},
	}
}

// TokenType returns the field for the token_type of the answer.
func TokenType() sdk.Field {
	return sdk.Field{Name: "token_type", Kind: sdk.String, Enum: []string{bearerToken, anyToken}, Default: bearerToken, Doc: "Which token_type the answer may have."}
}

// Mutation returns the mutation that sends a token as bearer, and an error if its type is none that the field of [TokenType] takes.
func Mutation(c *sdk.Call, token sdk.Token) (sdk.Mutation, error) {
	if token.TokenType == apigeeToken || c.Config("token_type") == anyToken {
		token.TokenType = ""
	}
	return token.Bearer()
}

// DialectProblems returns the problems of the fields of [Dialect].
func DialectProblems(c *sdk.Config) (problems []sdk.Problem) {
	if way, _ := c.Literal("client_auth"); way == Basic {
		problems = c.Reserved("token_headers", "is set by client_auth", "authorization")
	}
	return append(problems, c.CheckName("key", "header")...)
}

// Send returns the mutation that sends an access token as the fields of [Dialect] say.
func Send(c *sdk.Call, token string) sdk.Mutation {
	return sdk.Header(c.Config("key"), strings.TrimPrefix(c.Config("prefix")+" "+token, " "))
}

// request returns the exchange that a token request is in the server's dialect.
func request(c *sdk.Call, r sdk.TokenRequest) (sdk.Exchange, error) {
	headers, err := sdk.Pairs(c.Config("token_headers"))
	e := sdk.Exchange{URL: r.URL, Headers: append(r.Headers, headers...)}
	if c.Config("token_request") == jsonRequest {
		e.JSON = object(r.Form)
	} else {
		e.Form = r.Form
	}
	return e, err
}

// object returns a JSON object with a member for each parameter. The values of a parameter that is repeated are a list.
func object(form []sdk.Pair) string {
	var o sdk.Members
	for i, p := range form {
		if len(named(form[:i], p.Name)) > 0 {
			continue
		}
		if values := named(form[i:], p.Name); len(values) > 1 {
			o.Raw(p.Name, sdk.Strings(values))
		} else {
			o.String(p.Name, p.Value)
		}
	}
	return o.JSON()
}

// named returns the values of the parameters of a name.
func named(form []sdk.Pair, name string) (values []string) {
	for _, p := range form {
		if p.Name == name {
			values = append(values, p.Value)
		}
	}
	return values
}

// token returns the token of an answer.
func token(c *sdk.Call, answers sdk.Answers) sdk.Token {
	lifetime := answers.Time("expires_in")
	if end := answers.Time("expires_at"); lifetime == 0 && end != 0 {
		lifetime = end - c.Now()
		if offset := c.ClockOffset(); lifetime > offset { // a new token is not over: the host's clock was set right since it was learnt
			lifetime -= offset
		}
	} else if lifetime == 0 {
		lifetime = c.Integer("token_ttl")
	}
	return sdk.Token{
		AccessToken: answers["access_token"], TokenType: answers["token_type"],
		ExpiresIn: time.Duration(min(lifetime, 1<<31)) * time.Second,
	}
}
