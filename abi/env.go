package abi

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
	// Input returns the [Request] of authenticate as JSON. In describe and validate there is no input.
	Input() []byte
	// ConfigGet returns the rendered value of a configuration field, with sealed values in place of secrets, and reports
	// whether the field has one. A name that the description lacks ends the call. In validate it returns literal values
	// only.
	ConfigGet(name string) (value string, ok bool)
	// Log writes a line to the host's log.
	Log(level Level, text string)

	// TimeNow returns the time of the host's clock in Unix seconds.
	TimeNow() int64
	// SecretGet returns the sealed value of a secret that the configuration names.
	SecretGet(name string) string
	// TokenRequest sends a [TokenRequest], given as JSON, and returns the [TokenReply] as JSON.
	TokenRequest(request []byte) (reply []byte)
	// CacheGet returns the value that CacheSet stored under a key, and reports whether there is one. On a miss this call
	// gets the lease of the entry: other calls that miss wait until it calls CacheSet or ends.
	CacheGet(key string) (value string, ok bool)
	// CacheSet stores a value, which may hold sealed values. If ttlSeconds is less than 1, it stores nothing.
	CacheSet(key, value string, ttlSeconds int64)
	// JWTSign signs a [JWTRequest], given as JSON, and returns the compact JWT, RFC 7519, as a sealed value.
	JWTSign(request []byte) string
	// Encode returns text encoded as [FormatBase64], [FormatBase64URL] or [FormatHex]. The result is sealed if the text
	// holds a sealed value.
	Encode(format, text string) string
	// MAC returns the HMAC of data, RFC 2104, as a sealed value. The algorithm is [MACSHA256], [MACSHA384] or [MACSHA512].
	// The key must be or hold a sealed value.
	MAC(algorithm, key, data string) string
	// Sign returns the raw signature of data, RFC 7518 section 3, made with the key of a configuration field. It needs
	// [GrantSignRaw].
	Sign(field, data string) []byte
	// Reveal returns the bytes of a sealed value. It needs [GrantReveal].
	Reveal(value string) []byte
}
