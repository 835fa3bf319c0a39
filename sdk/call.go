package sdk

import (
	"time"

	"github.com/keywright/keywright/internal/contract"
)

// Config is the configuration of a connector that is being loaded, before its templates are rendered.
type Config struct{ env contract.Env }

// Literal returns the literal value of a field, or its default. It returns false if the field is absent and has no default,
// is sealed or a key, or contains a template. An object is returned as JSON with its templates unrendered.
func (c *Config) Literal(name string) (string, bool) { return c.env.ConfigGet(name) }

// Call is the authentication of one request. Its methods are, by purpose:
//
//   - read: Config, First, Integer, Seconds, Secret, Request, Body, BodyForm, Challenge, Now, NowMillis, ClockOffset, Random, Counter;
//   - encode: Base64, Base64URL, Hex, Percent, FormEncode, Quoted, Encode, Decode, Compose, ComposeWith;
//   - cache and keep: Cached, Cache, CachedToken, CacheToken, Drop, Lifetime, State;
//   - get a token: RequestToken, Exchange, ExchangeOK;
//   - sign: SignJWT, SignAssertion, SignJWS, Digest, MAC, SignSealed, SignatureBase, PublicKey, and with a grant Sign and Reveal;
//   - log: Debug, Info, Warn.
type Call struct{ env contract.Env }

// Config returns the rendered value of a field. If the field is absent, it returns the default, or "". A sealed field and a
// key are returned as one sealed value. In other fields, each template expression that calls get_secret is replaced by a
// sealed value. An object is returned as JSON.
func (c *Call) Config(name string) string {
	value, _ := c.env.ConfigGet(name)
	return value
}

// First returns the rendered value of the first of some fields that is not empty, or "".
func (c *Call) First(names ...string) string {
	for _, name := range names {
		if value := c.Config(name); value != "" {
			return value
		}
	}
	return ""
}

// Integer returns the rendered value of an integer field, or 0 if it is absent and has no default.
func (c *Call) Integer(name string) int64 { return integer(c.Config(name)) } // the host has checked it

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

// NowMillis returns the time of the host's clock in Unix milliseconds.
func (c *Call) NowMillis() int64 { return c.env.TimeMillis() }

// ClockOffset returns the seconds that the clock of the API is ahead of the host's. It is 0 unless the API has refused a
// request, with 400, 401 or 403 and a Date that shows so.
func (c *Call) ClockOffset() int64 { return c.env.ClockOffset() }

// Random returns random bytes in hex, 1 to 64 of them.
func (c *Call) Random(bytes int) string { return c.env.Random(int64(bytes)) }

// Counter returns a number that is above that of each earlier request of the connector, configuration and user, and not below floor, for
// an API that takes rising numbers only. The requests go one at a time from then on: this one has its turn until the API's answer has a
// status. So do not call Counter for others. Call it once, before the call reads the request. The second attempt of a request has the
// next number, whatever floor is. It needs [UsesTurn].
func (c *Call) Counter(floor int64) int64 { return c.env.Counter(floor) }

// Cached returns the value that [Call.Cache] stored under a key, and reports whether there is one. Entries belong to one
// connector, configuration and user. On a miss, other calls that ask for the key wait until this call stores a value or
// ends. After a challenge the call may begin anew, see [Call.Challenge]. It needs [UsesCache].
func (c *Call) Cached(key string) (string, bool) { return c.env.CacheGet(key) }

// Cache stores a value, which may hold sealed values. If ttl is less than a second, it stores nothing. After a challenge the
// call may begin anew, see [Call.Challenge]. It needs [UsesCache].
func (c *Call) Cache(key, value string, ttl time.Duration) {
	c.env.CacheSet(key, value, int64(ttl/time.Second))
}

// State returns the sealed value of a state, and reports whether the grant has it. It may go where the seed or the answer of
// the state may go. It needs [UsesState].
//
// The call has the turn of the grant from then on, and other calls wait. The next [Call.Exchange] is the one that uses the
// state: it may not be a GET, and after it succeeded there may be no other. The host keeps the answers with State before it
// returns. If the endpoint's answer is lost, the grant is uncertain: a later call may send the same state once more. So ask for the
// state only when [Call.Cached] has no token. [Call.RequestToken] cannot be called after it.
func (c *Call) State(name string) (value string, ok bool) { return c.env.StateGet(name) }

// Drop removes the value of a key from the cache if this call, or that of the request's earlier attempt, has read it. A value
// that another call has stored meanwhile stays. It reports whether a new value may help: not if the cache had none, or if
// the value was renewed moments ago. After a challenge the call may begin anew, see [Call.Challenge]. It needs [UsesCache].
func (c *Call) Drop(key string) (useful bool) { return c.env.CacheDrop(key) }

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
func (c *Call) SignJWT(j JWT) string { return c.env.JWTSign(j.document(contract.ForHeader)) }

