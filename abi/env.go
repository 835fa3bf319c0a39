package abi

// Level of a log line that a guest writes.
type Level uint8

// The levels of the Extism kernel, in its order.
const (
	LevelTrace Level = iota
	LevelDebug
	LevelInfo
	LevelWarn
	LevelError
)

// Env has the functions of the host that a guest can call, one method for each. Compiled to WebAssembly, the SDK
// implements it with imports; in the host it is the call itself, so that a plugin also runs as plain Go.
//
// A method either succeeds or ends the call: it does not return to the guest then.
type Env interface {
	// Input returns the [Request] of authenticate as JSON. There is none in describe and validate.
	Input() []byte
	// ConfigGet returns the rendered value of a field of the configuration, and whether there is one. What comes from
	// secrets, it has as sealed values. In validate it returns literal text only.
	ConfigGet(name string) (value string, ok bool)
	// Log writes a line into the host's log.
	Log(level Level, text string)

	// TimeNow returns the host's time in Unix seconds.
	TimeNow() int64
	// SecretGet returns the sealed value of a secret that the configuration names.
	SecretGet(name string) string
	// TokenRequest sends a [TokenRequest] as JSON, and returns a [TokenReply] as JSON.
	TokenRequest(request []byte) (reply []byte)
	// CacheGet returns what CacheSet stored under a key, and whether there is anything. When there is nothing, this call is
	// the one to get it, and others wait.
	CacheGet(key string) (value string, ok bool)
	// CacheSet stores a value, sealed values included. With less than a second to live, nothing is stored.
	CacheSet(key, value string, ttlSeconds int64)
	// JWTSign signs the [JWTRequest] that it gets as JSON, and returns the compact JWT, RFC 7519, as a sealed value.
	JWTSign(request []byte) string
	// Encode returns text in a format: [FormatBase64], [FormatBase64URL] or [FormatHex]. It is sealed when the text is.
	Encode(format, text string) string
	// MAC returns the HMAC (RFC 2104) of data as a sealed value. The algorithm is [MACSHA256], [MACSHA384] or [MACSHA512], and
	// the key is or holds a sealed value.
	MAC(algorithm, key, data string) string
	// Sign returns the raw signature of data, RFC 7518 section 3, with the key of a field. It needs [GrantSignRaw].
	Sign(field, data string) []byte
	// Reveal returns the bytes of a sealed value. It needs [GrantReveal].
	Reveal(value string) []byte
}
