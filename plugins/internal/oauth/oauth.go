// Package oauth has what the plugins for OAuth 2.0 share: fields, and the token request that is made of them.
package oauth

import (
	"strings"

	"github.com/keywright/keywright/sdk"
)

// JWTBearer is the grant type of an assertion, RFC 7523 section 2.1.
const JWTBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// Fields returns the fields of a type with own fields, a client and a key for its assertions. ways are the client's, and generated is that
// of [Sender].
func Fields(own []sdk.Field, ways []string, generated bool) []sdk.Field {
	return sdk.Fields(own, Client("", ways...), Request(), Key(Signs("")), Dialect(), []sdk.Field{Lifetime()}, Sender(generated, Senders()...), Bearer())
}

// Request returns the fields of a token request: the endpoint, what the token is for, and any other parameters. usual are usual
// endpoints.
func Request(usual ...string) []sdk.Field {
	token, both := []sdk.Sink{sdk.ToToken}, []sdk.Sink{sdk.ToToken, sdk.ToClaim}
	return []sdk.Field{
		{Name: "token_url", Kind: sdk.URL, Required: true, Sinks: both, Suggested: usual, Doc: "Token endpoint."},
		{Name: "scope", Kind: sdk.String, Sinks: token, Doc: "Scopes to request, separated by spaces."},
		{Name: "audience", Kind: sdk.String, Sinks: token, Doc: "Names of the APIs that the token is for (RFC 8693), separated by spaces."},
		{Name: "resource", Kind: sdk.String, Sinks: token, Doc: "URIs of the APIs that the token is for (RFC 8707), separated by spaces."},
		Parameters("parameters"),
	}
}

// Parameters returns a field for further parameters of a token request.
func Parameters(name string) sdk.Field {
	return sdk.Field{
		Name: name, Kind: sdk.Object, Sinks: []sdk.Sink{sdk.ToToken},
		Doc: "Further parameters of the token request. A list repeats a parameter.",
	}
}

// Exchange returns the mutation that sends the token of the cache, or one that it requests with the grant that grant returns.
func Exchange(c *sdk.Call, grant func() []sdk.Pair) (sdk.Mutation, error) {
	return Authenticate(c, func() (sdk.Token, error) {
		return Redeem(c, Grant{Request: func() (sdk.TokenRequest, error) { return TokenRequest(c, grant()...) }})
	})
}

// InTime returns what send does, which sends a request with an assertion. If the endpoint refuses it, and shows by its Date that its
// clock is not the host's, InTime calls send once more: the assertion has the other time then.
func InTime[T any](c *sdk.Call, send func() (T, error)) (T, error) {
	offset := c.ClockOffset()
	answer, err := send()
	if err != nil && c.ClockOffset() != offset {
		return send()
	}
	return answer, err
}

// OfClient is like [InTime] for a request that has the time in the client's assertion alone. Without one, nothing changes with the clock, and
// a wrong password is not sent twice.
func OfClient[T any](c *sdk.Call, send func() (T, error)) (T, error) {
	if !strings.HasSuffix(c.Config("client_auth"), "_jwt") {
		return send()
	}
	return InTime(c, send)
}

// TokenRequest returns the request that the fields of [Request] and of the [Client] describe. grant has its first parameters.
func TokenRequest(c *sdk.Call, grant ...sdk.Pair) (r sdk.TokenRequest, err error) {
	r.URL = c.Config("token_url")
	r.Form, r.Headers = AuthenticateClient(c, "", r.URL, grant)
	r.Form = Optional(r.Form, "scope", strings.Join(strings.Fields(c.Config("scope")), " ")) // RFC 6749 section 3.3
	r.Form = Words(c, r.Form, "audience", "resource")
	parameters, err := sdk.Parameters(c.Config("parameters"))
	r.Form = append(r.Form, parameters...)
	return r, err
}

// Words returns the form with a parameter for each word of each field.
func Words(c *sdk.Call, form []sdk.Pair, fields ...string) []sdk.Pair {
	for _, name := range fields {
		for _, word := range strings.Fields(c.Config(name)) {
			form = append(form, sdk.Pair{Name: name, Value: word})
		}
	}
	return form
}

// Optional returns the form with a parameter, unless its value is empty.
func Optional(form []sdk.Pair, name, value string) []sdk.Pair {
	if value == "" {
		return form
	}
	return append(form, sdk.Pair{Name: name, Value: value})
}

// Problems returns the problems of the fields of [Key], [Dialect] and [Request]. No member of parameters may have one of the reserved names.
// They are those that the plugin sets itself, beside those of [Request] and the [Client].
func Problems(c *sdk.Config, reserved ...string) []sdk.Problem {
	problems := append(AssertionProblems(c), DialectProblems(c)...)
	problems = append(problems, ParameterProblems(c, "parameters", "scope", "audience", "resource")...)
	return append(problems, c.Reserved("parameters", isSet, reserved...)...)
}

const isSet = "is set by the type or by another field"

// ParameterProblems returns the problems of a field of [Parameters]. No parameter may be one of a client or of reserved.
func ParameterProblems(c *sdk.Config, field string, reserved ...string) []sdk.Problem {
	reserved = append(reserved, "grant_type", "client_id", "client_secret", "client_assertion", "client_assertion_type")
	problems := c.Reserved(field, isSet, reserved...)
	object, _ := c.Literal(field)
	if _, err := sdk.Parameters(object); err != nil {
		problems = append(problems, sdk.Problem{Field: field, Message: "cannot be sent: " + err.Error()})
	}
	return problems
}

// AssertionProblems returns the problems of the fields jwt_headers and client_assertion_claims.
func AssertionProblems(c *sdk.Config) []sdk.Problem {
	problems := append(c.Reserved("jwt_headers", "is fixed by the host", sdk.ReservedHeaders()...), c.Misspelled("jwt_headers", "typ")...)
	return append(problems, c.Reserved("client_assertion_claims", isSet, "iss", "sub", "aud", "iat", "exp", "jti")...)
}
