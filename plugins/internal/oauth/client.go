package oauth

import (
	"cmp"
	"slices"

	"github.com/keywright/keywright/sdk"
)

// Values of the field client_auth. They are the registered names of the ways in which a client authenticates (RFC 7591 section
// 2, RFC 8705 section 2.1.1).
const (
	Post          = "client_secret_post"  // client_id and client_secret in the form, RFC 6749 section 2.3.1
	Basic         = "client_secret_basic" // both in the Authorization header, RFC 6749 section 2.3.1
	PrivateKeyJWT = "private_key_jwt"     // an assertion that the client signs, RFC 7523 section 2.2
	Assertion     = "assertion"           // an assertion that the configuration has, RFC 7521 section 4.2
	TLS           = "tls_client_auth"     // client_id, beside the connector's client certificate, RFC 8705 section 2
	None          = "none"                // client_id if there is one: the client does not authenticate
)

// assertionType is the type of a client assertion that is a JWT, RFC 7523 section 2.2.
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// Ways returns the values of client_auth. The first of them is the default. optional reports whether None is among them.
func Ways(first string, optional bool) []string {
	list := make([]string, 1, 6) // not grown, so that TinyGo can run it while it compiles
	list[0] = first
	for _, way := range []string{Post, Basic, PrivateKeyJWT, Assertion, TLS, None} {
		if way != first && (optional || way != None) {
			list = append(list, way)
		}
	}
	return list
}

// Client returns the fields of a client: client_id, client_secret, client_auth, client_assertion and client_assertion_type, with prefix
// before each name. ways are those of [Ways].
func Client(prefix string, ways ...string) []sdk.Field {
	sentence := "."
	if prefix != "" {
		sentence = " at " + prefix + "url."
	}
	auth := prefix + "client_auth"
	secret := []sdk.Condition{{Field: auth, Values: []string{Post, Basic}}}
	assertion := []sdk.Condition{{Field: auth, Values: []string{Assertion}}}
	id := sdk.Field{Name: prefix + "client_id", Kind: sdk.String, Sinks: []sdk.Sink{sdk.ToToken, sdk.ToClaim}, Doc: "OAuth client identifier" + sentence}
	if id.Required = !slices.Contains(ways, None); !id.Required {
		id.RequiredIf = []sdk.Condition{{Field: auth, Values: []string{Post, Basic, PrivateKeyJWT, TLS}}}
	}
	fields := []sdk.Field{
		id,
		{
			Name: prefix + "client_secret", Kind: sdk.String, RequiredIf: secret, OnlyIf: secret, Sealed: true, Sinks: []sdk.Sink{sdk.ToToken},
			Doc: "OAuth client secret" + sentence,
		},
		{Name: auth, Kind: sdk.String, Enum: ways, Default: ways[0], Doc: "How the client authenticates" + sentence},
		{
			Name: prefix + "client_assertion", Kind: sdk.String, RequiredIf: assertion, OnlyIf: assertion, Sealed: true, Sinks: []sdk.Sink{sdk.ToToken},
			Doc: "Assertion that another party has signed for the client" + sentence,
		},
		{
			Name: prefix + "client_assertion_type", Kind: sdk.String, OnlyIf: assertion, Sinks: []sdk.Sink{sdk.ToToken}, Default: assertionType,
			Suggested: []string{assertionType, "urn:ietf:params:oauth:client-assertion-type:jwt-spiffe"}, Doc: "Type of that assertion.",
		},
	}
	if prefix != "" {
		here := []sdk.Condition{{Field: prefix + "url"}}
		fields[0].OnlyIf, fields[2].OnlyIf = here, here
	}
	return fields
}

// Signs returns the condition that the client with a prefix signs assertions.
func Signs(prefix string) sdk.Condition {
	return sdk.Condition{Field: prefix + "client_auth", Values: []string{PrivateKeyJWT}}
}

// Key returns the fields of the key that signs assertions, for whom any of the conditions holds.
func Key(needed ...sdk.Condition) []sdk.Field {
	return sdk.Fields([]sdk.Field{
		{
			Name: "private_key", Kind: sdk.Key, RequiredIf: needed, OnlyIf: needed, AlgorithmField: "algorithm",
			Doc: "Key that signs assertions, in PEM, or the HMAC secret.",
		},
		{Name: "algorithm", Kind: sdk.String, OnlyIf: needed, Enum: sdk.Algorithms(), Default: "RS256", Doc: "Signature algorithm."},
		{Name: "jwt_headers", Kind: sdk.Object, OnlyIf: needed, Sinks: []sdk.Sink{sdk.ToClaim}, Doc: "Further header members of assertions, such as kid."},
		TTL(needed...),
	}, Assertions(needed...))
}

