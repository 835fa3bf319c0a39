package sandbox

import (
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/keywright/keywright/abi"
)

// blockFunctions are the functions that copy between memory blocks and the guest's own memory. With the Extism kernel
// alone, a guest needs a call for every eight bytes. They reach nothing else, so they are not counted, like those of
// the kernel.
var blockFunctions = []function{
	{abi.UserBlockNew, i32x2, i64, blockNew},
	{abi.UserBlockRead, copy3, i64, blockRead},
}

// blockNew implements block_new(address, length) → offset of a new block, even if that is empty.
func blockNew(r *run, stack []uint64) {
	stack[0] = put(r, r.own(abi.UserBlockNew, stack[0], stack[1]))
}

// blockRead implements block_read(block, address, room) → length of the block. It copies at most room bytes of the block.
func blockRead(r *run, stack []uint64) {
	block, err := r.arena.Block(stack[0])
	if err != nil {
		r.fail(ErrUse, "%s: %v", abi.UserBlockRead, err)
	}
	r.spend(copy(r.own(abi.UserBlockRead, stack[1], stack[2]), block))
	stack[0] = uint64(len(block))
}

// own returns length bytes at address of the guest's own memory, not copied. It ends the call if they are out of bounds.
func (r *run) own(function string, address, length uint64) []byte {
	from, n := uint64(uint32(address)), uint64(uint32(length))
	if from+n > uint64(len(r.memory.bytes)) {
		r.fail(ErrUse, "%s: %d bytes at address %d are outside the guest's memory", function, n, from)
	}
	return r.memory.bytes[from : from+n]
}

// userFunctions are Keywright's host functions. Parameters and results are offsets of blocks, unless the comment of a
// function says otherwise. A parameter of offset 0 is an empty text. A result is always a block, even an empty one,
// except where it may be 0.
var userFunctions = []function{
	{abi.UserTimeNow, none, i64, timeNow},
	{abi.UserSecretGet, i64, i64, secretGet},
	{abi.UserTimeMillis, none, i64, timeMillis},
	{abi.UserClockOffset, none, i64, clockOffset},
	{abi.UserRandom, i64, i64, random},
	{abi.UserBody, none, i64, body},
	{abi.UserBodyForm, none, i64, bodyForm},
	{abi.UserCompose, i64x2, i64, compose},
	{abi.UserChallenge, none, i64, challenge},
	{abi.UserTokenRequest, i64, i64, exchanging(abi.UserTokenRequest, abi.Env.TokenRequest)},
	{abi.UserExchange, i64, i64, exchanging(abi.UserExchange, abi.Env.Exchange)},
	{abi.UserCacheGet, i64, i64, cacheGet},
	{abi.UserCacheSet, i64x3, none, cacheSet},
	{abi.UserCacheDrop, i64, i64, cacheDrop},
	{abi.UserStateGet, i64, i64, stateGet},
	{abi.UserJWTSign, i64, i64, jwtSign},
	{abi.UserEncode, i64x2, i64, encode},
	{abi.UserDecode, i64x2, i64, decode},
	{abi.UserDigest, i64x2, i64, digest},
	{abi.UserMAC, i64x3, i64, mac},
	{abi.UserSignSealed, i64x3, i64, signSealed},
	{abi.UserPublicKey, i64x2, i64, publicKey},
	{abi.UserSign, i64x2, i64, sign},
	{abi.UserReveal, i64, i64, reveal},
}

// timeNow implements time_now() → Unix seconds, not an offset.
func timeNow(r *run, stack []uint64) {
	r.callEnv(func() { stack[0] = api.EncodeI64(r.env.TimeNow()) })
}

// secretGet implements secret_get(name) → sealed value.
func secretGet(r *run, stack []uint64) {
	name := r.text(abi.UserSecretGet, stack[0])
	var value string
	r.callEnv(func() { value = r.env.SecretGet(name) })
	stack[0] = put(r, value)
}

// timeMillis implements time_millis() → Unix milliseconds, not an offset.
func timeMillis(r *run, stack []uint64) {
	r.callEnv(func() { stack[0] = api.EncodeI64(r.env.TimeMillis()) })
}