// SignQueryJWT is like [Call.SignJWT] for a query parameter of the outgoing request: the sink is [ToQuery].
func (c *Call) SignQueryJWT(j JWT) string { return c.env.JWTSign(j.document(contract.ForQuery)) }

// SignAssertion signs a JWT for a token request. It returns the compact JWT, RFC 7519, as a sealed value with the sink
// [ToToken]. It needs [UsesSign].
func (c *Call) SignAssertion(j JWT) string { return c.env.JWTSign(j.document(contract.ForToken)) }

func (j JWT) document(target string) []byte {
	var o Members
	o.String("key", j.Key)
	o.String("for", target)
	if j.Header != "" {
		o.Raw("header", j.Header)
	}
	o.Raw("claims", j.Claims)
	o.names("integers", j.Integers)
	return []byte(o.JSON())
}

// JWS is a signature to make, for [Call.SignJWS].
type JWS struct {
	// Key is the name of a configuration field of kind [Key] with the purpose [ForJWS]. The value of the field's AlgorithmField is the
	// algorithm.
	Key string
	// Header is a JSON object with further members of the JOSE header, or "". The host sets alg, crit and b64.
	Header string
	// Crit names members of Header that the recipient must understand, RFC 7515 section 4.1.11. The host adds b64 if Unencoded is set.
	Crit []string
	// Unencoded reports whether the payload is signed as it is, and not in base64url: b64 is false, RFC 7797.
	Unencoded bool
	// Payload is the text that is signed. It may hold sealed values with the sink [ToDigest], such as [Call.Body].
	Payload string
	// Attached reports whether the JWS has its payload. Then the payload may hold no sealed value, and Unencoded may not be set.
	Attached bool
	// Integers names members of Header. If such a member is a numeric string, the host converts it to an integer.
	Integers []string
}

// SignJWS returns a JWS in compact serialization, RFC 7515 section 7.1, as a sealed value. Its payload is left out unless it is
// Attached: appendix F. The result may go to the places that the key's Derived lists. It needs [UsesSign].
func (c *Call) SignJWS(j JWS) string {
	var o Members
	o.String("key", j.Key)
	if j.Header != "" {
		o.Raw("header", j.Header)
	}
	o.names("crit", j.Crit)
	o.flag("unencoded", j.Unencoded)
	o.String("payload", j.Payload)
	o.flag("attached", j.Attached)
	o.names("integers", j.Integers)
	return c.env.JWSSign([]byte(o.JSON()))
}

// Base64 returns the base64 encoding of text, RFC 4648 section 4. It is sealed if text holds a sealed value.
func (c *Call) Base64(text string) string { return c.env.Encode(contract.FormatBase64, text) }

// Base64URL returns the base64url encoding of text, RFC 4648 section 5, without padding. It is sealed if text holds a
// sealed value.
func (c *Call) Base64URL(text string) string { return c.env.Encode(contract.FormatBase64URL, text) }

// Hex returns the hexadecimal encoding of text in lower case. It is sealed if text holds a sealed value.
func (c *Call) Hex(text string) string { return c.env.Encode(contract.FormatHex, text) }

// Percent returns text with all but the unreserved characters percent-encoded, RFC 3986 section 2.1. It is sealed if text
// holds a sealed value.
func (c *Call) Percent(text string) string { return c.env.Encode(contract.FormatPercent, text) }

// FormEncode returns text encoded as application/x-www-form-urlencoded, as a client's identifier and secret are in Basic
// credentials (RFC 6749 section 2.3.1). It is sealed if text holds a sealed value.
func (c *Call) FormEncode(text string) string { return c.env.Encode(contract.FormatForm, text) }

// Encode returns text in a format: one that Decode knows, or base64url_padded, hex_upper, percent or form. It is for a format
// that a configuration names; the methods above have names of their own. The result is sealed if text holds a sealed value.
func (c *Call) Encode(format, text string) string { return c.env.Encode(format, text) }

// Quoted returns text as a quoted-string with its quotes, RFC 9110 section 5.6.4, for a parameter in a header. It is sealed if
// text holds a sealed value.
func (c *Call) Quoted(text string) string { return c.env.Encode(contract.FormatQuoted, text) }

// Decode returns the bytes of a text in a format, with or without padding: base64, base64url, base32 or hex (RFC 4648). They are
// sealed if text holds a sealed value. Then they can be a key or data, and must be encoded before they are sent.
func (c *Call) Decode(format, text string) string { return c.env.Decode(format, text) }

// DigestHash is a hash function of [Call.Digest].
type DigestHash string

