package sdk

import (
	"errors"
	"strconv"
	"time"

	"github.com/keywright/keywright/abi"
)

// Config is the configuration of a connector that is being loaded, before its templates are rendered.
type Config struct{ env abi.Env }

// Literal returns the literal value of a field, or its default. It returns false if the field is absent and has no default,
// is sealed or a key, or contains a template. An object is returned as JSON with its templates unrendered.
func (c *Config) Literal(name string) (string, bool) { return c.env.ConfigGet(name) }

// Call is the authentication of one request.
type Call struct{ env abi.Env }

// Config returns the rendered value of a field. If the field is absent, it returns the default, or "". A sealed field and a
// key are returned as one sealed value. In other fields, each template expression that calls get_secret is replaced by a
// sealed value. An object is returned as JSON.
func (c *Call) Config(name string) string {
	value, _ := c.env.ConfigGet(name)
	return value
}

// Integer returns the rendered value of an integer field, or 0 if it is absent and has no default.
func (c *Call) Integer(name string) int64 {
	return integer(c.Config(name)) // the host has checked it
}

// Seconds returns the rendered value of an integer field as a number of seconds. It is limited to 100 years in either
// direction.
func (c *Call) Seconds(name string) time.Duration {
	const century = 100 * 365 * 24 * 3600
	return time.Duration(max(-century, min(c.Integer(name), century))) * time.Second
}

// Secret returns the sealed value of a secret that the connector's configuration names literally. It needs [UsesSecret].
func (c *Call) Secret(name string) string { return c.env.SecretGet(name) }

// Now returns the time of the host's clock in Unix seconds.
func (c *Call) Now() int64 { return c.env.TimeNow() }

// Cached returns the value that [Call.Cache] stored under a key, and reports whether there is one. Entries belong to one
// connector, configuration and user. On a miss, other calls that ask for the key wait until this call stores a value or
// ends. It needs [UsesCache].
func (c *Call) Cached(key string) (string, bool) { return c.env.CacheGet(key) }

// Cache stores a value, which may hold sealed values. If ttl is less than a second, it stores nothing. It needs
// [UsesCache].
func (c *Call) Cache(key, value string, ttl time.Duration) {
	c.env.CacheSet(key, value, int64(ttl/time.Second))
}

// JWT is an unsigned JWT, for [Call.SignJWT] and [Call.SignAssertion].
type JWT struct {
	// Key is the name of a configuration field of kind [Key]. The value of the field's AlgorithmField is the algorithm.
	Key string
	// Header is a JSON object with further members of the JOSE header, or "". The host sets alg, and typ if Header lacks it.
	Header string
	// Claims is the payload, a JSON object.
	Claims string
	// Integers names top-level claims. If such a claim is a numeric string, the host converts it to an integer and discards
	// the fraction.
	Integers []string
}

// SignJWT signs a JWT for a header of the outgoing request. It returns the compact JWT, RFC 7519, as a sealed value with
// the sink [ToHeader]. It needs [UsesSign].
func (c *Call) SignJWT(j JWT) string { return c.env.JWTSign(j.document(abi.ForHeader)) }

// SignAssertion signs a JWT for a token request. It returns the compact JWT, RFC 7519, as a sealed value with the sink
// [ToToken]. It needs [UsesSign].
func (c *Call) SignAssertion(j JWT) string { return c.env.JWTSign(j.document(abi.ForToken)) }

func (j JWT) document(target string) []byte {
	var o Members
	o.String("key", j.Key)
	o.String("for", target)
	if j.Header != "" {
		o.Raw("header", j.Header)
	}
	o.Raw("claims", j.Claims)
	if len(j.Integers) > 0 {
		o.Raw("integers", stringsJSON(j.Integers))
	}
	return []byte(o.JSON())
}

// Base64 returns the base64 encoding of text, RFC 4648 section 4. It is sealed if text holds a sealed value.
func (c *Call) Base64(text string) string { return c.env.Encode(abi.FormatBase64, text) }

// Base64URL returns the base64url encoding of text, RFC 4648 section 5, without padding. It is sealed if text holds a
// sealed value.
func (c *Call) Base64URL(text string) string { return c.env.Encode(abi.FormatBase64URL, text) }

// Hex returns the hexadecimal encoding of text in lower case. It is sealed if text holds a sealed value.
func (c *Call) Hex(text string) string { return c.env.Encode(abi.FormatHex, text) }

// Hash functions of [Call.MAC].
const (
	SHA256 = abi.MACSHA256
	SHA384 = abi.MACSHA384
	SHA512 = abi.MACSHA512
)

// MAC returns the HMAC of data, RFC 2104. The hash is [SHA256], [SHA384] or [SHA512]. The key must be or hold a sealed
// value; data must not. The result is a sealed value of raw bytes with the sinks of the key. It can be the key of another
// MAC; in a header or a JWT it must be encoded, for example with [Call.Hex]. It needs [UsesSign].
func (c *Call) MAC(hash, key, data string) string { return c.env.MAC(hash, key, data) }

// Sign returns the raw signature of data, RFC 7518 section 3, made with a field of kind [Key]. It needs [UsesSign] and the
// grant sign_raw.
func (c *Call) Sign(field, data string) []byte { return c.env.Sign(field, data) }

