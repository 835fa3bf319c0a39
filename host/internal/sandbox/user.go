package sandbox

import (
	"time"

	"github.com/tetratelabs/wazero/api"

	"github.com/keywright/keywright/internal/contract"
)

// blockFunctions copy between memory blocks and the guest's own memory: the Extism kernel needs a call for every eight bytes. They reach
// nothing else, so they are not counted, like those of the kernel.
var blockFunctions = []function{
	{contract.UserBlockNew, func(r *run, stack []uint64) { stack[0] = put(r, r.own(stack[0], stack[1])) }}, // even an empty one
	{contract.UserBlockRead, blockRead},
}

// blockRead implements block_read(block, address, room) → length of the block. It copies at most room bytes of the block.
func blockRead(r *run, stack []uint64) {
	block := r.block(stack[0])
	r.spend(copy(r.own(stack[1], stack[2]), block))
	stack[0] = uint64(len(block))
}

// own returns length bytes at address of the guest's own memory, not copied. It ends the call if they are out of bounds.
func (r *run) own(address, length uint64) []byte {
	from, n := uint64(uint32(address)), uint64(uint32(length))
	if from+n > uint64(len(r.memory.bytes)) {
		r.fail(ErrUse, "%s: %d bytes at address %d are outside the guest's memory", r.function, n, from)
	}
	return r.memory.bytes[from : from+n]
}

// userFunctions are Keywright's host functions. Package abi describes them. A parameter of offset 0 is an empty text. A result is
// always a block, even an empty one, except where it may be 0.
var userFunctions = []function{
	{contract.UserTimeNow, number(contract.Env.TimeNow)},
	{contract.UserTimeMillis, number(contract.Env.TimeMillis)},
	{contract.UserClockOffset, number(contract.Env.ClockOffset)},
	{contract.UserRandom, random},
	{contract.UserBody, nullary(contract.Env.Body)},
	{contract.UserBodyForm, func(r *run, stack []uint64) { stack[0] = putOptional(r, busy, r.env.BodyForm) }},
	{contract.UserChallenge, nullary(contract.Env.Challenge)},
	{contract.UserCompose, timed(compose)},
	{contract.UserSecretGet, unary(busy, contract.Env.SecretGet)},
	{contract.UserTokenRequest, unary(waits, contract.Env.TokenRequest)},
	{contract.UserExchange, unary(waits, contract.Env.Exchange)},
	{contract.UserCacheGet, optional(busy, contract.Env.CacheGet)},
	{contract.UserCacheSet, cacheSet},
	{contract.UserCacheDrop, cacheDrop},
	{contract.UserCounter, counter},
	{contract.UserStateGet, optional(waits, contract.Env.StateGet)}, // which may wait for other calls that use the grant
	{contract.UserJWTSign, timed(unary(usesKey, contract.Env.JWTSign))},
	{contract.UserJWSSign, timed(unary(usesKey, contract.Env.JWSSign))},
	{contract.UserEncode, dual(busy, (*run).data, contract.Env.Encode)},
	{contract.UserDecode, dual(busy, (*run).text, contract.Env.Decode)},
	{contract.UserDigest, timed(dual(busy, (*run).data, contract.Env.Digest))},
	{contract.UserMAC, ternary((*run).data, contract.Env.MAC)},
	{contract.UserSignSealed, timed(ternary((*run).text, contract.Env.SignSealed))},
	{contract.UserPublicKey, dual(usesKey, (*run).text, contract.Env.PublicKey)},
	{contract.UserSign, timed(dual(usesKey, (*run).data, contract.Env.Sign))},
	{contract.UserReveal, unary(busy, contract.Env.Reveal)},
}

// texts are the types of texts and documents in methods of [contract.Env].
type texts interface{ string | []byte }

// number returns the implementation of a function () → number, not an offset.
func number(method func(contract.Env) int64) implementation {
	return func(r *run, stack []uint64) {
		stack[0] = api.EncodeI64(result(r, busy, func() int64 { return method(r.env) }))
	}
}

// nullary returns the implementation of a function () → block.
func nullary[Out texts](method func(contract.Env) Out) implementation {
	return func(r *run, stack []uint64) {
		stack[0] = put(r, result(r, busy, func() Out { return method(r.env) }))
	}
}

