package sandbox

import (
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/keywright/keywright/abi"
)

// blockFunctions copy between memory blocks and the guest's own memory, for which the Extism kernel needs a call for every
// eight bytes. Like those of the kernel they reach nothing else, and are not counted.
var blockFunctions = []function{
	{abi.UserBlockNew, i32x2, i64, blockNew},
	{abi.UserBlockRead, copy3, i64, blockRead},
}

// blockNew: (address, length) → offset of a new block, also of one of no bytes.
func blockNew(r *run, stack []uint64) {
	stack[0] = put(r, r.own(abi.UserBlockNew, stack[0], stack[1]))
}

// blockRead: (block, address, room) → length of the block, of which as much is copied as there is room for.
func blockRead(r *run, stack []uint64) {
	block, err := r.arena.Block(stack[0])
	if err != nil {
		r.fail(ErrUse, "%s: %v", abi.UserBlockRead, err)
	}
	r.spend(copy(r.own(abi.UserBlockRead, stack[1], stack[2]), block))
	stack[0] = uint64(len(block))
}

// own returns bytes of the guest's own memory.
func (r *run) own(function string, address, length uint64) []byte {
	from, n := uint64(uint32(address)), uint64(uint32(length))
	if from+n > uint64(len(r.memory.bytes)) {
		r.fail(ErrUse, "%s: %d bytes at address %d are outside the guest's memory", function, n, from)
	}
	return r.memory.bytes[from : from+n]
}

// userFunctions are Keywright's host functions. Their parameters and results are offsets of blocks, unless they say
// something else; offset 0 is an empty parameter, and a result is always a block, also an empty one.
var userFunctions = []function{
	{abi.UserTimeNow, none, i64, timeNow},
	{abi.UserSecretGet, i64, i64, secretGet},
	{abi.UserTokenRequest, i64, i64, tokenRequest},
	{abi.UserCacheGet, i64, i64, cacheGet},
	{abi.UserCacheSet, i64x3, none, cacheSet},
	{abi.UserJWTSign, i64, i64, jwtSign},
	{abi.UserEncode, i64x2, i64, encode},
	{abi.UserMAC, i64x3, i64, mac},
	{abi.UserSign, i64x2, i64, sign},
	{abi.UserReveal, i64, i64, reveal},
}

// timeNow: () → Unix seconds.
func timeNow(r *run, stack []uint64) {
	r.ask(func() { stack[0] = api.EncodeI64(r.env.TimeNow()) })
}

// secretGet: (name) → sealed value.
func secretGet(r *run, stack []uint64) {
	name := r.text(abi.UserSecretGet, stack[0])
	var value string
	r.ask(func() { value = r.env.SecretGet(name) })
	stack[0] = put(r, value)
}

// tokenRequest: (request) → reply. It may take seconds, in which another guest has this one's slot.
func tokenRequest(r *run, stack []uint64) {
	request := r.text(abi.UserTokenRequest, stack[0])
	r.waiting = true
	began := time.Now()
	defer func() { r.waited += time.Since(began) }()
	r.module.runtime.slots.release()
	var reply []byte
	r.ask(func() { reply = r.env.TokenRequest([]byte(request)) })
	if stop := r.module.runtime.slots.acquire(r.Context, r.module.runtime.limits.CallTime); stop != nil {
		r.abort(stop)
	}
	r.waiting = false
	stack[0] = put(r, reply)
}

// cacheGet: (key) → value, or 0 when there is none.
func cacheGet(r *run, stack []uint64) {
	key := r.text(abi.UserCacheGet, stack[0])
	var value string
	var ok bool
	r.ask(func() { value, ok = r.env.CacheGet(key) })
	stack[0] = 0
	if ok {
		stack[0] = put(r, value)
	}
}

// cacheSet: (key, value, seconds to live; not an offset).
func cacheSet(r *run, stack []uint64) {
	key, value := r.text(abi.UserCacheSet, stack[0]), r.text(abi.UserCacheSet, stack[1])
	r.ask(func() { r.env.CacheSet(key, value, int64(stack[2])) })
}

// jwtSign: (request) → sealed value.
func jwtSign(r *run, stack []uint64) {
	r.inTime(abi.UserJWTSign) // with a large key, it may take a tenth of a second
	request := r.text(abi.UserJWTSign, stack[0])
	var token string
	r.ask(func() { token = r.env.JWTSign([]byte(request)) })
	stack[0] = put(r, token)
}

// encode: (format, bytes) → text or sealed value.
func encode(r *run, stack []uint64) {
	format, data := r.text(abi.UserEncode, stack[0]), r.data(abi.UserEncode, stack[1])
	var text string
	r.ask(func() { text = r.env.Encode(format, data) })
	stack[0] = put(r, text)
}

// mac: (algorithm, key of any bytes, data of any bytes) → sealed value.
func mac(r *run, stack []uint64) {
	algorithm := r.text(abi.UserMAC, stack[0])
	key, data := r.data(abi.UserMAC, stack[1]), r.data(abi.UserMAC, stack[2])
	var value string
	r.ask(func() { value = r.env.MAC(algorithm, key, data) })
	stack[0] = put(r, value)
}

// sign: (field, data of any bytes) → signature.
func sign(r *run, stack []uint64) {
	r.inTime(abi.UserSign)
	field, data := r.text(abi.UserSign, stack[0]), r.data(abi.UserSign, stack[1])
	var signature []byte
	r.ask(func() { signature = r.env.Sign(field, data) })
	stack[0] = put(r, signature)
}

// reveal: (sealed value) → its bytes.
func reveal(r *run, stack []uint64) {
	value := r.text(abi.UserReveal, stack[0])
	var bytes []byte
	r.ask(func() { bytes = r.env.Reveal(value) })
	stack[0] = put(r, bytes)
}