// Hash functions of [Call.Digest].
const (
	DigestMD5       DigestHash = contract.DigestMD5
	DigestSHA1      DigestHash = contract.DigestSHA1
	DigestSHA256    DigestHash = contract.DigestSHA256
	DigestSHA384    DigestHash = contract.DigestSHA384
	DigestSHA512    DigestHash = contract.DigestSHA512
	DigestSHA512256 DigestHash = contract.DigestSHA512256 // SHA-512/256
)

// Digest returns the digest of data as raw bytes. The sealed values in data must have the sink [ToDigest]. If there are any
// but [Call.Body], the result is a sealed value. It may go to the places that [Field].Derived lists for all of them, and
// must be encoded before, for example with [Call.Hex].
func (c *Call) Digest(hash DigestHash, data string) string { return c.env.Digest(string(hash), data) }

// MACHash is a hash function of [Call.MAC].
type MACHash string

// Hash functions of [Call.MAC].
const (
	MACSHA1   MACHash = contract.MACSHA1
	MACSHA256 MACHash = contract.MACSHA256
	MACSHA384 MACHash = contract.MACSHA384
	MACSHA512 MACHash = contract.MACSHA512
)

// MAC returns the HMAC of data, RFC 2104. The hash is [MACSHA1], [MACSHA256], [MACSHA384] or [MACSHA512]. The key must be or hold a sealed
// value with the sink [ToSign], but not that of a field of kind [Key]: [Call.SignSealed] makes its HMACs. Sealed values in data
// must have [ToDigest]. The result is a sealed value of raw bytes. It may go to the places that [Field].Derived lists for the
// key and for what is in data. It can be the key of another MAC; in a header or a JWT it must be encoded, for example with
// [Call.Hex]. It needs [UsesSign].
func (c *Call) MAC(hash MACHash, key, data string) string { return c.env.MAC(string(hash), key, data) }

// Purpose is a use of a [Key], for [Field].Purposes and [Call.SignSealed].
type Purpose string

// Purposes of a [Key].
const (
	ForJWT           Purpose = contract.PurposeJWT           // Call.SignJWT and Call.SignAssertion
	ForHTTPSignature Purpose = contract.PurposeHTTPSignature // a signature base, RFC 9421 section 2.5
	ForMessage       Purpose = contract.PurposeMessage       // other data
	ForJWS           Purpose = contract.PurposeJWS           // Call.SignJWS, and nothing else in any connector of the host
)

// RS1 is an algorithm of a [Key] in addition to those of [Algorithms]: RSASSA-PKCS1-v1_5 with SHA-1, for old protocols such as OAuth
// 1.0. It signs for [ForMessage] only.
const RS1 string = contract.SignRS1

// SignSealed returns the signature of data, RFC 7518 section 3, made with a field of kind [Key]. The field's Purposes must
// include purpose, and data must fit it. The result is a sealed value of raw bytes. It may go to the places that the field's
// Derived lists, and must be encoded before. It needs [UsesSign].
func (c *Call) SignSealed(field string, purpose Purpose, data string) string {
	return c.env.SignSealed(field, string(purpose), data)
}

// PublicForm is a form of [Call.PublicKey].
type PublicForm string

// Forms of [Call.PublicKey].
const (
	JWK           PublicForm = contract.PublicJWK        // the public half of a Key as a JWK, RFC 7517
	JWKThumbprint PublicForm = contract.PublicThumbprint // its thumbprint, RFC 7638
	X5T           PublicForm = contract.PublicX5T        // the SHA-256 of a Certificate in base64url, for the header x5t#S256
	X5C           PublicForm = contract.PublicX5C        // a Certificate and its chain as a JSON array, for the header x5c
)

// PublicKey returns the public half of a field of kind [Key], or a field of kind [Certificate], in a form, as plain text. It
// needs [UsesSign].
func (c *Call) PublicKey(field string, form PublicForm) string {
	return c.env.PublicKey(field, string(form))
}

// Sign returns the raw signature of data, RFC 7518 section 3, made with a field of kind [Key]. It needs [UsesSign] and the
// grant sign_raw.
func (c *Call) Sign(field, data string) []byte { return c.env.Sign(field, data) }

// Reveal returns the bytes of a sealed value. It needs the grant reveal.
func (c *Call) Reveal(value string) []byte { return c.env.Reveal(value) }

// Debug logs a line for the author of the plugin.
func (c *Call) Debug(text string) { c.env.Log(contract.LevelDebug, text) }

// Info logs a line for the operator.
func (c *Call) Info(text string) { c.env.Log(contract.LevelInfo, text) }

// Warn logs a warning for the operator. The host logs the same text only once for each connector.
func (c *Call) Warn(text string) { c.env.Log(contract.LevelWarn, text) }
