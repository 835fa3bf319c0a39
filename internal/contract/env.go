package contract

// A Level is the level of a log line that a guest writes.
type Level uint8

// The levels of the Extism kernel, in its order.
const (
	LevelTrace Level = iota
	LevelDebug
	LevelInfo
	LevelWarn
	LevelError
)

// Env is the set of host functions that a guest can call. The SDK implements it with WebAssembly imports. The host
// implements it too, so that a plugin also runs as plain Go.
//
// A method has no error to return. If it fails, it ends the call and does not return to the guest.
type Env interface {
	// Input returns the [Request] of authenticate, or the [ConsentReply] of connect, as JSON. The other exports have no input.
	Input() []byte
	// ConfigGet returns the rendered value of a configuration field, with sealed values in place of secrets, and reports
	// whether the field has one. A name that the description lacks ends the call. In validate it returns literal values
	// only.
	ConfigGet(name string) (value string, ok bool)
	// Log writes a line to the host's log.
	Log(level Level, text string)

	// TimeNow returns the time of the host's clock in Unix seconds.
	TimeNow() int64
	// TimeMillis returns the time of the host's clock in Unix milliseconds.
	TimeMillis() int64
	// ClockOffset returns the seconds that the clock of the API is ahead of the host's. It is 0 unless the API has refused a
	// request with a Date that shows so.
	ClockOffset() int64
	// Random returns random bytes in hex, 1 to [MaxRandom] of them.
	Random(bytes int64) string
	// Body returns a sealed value that stands for the body of the request. It may be hashed, alone and with other text.
	Body() string
	// BodyForm returns the members of the body as a JSON list of [abi.Pair]. ok is false unless the body is a form.
	BodyForm() (pairs []byte, ok bool)
	// Compose returns a text of the outgoing request, made by a template. with is a [Composition] as JSON, or empty.
	Compose(template string, with []byte) string
	// Challenge returns the [ChallengeReply] of the API's answers, as JSON.
	Challenge() []byte
	// SecretGet returns the sealed value of a secret that the configuration names.
	SecretGet(name string) string
	// TokenRequest sends a [TokenRequest], given as JSON, and returns the [TokenReply] as JSON.
	TokenRequest(request []byte) (reply []byte)
	// Exchange sends an [Exchange], given as JSON, and returns the [ExchangeReply] as JSON.
	Exchange(request []byte) (reply []byte)
	// CacheGet returns the value that CacheSet stored under a key, and reports whether there is one. On a miss this call
	// gets the lease of the entry: other calls that miss wait until it calls CacheSet or ends.
	CacheGet(key string) (value string, ok bool)
	// CacheSet stores a value, which may hold sealed values. If ttlSeconds is less than 1, it stores nothing.
	CacheSet(key, value string, ttlSeconds int64)
	// CacheDrop removes the value that CacheSet stored under a key, if this call or that of the request's first attempt has
	// read it. It reports whether a new value may help: not if there was none, or if it was renewed moments ago.
	CacheDrop(key string) (useful bool)
	// Counter returns a number that is floor at least, and above that of each earlier call of the partition. The request has the turn of
	// the partition from then on: others wait until the API's answer has a status, or the request has failed.
	Counter(floor int64) int64
	// StateGet returns the sealed value of a state, and reports whether the grant has it. The call has the turn of the grant
	// from then on: other calls wait until it has ended, or until an exchange has succeeded.
	StateGet(name string) (value string, ok bool)
	// JWTSign signs a [JWTRequest], given as JSON, and returns the compact JWT, RFC 7519, as a sealed value.
	JWTSign(request []byte) string
	// JWSSign signs a [JWSRequest], given as JSON, and returns the JWS in compact serialization, RFC 7515 section 7.1, as a sealed
	// value. Its payload is left out unless it is attached.
	JWSSign(request []byte) string
	// Encode returns text encoded in a format, such as [FormatBase64]. The result is sealed if the text holds a sealed value.
	Encode(format, text string) string
	// Decode returns the bytes of a text in a format. The result is sealed if the text holds a sealed value.
	Decode(format, text string) string
	// Digest returns the digest of data. The algorithm is one of [Digests]. The result is sealed if data holds a sealed value
	// other than the body.
	Digest(algorithm, data string) string
	// MAC returns the HMAC of data, RFC 2104, as a sealed value. The algorithm is [MACSHA1], [MACSHA256], [MACSHA384] or
	// [MACSHA512]. The key must be or hold a sealed value.
	MAC(algorithm, key, data string) string
	// SignSealed returns the signature of data as a sealed value, made with the key of a configuration field. The key's
	// purposes must include purpose, and data must fit it.
	SignSealed(field, purpose, data string) string
	// PublicKey returns the public half of a key, or a certificate, in a form such as [PublicJWK].
	PublicKey(field, form string) string
	// Sign returns the raw signature of data, RFC 7518 section 3, made with the key of a configuration field. It needs
	// [abi.GrantSignRaw].
	Sign(field, data string) []byte
	// Reveal returns the bytes of a sealed value. It needs [abi.GrantReveal].
	Reveal(value string) []byte
}

// Dispatch runs one export of a plugin as plain Go and returns its output. The plugin is an sdk.Plugin. Package sdk sets Dispatch, which
// only test harnesses call.
var Dispatch func(plugin any, env Env, export string) (string, error)