// clockOffset implements clock_offset() → seconds, not an offset of a block.
func clockOffset(r *run, stack []uint64) {
	r.callEnv(func() { stack[0] = api.EncodeI64(r.env.ClockOffset()) })
}

// random implements random(length) → text. The length is a number of bytes.
func random(r *run, stack []uint64) {
	var text string
	r.callEnv(func() { text = r.env.Random(int64(stack[0])) })
	stack[0] = put(r, text)
}

// body implements body() → sealed value.
func body(r *run, stack []uint64) {
	var value string
	r.callEnv(func() { value = r.env.Body() })
	stack[0] = put(r, value)
}

// bodyForm implements body_form() → list of pairs, or 0 if the body is not a form.
func bodyForm(r *run, stack []uint64) {
	var pairs []byte
	var ok bool
	r.callEnv(func() { pairs, ok = r.env.BodyForm() })
	stack[0] = 0
	if ok {
		stack[0] = put(r, pairs)
	}
}

// compose implements compose(template, composition) → text.
func compose(r *run, stack []uint64) {
	r.inTime(abi.UserCompose) // because hashing a large body may take a tenth of a second
	template, with := r.data(abi.UserCompose, stack[0]), r.data(abi.UserCompose, stack[1])
	var text string
	r.callEnv(func() { text = r.env.Compose(template, []byte(with)) })
	stack[0] = put(r, text)
}

// challenge implements challenge() → reply.
func challenge(r *run, stack []uint64) {
	var reply []byte
	r.callEnv(func() { reply = r.env.Challenge() })
	stack[0] = put(r, reply)
}

// exchanging implements a function (request) → reply that waits for a token endpoint. That may take seconds, so it releases
// the slot for another guest meanwhile.
func exchanging(function string, exchange func(abi.Env, []byte) []byte) func(r *run, stack []uint64) {
	return func(r *run, stack []uint64) {
		request := r.text(function, stack[0])
		var reply []byte
		r.withoutSlot(func() { r.callEnv(func() { reply = exchange(r.env, []byte(request)) }) })
		stack[0] = put(r, reply)
	}
}

// withoutSlot calls a function of env that may wait, and releases the slot meanwhile. Its time does not count.
func (r *run) withoutSlot(wait func()) {
	r.waiting = true
	began := time.Now()
	defer func() { r.waited += time.Since(began) }()
	r.module.runtime.slots.release()
	wait()
	if stop := r.module.runtime.slots.acquire(r.Context, r.module.limits.CallTime); stop != nil {
		r.abort(stop)
	}
	r.waiting = false
}

// A keyWaiter is an env whose methods that use a key may wait for a store of keys.
type keyWaiter interface {
	// Waits reports whether they may wait in this call.
	Waits() bool
	// PauseWith sets the function with which they call what waits. All else that they do needs the guest's slot and time.
	PauseWith(pause func(wait func()))
}

// callKeys calls a method of env that uses a key.
func (r *run) callKeys(method func()) {
	if w, ok := r.env.(keyWaiter); ok && w.Waits() {
		w.PauseWith(r.withoutSlot)
	}
	r.callEnv(method)
}

// cacheGet implements cache_get(key) → value, or 0 if there is none.
func cacheGet(r *run, stack []uint64) {
	key := r.text(abi.UserCacheGet, stack[0])
	var value string
	var ok bool
	r.callEnv(func() { value, ok = r.env.CacheGet(key) })
	stack[0] = 0
	if ok {
		stack[0] = put(r, value)
	}
}

// cacheSet implements cache_set(key, value, ttl). The ttl is in seconds, not an offset.
func cacheSet(r *run, stack []uint64) {
	key, value := r.text(abi.UserCacheSet, stack[0]), r.text(abi.UserCacheSet, stack[1])
	r.callEnv(func() { r.env.CacheSet(key, value, int64(stack[2])) })
}

// cacheDrop implements cache_drop(key) → 1 or 0, not an offset.
func cacheDrop(r *run, stack []uint64) {
	key := r.text(abi.UserCacheDrop, stack[0])
	again := false
	r.callEnv(func() { again = r.env.CacheDrop(key) })
	stack[0] = 0
	if again {
		stack[0] = 1
	}
}