// Reveal returns the bytes of a sealed value. It needs the grant reveal.
func (c *Call) Reveal(value string) []byte { return c.env.Reveal(value) }

// Debug logs a line for the author of the plugin.
func (c *Call) Debug(text string) { c.env.Log(abi.LevelDebug, text) }

// Info logs a line for the operator.
func (c *Call) Info(text string) { c.env.Log(abi.LevelInfo, text) }

// Warn logs a warning for the operator. The host logs the same text only once for each connector.
func (c *Call) Warn(text string) { c.env.Log(abi.LevelWarn, text) }

// Request is the outgoing request.
type Request struct {
	Method string
	URL    string
	// Headers are the request's headers without Authorization, Cookie and Proxy-Authorization.
	Headers []Pair
	// BodySHA256 is the SHA-256 of the body in hex. It is "" only if the request is being explained, not sent, and its body
	// can be read only once.
	BodySHA256 string
}

// Request returns the outgoing request. After it, the call cannot use the cache or request a token: that ends the call. To
// compute the digest, the host keeps a body that can be read only once, so call Request only if the plugin needs it.
func (c *Call) Request() (Request, error) {
	var r Request
	err := EachMember(string(c.env.Input()), func(name, value string) error {
		switch name {
		case "method":
			r.Method = text(value)
		case "url":
			r.URL = text(value)
		case "body_sha256":
			r.BodySHA256 = text(value)
		case "headers":
			return eachElement(value, func(element string) error {
				var p Pair
				err := EachMember(element, func(name, value string) error {
					switch name {
					case "name":
						p.Name = text(value)
					case "value":
						p.Value = text(value)
					}
					return nil
				})
				r.Headers = append(r.Headers, p)
				return err
			})
		}
		return nil
	})
	return r, err
}

// TokenRequest is a request to a token endpoint, RFC 6749 section 3.2.
type TokenRequest struct {
	// URL is the rendered value of a configuration field of kind [URL], exactly as [Call.Config] returned it.
	URL string
	// Form has the fields of the body, in order.
	Form []Pair
	// Headers are added to the request, such as Authorization: Basic. The host sets Content-Type, and Accept unless it is
	// here.
	Headers []Pair
	// Extra names further members of the answer to return in [Token].Extra, such as instance_url. They must be strings.
	Extra []string
}

// Token is the successful answer of a token endpoint, RFC 6749 section 5.1.
type Token struct {
	// AccessToken is a sealed value with the sinks [ToHeader] and [ToQuery].
	AccessToken string
	// TokenType is a registered name in lower case, "other", or "" if the answer does not include a type.
	TokenType string
	// ExpiresIn is the lifetime of the token. It is 0 if the answer does not include one from 0 to 2³¹−1 seconds.
	ExpiresIn time.Duration
	// Scope is a sealed value with the sinks [ToHeader], [ToQuery] and [ToToken].
	Scope string
	// Extra has the members that [TokenRequest].Extra names, as sealed values with the sinks of Scope.
	Extra map[string]string
}

// RequestToken requests a token from a token endpoint. It returns an error if the status is not 2xx. The error has the
// status and a registered error code, and nothing else that the endpoint wrote. It needs [UsesToken].
func (c *Call) RequestToken(r TokenRequest) (Token, error) {
	var t Token
	status, code := 0, ""
	err := EachMember(string(c.env.TokenRequest(r.document())), func(name, value string) error {
		switch name {
		case "status":
			status = int(integer(value))
		case "access_token":
			t.AccessToken = text(value)
		case "token_type":
			t.TokenType = text(value)
		case "expires_in":
			t.ExpiresIn = time.Duration(integer(value)) * time.Second
		case "scope":
			t.Scope = text(value)
		case "error":
			code = text(value)
		case "extra":
			t.Extra = map[string]string{}
			return EachMember(value, func(name, value string) error {
				t.Extra[name] = text(value)
				return nil
			})
		}
		return nil
	})
	if err != nil {
		return Token{}, err
	}
	if status < 200 || status > 299 {
		message := "the token endpoint answered " + strconv.Itoa(status)
		if code != "" {
			message += " (" + code + ")"
		}
		return Token{}, errors.New(message)
	}
	return t, nil
}

// Bearer returns a mutation that sends the token in the Authorization header. It returns an error if the token has a type
// other than bearer. The type is case-insensitive (RFC 6749 section 7.1), and the endpoint may leave it out.
func (t Token) Bearer() (Mutation, error) {
	if t.TokenType != "" && t.TokenType != "bearer" {
		return Mutation{}, errors.New("the token endpoint gave a token of another type than bearer")
	}
	return Bearer(t.AccessToken), nil
}

func (r TokenRequest) document() []byte {
	var o Members
	o.String("url", r.URL)
	o.Raw("form", pairsJSON(r.Form))
	if len(r.Headers) > 0 {
		o.Raw("headers", pairsJSON(r.Headers))
	}
	if len(r.Extra) > 0 {
		o.Raw("extra", stringsJSON(r.Extra))
	}
	return []byte(o.JSON())
}
