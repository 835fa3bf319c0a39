package sdk

import (
	"errors"
	"strconv"
	"time"

	"github.com/keywright/keywright/abi"
)

// Config is a connector's configuration as validate sees it.
type Config struct{ env abi.Env }

// Literal returns the text of a field, or false when it is absent, sealed, or has a template that only a request can
// render. An object comes as it is written, with its templates unrendered.
func (c *Config) Literal(name string) (string, bool) { return c.env.ConfigGet(name) }

// Call is one request that is to be authenticated.
type Call struct{ env abi.Env }

// Config returns the rendered value of a field: its default, or "", when it is absent. A sealed field, and each template
// expression that takes a secret, comes as a sealed value. An object comes as JSON.
func (c *Call) Config(name string) string {
	value, _ := c.env.ConfigGet(name)
	return value
}

// Integer returns the rendered value of an integer field, 0 when it is absent and has no default.
func (c *Call) Integer(name string) int64 {
	return integer(c.Config(name)) // the host has checked it
}

// Seconds returns the rendered value of an integer field that counts seconds, a hundred years at most, either way.
func (c *Call) Seconds(name string) time.Duration {
	const century = 100 * 365 * 24 * 3600
	return time.Duration(max(-century, min(c.Integer(name), century))) * time.Second
}

// Secret returns the sealed value of a secret that the connector's configuration names. Group [UsesSecret].
func (c *Call) Secret(name string) string { return c.env.SecretGet(name) }

// Now returns the host's time in Unix seconds.
func (c *Call) Now() int64 { return c.env.TimeNow() }

// Cached returns what [Call.Cache] stored under a key, for this connector, configuration and user. When there is
// nothing, this call is the one to get it: others who ask wait until it stores something or ends. Group [UsesCache].
func (c *Call) Cached(key string) (string, bool) { return c.env.CacheGet(key) }

// Cache stores a value, sealed values included. With a ttl under a second nothing is stored. Group [UsesCache].
func (c *Call) Cache(key, value string, ttl time.Duration) {
	c.env.CacheSet(key, value, int64(ttl/time.Second))
}

// JWT is the input of [Call.SignJWT].
type JWT struct {
	Key      string   // name of a configuration field of kind Key; its algorithm field says how
	Header   string   // further header members: a JSON object, or ""
	Claims   string   // a JSON object
	Integers []string // top-level claims whose numeric strings become integers
}

// SignJWT returns a compact JWT, RFC 7519, sealed, for a header of the outgoing request. Group [UsesSign].
func (c *Call) SignJWT(j JWT) string { return c.env.JWTSign(j.document(abi.ForHeader)) }

// SignAssertion returns a compact JWT, RFC 7519, sealed, for a token request. Group [UsesSign].
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

// Base64 encodes text after RFC 4648 section 4. It is sealed when the text holds a sealed value.
func (c *Call) Base64(text string) string { return c.env.Encode(abi.FormatBase64, text) }

// Base64URL encodes text after RFC 4648 section 5, without padding. It is sealed when the text holds a sealed value.
func (c *Call) Base64URL(text string) string { return c.env.Encode(abi.FormatBase64URL, text) }

// Hex encodes text in lower case. It is sealed when the text holds a sealed value.
func (c *Call) Hex(text string) string { return c.env.Encode(abi.FormatHex, text) }

// Hash functions of [Call.MAC].
const (
	SHA256 = abi.MACSHA256
	SHA384 = abi.MACSHA384
	SHA512 = abi.MACSHA512
)

// MAC returns the HMAC (RFC 2104) of data with a key that is or holds a sealed value: raw bytes, sealed, with the sinks
// of the key. It may be the key of the next MAC, or be encoded. Group [UsesSign].
func (c *Call) MAC(hash, key, data string) string { return c.env.MAC(hash, key, data) }

// Sign returns the raw signature, RFC 7518 section 3, of data with a field of kind Key. Group [UsesSign]; needs the
// grant sign_raw.
func (c *Call) Sign(field, data string) []byte { return c.env.Sign(field, data) }

// Reveal returns the bytes of a sealed value. Needs the grant reveal.
func (c *Call) Reveal(value string) []byte { return c.env.Reveal(value) }

// Debug logs for the plugin's author.
func (c *Call) Debug(text string) { c.env.Log(abi.LevelDebug, text) }

// Info logs for the operator.
func (c *Call) Info(text string) { c.env.Log(abi.LevelInfo, text) }

// Warn logs for the operator. The same text is logged once for a connector.
func (c *Call) Warn(text string) { c.env.Log(abi.LevelWarn, text) }

// Request is the outgoing request, without Authorization, Cookie and Proxy-Authorization.
type Request struct {
	Method     string
	URL        string
	Headers    []Pair
	BodySHA256 string // in hex; "" when a request is only explained and its body can be read only once
}

// Request returns the outgoing request. A call that has asked for it can neither use the cache nor request a token. The
// host reads the body for its digest, so ask only when the request is needed.
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
	URL     string   // the rendered value of a configuration field of kind URL
	Form    []Pair   // the body, in this order
	Headers []Pair   // beyond Content-Type and Accept, such as Authorization: Basic
	Extra   []string // further string members of the answer that are wanted, such as instance_url
}

// Token is the successful answer of a token endpoint, RFC 6749 section 5.1.
type Token struct {
	AccessToken string            // sealed, for headers and queries
	TokenType   string            // a registered name in lower case, "other", or "" when absent
	ExpiresIn   time.Duration     // 0 when absent or of no use
	Scope       string            // sealed
	Extra       map[string]string // sealed
}

// RequestToken asks a token endpoint for a token. The answer is an error unless it is a success; what the endpoint
// wrote is never part of it. Group [UsesToken].
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

// Bearer is the mutation that sends the token in the Authorization header. It is an error when the token is of another
// type than bearer, which the endpoint may leave out, in any case (RFC 6749 section 7.1).
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