// stateGet implements state_get(name) → sealed value, or 0 if there is none. It may wait for other calls that use the grant.
func stateGet(r *run, stack []uint64) {
	name := r.text(abi.UserStateGet, stack[0])
	var value string
	var ok bool
	r.withoutSlot(func() { r.callEnv(func() { value, ok = r.env.StateGet(name) }) })
	stack[0] = 0
	if ok {
		stack[0] = put(r, value)
	}
}

// jwtSign implements jwt_sign(request) → sealed value.
func jwtSign(r *run, stack []uint64) {
	r.inTime(abi.UserJWTSign) // because signing with a large key may take a tenth of a second
	request := r.text(abi.UserJWTSign, stack[0])
	var token string
	r.callKeys(func() { token = r.env.JWTSign([]byte(request)) })
	stack[0] = put(r, token)
}

// encode implements encode(format, bytes) → text or sealed value.
func encode(r *run, stack []uint64) {
	format, data := r.text(abi.UserEncode, stack[0]), r.data(abi.UserEncode, stack[1])
	var text string
	r.callEnv(func() { text = r.env.Encode(format, data) })
	stack[0] = put(r, text)
}

// decode implements decode(format, text) → bytes or sealed value.
func decode(r *run, stack []uint64) {
	format, text := r.text(abi.UserDecode, stack[0]), r.text(abi.UserDecode, stack[1])
	var bytes string
	r.callEnv(func() { bytes = r.env.Decode(format, text) })
	stack[0] = put(r, bytes)
}

// digest implements digest(algorithm, data) → bytes or sealed value. Data may be any bytes.
func digest(r *run, stack []uint64) {
	r.inTime(abi.UserDigest) // because hashing a large body may take a tenth of a second
	algorithm, data := r.text(abi.UserDigest, stack[0]), r.data(abi.UserDigest, stack[1])
	var sum string
	r.callEnv(func() { sum = r.env.Digest(algorithm, data) })
	stack[0] = put(r, sum)
}

// mac implements mac(algorithm, key, data) → sealed value. Key and data may be any bytes.
func mac(r *run, stack []uint64) {
	algorithm := r.text(abi.UserMAC, stack[0])
	key, data := r.data(abi.UserMAC, stack[1]), r.data(abi.UserMAC, stack[2])
	var value string
	r.callKeys(func() { value = r.env.MAC(algorithm, key, data) })
	stack[0] = put(r, value)
}

// signSealed implements sign_sealed(field, purpose, data) → sealed value. Data may be any bytes.
func signSealed(r *run, stack []uint64) {
	r.inTime(abi.UserSignSealed)
	field, purpose := r.text(abi.UserSignSealed, stack[0]), r.text(abi.UserSignSealed, stack[1])
	data := r.data(abi.UserSignSealed, stack[2])
	var signature string
	r.callKeys(func() { signature = r.env.SignSealed(field, purpose, data) })
	stack[0] = put(r, signature)
}

// publicKey implements public_key(field, form) → text.
func publicKey(r *run, stack []uint64) {
	field, form := r.text(abi.UserPublicKey, stack[0]), r.text(abi.UserPublicKey, stack[1])
	var text string
	r.callKeys(func() { text = r.env.PublicKey(field, form) })
	stack[0] = put(r, text)
}

// sign implements sign(field, data) → signature. Data may be any bytes.
func sign(r *run, stack []uint64) {
	r.inTime(abi.UserSign)
	field, data := r.text(abi.UserSign, stack[0]), r.data(abi.UserSign, stack[1])
	var signature []byte
	r.callKeys(func() { signature = r.env.Sign(field, data) })
	stack[0] = put(r, signature)
}

// reveal implements reveal(sealed value) → its bytes.
func reveal(r *run, stack []uint64) {
	value := r.text(abi.UserReveal, stack[0])
	var bytes []byte
	r.callEnv(func() { bytes = r.env.Reveal(value) })
	stack[0] = put(r, bytes)
}