// TTL returns the field for the lifetime of assertions, for whom any of the conditions holds. Box refuses more than 60 seconds
// (developer.box.com, JWT without SDKs).
func TTL(needed ...sdk.Condition) sdk.Field {
	return sdk.Field{
		Name: "assertion_ttl", Kind: sdk.Integer, OnlyIf: needed, Default: "180", Minimum: sdk.Limit(1), Maximum: sdk.Limit(3600),
		Doc: "Lifetime of assertions in seconds.",
	}
}

// Assertions returns further fields of assertions. The certificate belongs to those for which any of the conditions holds.
func Assertions(needed ...sdk.Condition) []sdk.Field {
	signs, claim := []sdk.Condition{Signs("")}, []sdk.Sink{sdk.ToClaim}
	return []sdk.Field{
		{Name: "certificate", Kind: sdk.Certificate, OnlyIf: needed, Sealed: true, Doc: "Certificate of private_key in PEM, for the header x5t#S256."},
		{Name: "client_assertion_audience", Kind: sdk.String, OnlyIf: signs, Sinks: claim, Doc: "The aud of the client's assertion, if it is not token_url."},
		{Name: "client_assertion_issuer", Kind: sdk.String, OnlyIf: signs, Sinks: claim, Doc: "The iss of the client's assertion, if it is not client_id."},
		{Name: "client_assertion_claims", Kind: sdk.Object, OnlyIf: signs, Sinks: claim, Doc: "Further claims of the client's assertion."},
		{
			Name: "client_assertion_parameter", Kind: sdk.String, OnlyIf: signs, Enum: []string{assertionParameter, secretParameter}, Default: assertionParameter,
			Doc: "Parameter that has the client's assertion. Apple takes it as client_secret.",
		},
	}
}

// Values of the field client_assertion_parameter. The second is that of Apple
// (developer.apple.com/documentation/accountorganizationaldatasharing/creating-a-client-secret).
const assertionParameter, secretParameter = "client_assertion", "client_secret"

// AuthenticateClient returns the form of a request to the token endpoint url with what authenticates the client, and the headers
// that belong to it. The names of the client's fields begin with prefix.
func AuthenticateClient(c *sdk.Call, prefix, url string, form []sdk.Pair) (_, headers []sdk.Pair) {
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
		issuer, claims, parameter := id, "", assertionParameter
		if prefix == "" {
			url, issuer = cmp.Or(c.Config("client_assertion_audience"), url), cmp.Or(c.Config("client_assertion_issuer"), id)
			claims, parameter = c.Config("client_assertion_claims"), c.Config("client_assertion_parameter")
		}
		if parameter == assertionParameter {
			form = append(form, sdk.Pair{Name: "client_assertion_type", Value: assertionType})
		}
		form = append(form, sdk.Pair{Name: parameter, Value: Sign(c, issuer, id, url, claims)})
	case Assertion:
		form = append(form, sdk.Pair{Name: "client_assertion_type", Value: c.Config(prefix + "client_assertion_type")},
			sdk.Pair{Name: "client_assertion", Value: c.Config(prefix + "client_assertion")})
	}
	return form, nil
}

// Sign returns a signed assertion, RFC 7523 section 3. Its key and its header are those of the fields of [Key]. extra is an object
// with more claims, or "".
func Sign(c *sdk.Call, issuer, subject, audience, extra string) string {
	var header, claims sdk.Members
	if c.Config("certificate") != "" {
		header.String("x5t#S256", c.PublicKey("certificate", sdk.X5T))
	}
	_ = header.Append(c.Config("jwt_headers")) // an object, since the host has written it
	now := c.Now() + c.ClockOffset()
	claims.String("iss", issuer)
	claims.String("sub", subject)
	claims.String("aud", audience)
	claims.String("jti", c.Random(16))
	claims.Integer("iat", now)
	claims.Integer("exp", now+c.Integer("assertion_ttl"))
	_ = claims.Append(extra)
	return c.SignAssertion(sdk.JWT{Key: "private_key", Header: header.JSON(), Claims: claims.JSON()})
}
