// Package oauth has what the plugins for OAuth 2.0 share: how a client authenticates at a token endpoint, further parameters
// of a token request, and the cache of a token.
package oauth

import (
	"time"

	"github.com/keywright/keywright/sdk"
)

const (
	// margin is the time before a token's expiry in which the token is not used.
	margin = 60 * time.Second
	// lifetime is the lifetime of an assertion, in seconds.
	lifetime = 180
)

// Values of the field client_auth.
const (
	Post          = "post"            // client_id and client_secret in the form, RFC 6749 section 2.3.1
	Basic         = "basic"           // both in the Authorization header, RFC 6749 section 2.3.1
	PrivateKeyJWT = "private_key_jwt" // an assertion that the client signs, RFC 7523 section 2.2
	TLS           = "tls"             // client_id, beside the connector's client certificate, RFC 8705 section 2
	None          = "none"            // client_id if there is one: the client does not authenticate
)

// JWTBearer is the grant type of an assertion, RFC 7523 section 2.1.
const JWTBearer = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// Client returns the fields of a client: client_id, client_secret and client_auth, with prefix before each name. ways are
// the values of client_auth. The first of them is its default.
func Client(prefix string, ways ...string) []sdk.Field {
	both := []string{sdk.ToToken, sdk.ToClaim}
	auth, at := prefix+"client_auth", "."
	if prefix != "" {
		at = " at " + prefix + "url."
	}
	id := sdk.Field{Name: prefix + "client_id", Kind: sdk.String, Sinks: both, Doc: "OAuth client identifier" + at}
	known := make([]string, 0, len(ways))
	for _, way := range ways {
		if way != None {
			known = append(known, way)
		}
	}
	if len(known) == len(ways) {
		id.Required = true
	} else {
		id.RequiredIf = []sdk.Condition{{Field: auth, Values: known}}
	}
	return []sdk.Field{
		id,
		{
			Name: prefix + "client_secret", Kind: sdk.String, RequiredIf: []sdk.Condition{{Field: auth, Values: []string{Post, Basic}}},
			Sealed: true, Sinks: both[:1], Doc: "OAuth client secret" + at,
		},
		{Name: auth, Kind: sdk.String, Enum: ways, Default: ways[0], Doc: "How the client authenticates" + at},
	}
}

// Key returns the fields of the key that signs assertions. It is required if any of the conditions holds.
func Key(needed ...sdk.Condition) []sdk.Field {
	return sdk.Fields([]sdk.Field{
		{
			Name: "private_key", Kind: sdk.Key, RequiredIf: needed, AlgorithmField: "algorithm",
			Doc: "Key that signs the client's assertion, in PEM, or the HMAC secret.",
		},
		{Name: "algorithm", Kind: sdk.String, Enum: sdk.Algorithms(), Default: "RS256", Doc: "Signature algorithm."},
		{Name: "jwt_headers", Kind: sdk.Object, Sinks: []string{sdk.ToClaim}, Doc: "Further header members of the assertion, such as kid."},
	}, Assertion())
}

// Assertion returns further fields of the assertion with which a client authenticates.
func Assertion() []sdk.Field {
	return []sdk.Field{
		{Name: "certificate", Kind: sdk.Certificate, Sealed: true, Doc: "Certificate of private_key in PEM, for the header x5t#S256."},
		{
			Name: "client_assertion_audience", Kind: sdk.String, Sinks: []string{sdk.ToClaim},
			Doc: "The aud of the client's assertion, if it is not token_url.",
		},
	}
}

// Parameters returns a field for further parameters of a token request.
func Parameters(name string) sdk.Field {
	return sdk.Field{
		Name: name, Kind: sdk.Object, Sinks: []string{sdk.ToToken},
		Doc: "Further parameters of the token request. A list repeats a parameter.",
	}
}

// Problems returns the problems of a field of [Parameters]. The names in reserved are those of parameters that the plugin
// sets itself, beside those of the client.
//
//go:noinline
func Problems(c *sdk.Config, field string, reserved ...string) []sdk.Problem {
	reserved = append(reserved, "grant_type", "client_id", "client_secret", "client_assertion", "client_assertion_type")
	problems := c.Reserved(field, "is set by the type or by another field", reserved...)
	object, _ := c.Literal(field)
	if _, err := sdk.Parameters(object); err != nil {
		problems = append(problems, sdk.Problem{Field: field, Message: "cannot be sent: " + err.Error()})
	}
	return problems
}