// unary returns the implementation of a function (text) → block.
func unary[In, Out texts](w way, method func(contract.Env, In) Out) implementation {
	return func(r *run, stack []uint64) {
		in := In(r.text(stack[0]))
		stack[0] = put(r, result(r, w, func() Out { return method(r.env, in) }))
	}
}

// optional returns the implementation of a function (text) → block, or 0 if there is none.
func optional(w way, method func(contract.Env, string) (string, bool)) implementation {
	return func(r *run, stack []uint64) {
		name := r.text(stack[0])
		stack[0] = putOptional(r, w, func() (string, bool) { return method(r.env, name) })
	}
}

// putOptional returns the block of a method's result, or 0 if there is none.
func putOptional[Out texts](r *run, w way, method func() (Out, bool)) (offset uint64) {
	var value Out
	var ok bool
	r.callEnv(w, func() { value, ok = method() })
	if ok {
		offset = put(r, value)
	}
	return offset
}

// dual returns the implementation of a function (text, second) → block. read reads the second.
func dual[Out texts](w way, read func(*run, uint64) string, method func(_ contract.Env, first, second string) Out) implementation {
	return func(r *run, stack []uint64) {
		first, second := r.text(stack[0]), read(r, stack[1])
		stack[0] = put(r, result(r, w, func() Out { return method(r.env, first, second) }))
	}
}

// ternary returns the implementation of a function (text, second, any bytes) → block that uses a key. read reads the second.
func ternary(read func(*run, uint64) string, method func(_ contract.Env, first, second, third string) string) implementation {
	return func(r *run, stack []uint64) {
		first, second, third := r.text(stack[0]), read(r, stack[1]), r.data(stack[2])
		stack[0] = put(r, result(r, usesKey, func() string { return method(r.env, first, second, third) }))
	}
}

// timed returns an implementation that ends the call first if its time is over, because what it does may take a tenth of a second:
// signing with a large key, or hashing a large body.
func timed(do implementation) implementation {
	return func(r *run, stack []uint64) {
		r.inTime()
		do(r, stack)
	}
}

// random implements random(length) → text. The length is a number of bytes.
func random(r *run, stack []uint64) {
	stack[0] = put(r, result(r, busy, func() string { return r.env.Random(int64(stack[0])) }))
}

// counter implements counter(floor) → number, neither of them an offset.
func counter(r *run, stack []uint64) {
	stack[0] = api.EncodeI64(result(r, busy, func() int64 { return r.env.Counter(int64(stack[0])) }))
}

// compose implements compose(template, composition) → text.
func compose(r *run, stack []uint64) {
	template, with := r.data(stack[0]), r.data(stack[1])
	stack[0] = put(r, result(r, busy, func() string { return r.env.Compose(template, []byte(with)) }))
}

// cacheSet implements cache_set(key, value, ttl). The ttl is in seconds, not an offset.
func cacheSet(r *run, stack []uint64) {
	key, value := r.text(stack[0]), r.text(stack[1])
	r.callEnv(busy, func() { r.env.CacheSet(key, value, int64(stack[2])) })
}

// cacheDrop implements cache_drop(key) → 1 or 0, not an offset.
func cacheDrop(r *run, stack []uint64) {
	key := r.text(stack[0])
	stack[0] = 0
	if result(r, busy, func() bool { return r.env.CacheDrop(key) }) {
		stack[0] = 1
	}
}

type way int

const (
	// busy marks a method that does not wait.
	busy way = iota
	// usesKey marks a method that uses a key, and may wait for a store of keys.
	usesKey
	// waits marks a method that may wait for seconds, as for a token endpoint. It releases the slot for another guest meanwhile.
	waits
)

// A keyWaiter is an env whose methods that use a key may wait for a store of keys.
type keyWaiter interface {
	// Waits reports whether they may wait in this call.
	Waits() bool
	// PauseWith sets the function with which they call what waits. All else that they do needs the guest's slot and time.
	PauseWith(pause func(wait func()))
}

// callEnv calls a method of env. If it panics, inEnv stays set, which shows that env ended the call.
func (r *run) callEnv(w way, method func()) {
	if w == usesKey {
		if k, ok := r.env.(keyWaiter); ok && k.Waits() {
			k.PauseWith(r.withoutSlot)
		}
	}
	call := func() {
		r.inEnv = true
		method()
		r.inEnv = false
	}
	if w == waits {
		r.withoutSlot(call)
		return
	}
	call()
}

func result[T any](r *run, w way, method func() T) (out T) {
	r.callEnv(w, func() { out = method() })
	return out
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
