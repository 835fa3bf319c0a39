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
	Input() []byte
	ConfigGet(name string) (value string, ok bool)
	Log(level Level, text string)

	TimeNow() int64
	SecretGet(name string) string
	TokenRequest(request []byte) (reply []byte)
	CacheGet(key string) (value string, ok bool)
	CacheSet(key, value string, ttlSeconds int64)
	JWTSign(request []byte) string
	Encode(format, text string) string
	MAC(algorithm, key, data string) string
	Sign(field, data string) []byte
	Reveal(value string) []byte
}