// HeaderProblems returns the problems of the field jwt_headers.
//
//go:noinline
func HeaderProblems(c *sdk.Config) []sdk.Problem {
	return append(c.Reserved("jwt_headers", "is fixed by the host", sdk.ReservedHeaders...), c.Misspelled("jwt_headers", "typ")...)
}

// Authenticate returns the form of a request to the token endpoint url with what authenticates the client, and the headers
// that belong to it. The names of the client's fields begin with prefix.
//
//go:noinline
func Authenticate(c *sdk.Call, prefix, url string, form []sdk.Pair) (_, headers []sdk.Pair) {
	way, id := c.Config(prefix+"client_auth"), c.Config(prefix+"client_id")
	if way == Basic {
		credentials := c.FormEncode(id) + ":" + c.FormEncode(c.Config(prefix+"client_secret"))
		return form, []sdk.Pair{{Name: "Authorization", Value: "Basic " + c.Base64(credentials)}}
	}
	form = Optional(form, "client_id", id)
	switch way {
	case Post:
		form = append(form, sdk.Pair{Name: "client_secret", Value: c.Config(prefix + "client_secret")})
	case PrivateKeyJWT:
		if audience := c.Config("client_assertion_audience"); audience != "" && prefix == "" {
			url = audience
		}
		form = append(form, sdk.Pair{Name: "client_assertion_type", Value: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
			sdk.Pair{Name: "client_assertion", Value: Sign(c, id, id, url)})
	}
	return form, nil
}

// Sign returns a signed assertion, RFC 7523 section 3. Its key and its header are those of the fields of [Key].
//
//go:noinline
func Sign(c *sdk.Call, issuer, subject, audience string) string {
	var header, claims sdk.Members
	if c.Config("certificate") != "" {
		header.String("x5t#S256", c.PublicKey("certificate", sdk.X5T))
	}
	_ = header.Append(c.Config("jwt_headers")) // an object, since the host has written it
	now := c.Now()
	claims.String("iss", issuer)
	claims.String("sub", subject)
	claims.String("aud", audience)
	claims.String("jti", c.Random(16))
	claims.Integer("iat", now)
	claims.Integer("exp", now+lifetime)
	return c.SignAssertion(sdk.JWT{Key: "private_key", Header: header.JSON(), Claims: claims.JSON()})
}

// Optional returns the form with a parameter, unless its value is empty.
func Optional(form []sdk.Pair, name, value string) []sdk.Pair {
	if value == "" {
		return form
	}
	return append(form, sdk.Pair{Name: name, Value: value})
}

// Words returns the form with a parameter for each word of a text.
func Words(form []sdk.Pair, name, text string) []sdk.Pair {
	start := 0
	for i := 0; i <= len(text); i++ {
		if i == len(text) || text[i] == ' ' {
			form = Optional(form, name, text[start:i])
			start = i + 1
		}
	}
	return form
}

// Request sends a token request with the members of a field of [Parameters].
//
//go:noinline
func Request(c *sdk.Call, r sdk.TokenRequest, field string) (sdk.Token, error) {
	further, err := sdk.Parameters(c.Config(field))
	if err != nil {
		return sdk.Token{}, err
	}
	r.Form = append(r.Form, further...)
	return c.RequestToken(r)
}

// Bearer returns the mutation that sends a token, and caches the token until a minute before it expires.
//
//go:noinline
func Bearer(c *sdk.Call, token sdk.Token) (sdk.Mutation, error) {
	mutation, err := token.Bearer()
	if err != nil {
		return sdk.Mutation{}, err
	}
	Cache(c, token.AccessToken, token.ExpiresIn)
	return mutation, nil
}

// Cache caches a token until a minute before it expires.
func Cache(c *sdk.Call, token string, expiresIn time.Duration) {
	if expiresIn > margin {
		c.Cache("access_token", token, expiresIn-margin)
	} else {
		c.Warn("the token is not cached: the token endpoint gave no expires_in above 60 seconds")
	}
}
