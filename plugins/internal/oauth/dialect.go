package oauth

import "github.com/keywright/keywright/sdk"

// Values of fields of [Dialect].
const (
	formRequest, jsonRequest = "form", "json"
	bearerToken, anyToken    = "bearer", "any"
	usualToken               = "json:/access_token"
	usualLifetime            = "json:/expires_in"
	// apigeeToken is the token_type of Apigee (cloud.google.com/apigee/docs/api-platform/security/oauth/access-tokens), whose tokens
	// are those of RFC 6750.
	apigeeToken = "BearerToken"
)

// NoToken is the token_type of what is no access token, RFC 8693 section 2.2.1.
const NoToken = "n_a"

// Dialect returns the fields for servers that take a token request, answer it, or want the token at the API in another way than
// RFC 6749 and RFC 6750 describe.
func Dialect() []sdk.Field {
	return []sdk.Field{
		{Name: "token_request", Kind: sdk.String, Enum: []string{formRequest, jsonRequest}, Default: formRequest, Doc: "How the token request is sent."},
		{Name: "token_headers", Kind: sdk.Object, Sinks: []sdk.Sink{sdk.ToToken}, Doc: "Further headers of the token request."},
		{Name: "token_from", Kind: sdk.String, Default: usualToken, Doc: "Place of the access token in the answer."},
		{Name: "expires_in_from", Kind: sdk.String, Default: usualLifetime, Doc: "Place of the token's lifetime in seconds."},
		{Name: "expires_at_from", Kind: sdk.String, Doc: "Place of the time at which the token ends."},
	}
}

// Lifetime returns the field for the lifetime of tokens that an answer does not state.
func Lifetime() sdk.Field {
	return sdk.Field{Name: "token_ttl", Kind: sdk.Integer, Minimum: sdk.Limit(1), Doc: "Lifetime of the token in seconds if the answer has none."}
}

// RefreshFrom returns the field for the place of the refresh token.
func RefreshFrom() sdk.Field {
	return sdk.Field{Name: "refresh_token_from", Kind: sdk.String, Default: "json:/refresh_token", Doc: "Place of the refresh token in the answer."}
}

// Bearer returns the fields for the token_type of the answer, and for the header that has the token.
func Bearer() []sdk.Field {
	return []sdk.Field{
		{
			Name: "token_type", Kind: sdk.String, OnlyIf: sends(bearerToken), Enum: []string{bearerToken, anyToken}, Default: bearerToken,
			Doc: "Which token_type the answer may have.",
		},
		{Name: "key", Kind: sdk.String, OnlyIf: sends(bearerToken), Default: "Authorization", Doc: "Name of the header that the API wants the token in."},
		{Name: "prefix", Kind: sdk.String, OnlyIf: sends(bearerToken), Default: "Bearer", Doc: "Word in front of the token in the header. Empty: none."},
		{Name: "url_from", Kind: sdk.String, OnlyIf: sends(bearerToken), Doc: "Place in the answer of the API's URL."},
	}
}

// DialectProblems returns the problems of the fields of [Dialect], [Bearer] and [Sender].
func DialectProblems(c *sdk.Config) (problems []sdk.Problem) {
	if way, _ := c.Literal("client_auth"); way == Basic {
		problems = c.Reserved("token_headers", "is set by client_auth", "authorization")
	}
	if sender, _ := c.Literal("sender"); sender == DPoP {
		return append(problems, c.Reserved("token_headers", "is set by sender", "dpop")...)
	}
	return append(problems, c.CheckName("key", "header")...)
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
