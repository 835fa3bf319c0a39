//go:build tinygo || wasip1

package sdk

import (
	"unsafe"

	pdk "github.com/extism/go-pdk"

	"github.com/keywright/keywright/internal/contract"
)

// Parameters and results of the host functions are offsets of memory blocks.

//go:wasmimport extism:host/env input_offset
func inputOffset() uint64

//go:wasmimport extism:host/user block_new
func blockNew(address unsafe.Pointer, length uint32) uint64

//go:wasmimport extism:host/user block_read
func blockRead(offset uint64, address unsafe.Pointer, room uint32) uint64

//go:wasmimport extism:host/env config_get
func configGet(name uint64) uint64

//go:wasmimport extism:host/user time_now
func timeNow() int64

//go:wasmimport extism:host/user secret_get
func secretGet(name uint64) uint64

//go:wasmimport extism:host/user token_request
func tokenRequest(request uint64) uint64

//go:wasmimport extism:host/user time_millis
func timeMillis() int64

//go:wasmimport extism:host/user clock_offset
func clockOffset() int64

//go:wasmimport extism:host/user counter
func counter(floor int64) int64

//go:wasmimport extism:host/user random
func random(bytes int64) uint64

//go:wasmimport extism:host/user body
func body() uint64

//go:wasmimport extism:host/user body_form
func bodyForm() uint64

//go:wasmimport extism:host/user compose
func compose(template, with uint64) uint64

//go:wasmimport extism:host/user challenge
func challenge() uint64

//go:wasmimport extism:host/user exchange
func exchange(request uint64) uint64

//go:wasmimport extism:host/user cache_get
func cacheGet(key uint64) uint64

//go:wasmimport extism:host/user cache_set
func cacheSet(key, value uint64, ttlSeconds int64)

//go:wasmimport extism:host/user cache_drop
func cacheDrop(key uint64) uint64

//go:wasmimport extism:host/user state_get
func stateGet(name uint64) uint64

//go:wasmimport extism:host/user jwt_sign
func jwtSign(request uint64) uint64

//go:wasmimport extism:host/user jws_sign
func jwsSign(request uint64) uint64

//go:wasmimport extism:host/user encode
func encode(format, text uint64) uint64

//go:wasmimport extism:host/user decode
func decode(format, text uint64) uint64

//go:wasmimport extism:host/user digest
func digest(algorithm, data uint64) uint64

//go:wasmimport extism:host/user mac
func mac(algorithm, key, data uint64) uint64

//go:wasmimport extism:host/user sign_sealed
func signSealed(field, purpose, data uint64) uint64

//go:wasmimport extism:host/user public_key
func publicKey(field, form uint64) uint64

//go:wasmimport extism:host/user sign
func sign(field, data uint64) uint64

//go:wasmimport extism:host/user reveal
func reveal(value uint64) uint64

// guest implements contract.Env with the imports of the module.
type guest struct{}

func (guest) Input() []byte { return take(inputOffset()) }

func (guest) ConfigGet(name string) (string, bool) { return optional(configGet(give(name))) }

func (guest) Log(level contract.Level, text string) { pdk.Log(pdk.LogLevel(level), text) } // their order is the same

func (guest) TimeNow() int64 { return timeNow() }

func (guest) TimeMillis() int64 { return timeMillis() }

func (guest) ClockOffset() int64 { return clockOffset() }

func (guest) Counter(floor int64) int64 { return counter(floor) }

func (guest) Random(bytes int64) string { return takeText(random(bytes)) }

func (guest) Body() string { return takeText(body()) }

func (guest) BodyForm() ([]byte, bool) {
	pairs, ok := optional(bodyForm())
	return []byte(pairs), ok
}

func (guest) Compose(template string, with []byte) string {
	composition := uint64(0)
	if len(with) > 0 {
		composition = give(string(with))
	}
	return takeText(compose(give(template), composition))
}

func (guest) Challenge() []byte { return take(challenge()) }

func (guest) SecretGet(name string) string { return takeText(secretGet(give(name))) }

func (guest) TokenRequest(request []byte) []byte { return take(tokenRequest(give(string(request)))) }

func (guest) Exchange(request []byte) []byte { return take(exchange(give(string(request)))) }

func (guest) CacheGet(key string) (string, bool) { return optional(cacheGet(give(key))) }

func (guest) CacheSet(key, value string, ttlSeconds int64) {
	cacheSet(give(key), give(value), ttlSeconds)
}

func (guest) CacheDrop(key string) bool { return cacheDrop(give(key)) != 0 }

func (guest) StateGet(name string) (string, bool) { return optional(stateGet(give(name))) }

func (guest) JWTSign(request []byte) string { return takeText(jwtSign(give(string(request)))) }

func (guest) JWSSign(request []byte) string { return takeText(jwsSign(give(string(request)))) }

func (guest) Encode(format, text string) string { return takeText(encode(give(format), give(text))) }

func (guest) Decode(format, text string) string { return takeText(decode(give(format), give(text))) }

func (guest) Digest(algorithm, data string) string {
	return takeText(digest(give(algorithm), give(data)))
}

func (guest) MAC(algorithm, key, data string) string {
	return takeText(mac(give(algorithm), give(key), give(data)))
}

func (guest) SignSealed(field, purpose, data string) string {
	return takeText(signSealed(give(field), give(purpose), give(data)))
}

func (guest) PublicKey(field, form string) string {
	return takeText(publicKey(give(field), give(form)))
}

func (guest) Sign(field, data string) []byte { return take(sign(give(field), give(data))) }

func (guest) Reveal(value string) []byte { return take(reveal(give(value))) }

// give copies text into a new block and returns its offset.
func give(text string) uint64 {
	return blockNew(unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
}

// room is the rest of the memory for what a call reads. Most calls need no more than first, and so neither an allocation nor a
// copy for each block.
var (
	first [2048]byte
	room  = first[:]
)

// take returns the bytes of the block at offset.
func take(offset uint64) []byte {
	n := int(blockRead(offset, unsafe.Pointer(unsafe.SliceData(room)), uint32(len(room))))
	if n > len(room) {
		room = make([]byte, max(n, len(first)))
		blockRead(offset, unsafe.Pointer(unsafe.SliceData(room)), uint32(n))
	}
	b := room[:n:n]
	room = room[n:]
	return b
}

// takeText returns the text of the block at offset.
func takeText(offset uint64) string {
	b := take(offset) // nothing else has these bytes
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// optional returns the text of the block at offset. The offset 0 means that there is none.
func optional(offset uint64) (string, bool) {
	if offset == 0 {
		return "", false
	}
	return takeText(offset), true
}
