//go:build tinygo || wasip1

package sdk

import (
	pdk "github.com/extism/go-pdk"

	"github.com/keywright/keywright/internal/abi"
)

// Each takes and gives offsets of memory blocks.

//go:wasmimport extism:host/env alloc
func alloc(length uint64) uint64

//go:wasmimport extism:host/env length
func blockLength(offset uint64) uint64

//go:wasmimport extism:host/env load_u64
func load(offset uint64) uint64

//go:wasmimport extism:host/env store_u64
func store(offset, bytes uint64)

//go:wasmimport extism:host/env config_get
func configGet(name uint64) uint64

//go:wasmimport extism:host/user time_now
func timeNow() int64

//go:wasmimport extism:host/user secret_get
func secretGet(name uint64) uint64

//go:wasmimport extism:host/user token_request
func tokenRequest(request uint64) uint64

//go:wasmimport extism:host/user cache_get
func cacheGet(key uint64) uint64

//go:wasmimport extism:host/user cache_set
func cacheSet(key, value uint64, ttlSeconds int64)

//go:wasmimport extism:host/user jwt_sign
func jwtSign(request uint64) uint64

//go:wasmimport extism:host/user encode
func encode(format, text uint64) uint64

//go:wasmimport extism:host/user mac
func mac(algorithm, key, data uint64) uint64

//go:wasmimport extism:host/user sign
func sign(field, data uint64) uint64

//go:wasmimport extism:host/user reveal
func reveal(value uint64) uint64

// guest asks the host that the module is in.
type guest struct{}

func (guest) Input() []byte { return pdk.Input() }

func (guest) ConfigGet(name string) (string, bool) { return optional(configGet(give(name))) }

func (guest) Log(level abi.Level, text string) {
	switch level {
	case abi.LevelTrace, abi.LevelDebug:
		pdk.Log(pdk.LogDebug, text)
	case abi.LevelInfo:
		pdk.Log(pdk.LogInfo, text)
	case abi.LevelWarn:
		pdk.Log(pdk.LogWarn, text)
	default:
		pdk.Log(pdk.LogError, text)
	}
}

func (guest) TimeNow() int64 { return timeNow() }

func (guest) SecretGet(name string) string { return string(take(secretGet(give(name)))) }

func (guest) TokenRequest(request []byte) []byte {
	return take(tokenRequest(give(string(request))))
}

func (guest) CacheGet(key string) (string, bool) { return optional(cacheGet(give(key))) }

func (guest) CacheSet(key, value string, ttlSeconds int64) {
	cacheSet(give(key), give(value), ttlSeconds)
}

func (guest) JWTSign(request []byte) string { return string(take(jwtSign(give(string(request))))) }

func (guest) Encode(format, text string) string {
	return string(take(encode(give(format), give(text))))
}

func (guest) MAC(algorithm, key, data string) string {
	return string(take(mac(give(algorithm), give(key), give(data))))
}

func (guest) Sign(field, data string) []byte { return take(sign(give(field), give(data))) }

func (guest) Reveal(value string) []byte { return take(reveal(give(value))) }

// give puts a text into a block for the host. Calls of the host are what a plugin's time goes into, so that the last bytes
// go with those of the block's padding in one call.
func give(text string) uint64 {
	offset := alloc(uint64(len(text)))
	i := 0
	for ; i+8 <= len(text); i += 8 {
		store(offset+uint64(i), uint64(text[i])|uint64(text[i+1])<<8|uint64(text[i+2])<<16|uint64(text[i+3])<<24|
			uint64(text[i+4])<<32|uint64(text[i+5])<<40|uint64(text[i+6])<<48|uint64(text[i+7])<<56)
	}
	if i < len(text) {
		rest := uint64(0)
		for k := len(text) - 1; k >= i; k-- {
			rest = rest<<8 | uint64(text[k])
		}
		store(offset+uint64(i), rest)
	}
	return offset
}

// take reads the block that the host gave.
func take(offset uint64) []byte {
	b := make([]byte, blockLength(offset))
	i := 0
	for ; i+8 <= len(b); i += 8 {
		v := load(offset + uint64(i))
		b[i], b[i+1], b[i+2], b[i+3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
		b[i+4], b[i+5], b[i+6], b[i+7] = byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56)
	}
	if i < len(b) {
		v := load(offset + uint64(i))
		for ; i < len(b); i++ {
			b[i] = byte(v)
			v >>= 8
		}
	}
	return b
}

func optional(offset uint64) (string, bool) {
	if offset == 0 {
		return "", false
	}
	return string(take(offset)), true
}
