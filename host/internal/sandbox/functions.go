package sandbox

import (
	"context"
	"encoding/binary"
	"unicode/utf8"

	"github.com/tetratelabs/wazero/api"

	"github.com/keywright/keywright/internal/admission"
	"github.com/keywright/keywright/internal/contract"
)

// function is a host function that guests may import. do reads its parameters from the stack and writes its result there.
type function struct {
	name string
	do   implementation
}

type implementation = func(r *run, stack []uint64)

// kernelFunction returns f as a function for wazero. Its calls do not count as host calls.
func (f function) kernelFunction() api.GoFunc {
	return func(ctx context.Context, stack []uint64) {
		r := ctx.(*run)
		r.function, r.hostUsed = f.name, true
		f.do(r, stack)
	}
}

// guarded returns do behind run.proceed, for kernel functions that reach beyond the call's own memory.
func guarded(do implementation) implementation {
	return func(r *run, stack []uint64) {
		r.proceed()
		do(r, stack)
	}
}

// hostFunction returns f as a function for wazero. It is guarded, and its calls count towards Limits.HostCalls.
func (f function) hostFunction() api.GoFunc {
	return func(ctx context.Context, stack []uint64) {
		r := ctx.(*run)
		r.function = f.name
		r.proceed()
		r.hostCalls++
		if limit := r.module.limits.HostCalls; r.hostCalls > limit {
			r.fail(ErrLimit, "more than %d calls of host functions in a call", limit)
		}
		if r.hostCalls%16 == 0 { // not at each, since reading the clock takes longer than most of them
			r.inTime()
		}
		f.do(r, stack)
	}
}

// inTime ends the call if it has taken more than CallTime.
func (r *run) inTime() {
	if r.elapsed() > r.module.limits.CallTime {
		why := stopped(context.DeadlineExceeded, "its time was over when it called "+r.function)
		why.Limit = LimitTime
		r.abort(why)
	}
}

// block returns the block at offset, not copied. Offset 0 is an empty text. Any other offset that is not of a block ends the call.
func (r *run) block(offset uint64) []byte {
	block, ok := r.arena.block(offset)
	if !ok {
		r.fail(ErrUse, "%s: not the offset of a memory block: %d", r.function, offset)
	}
	return block
}

// data returns a copy of the block at offset.
func (r *run) data(offset uint64) string {
	block := r.block(offset)
	r.spend(len(block))
	return string(block)
}

// spend charges a unit of fuel for each byte that the host copies or examines. The other fuel of a host call does not depend on the length
// of its texts, and a guest may make thousands of calls. Small amounts are collected first, because charging costs more than they do.
func (r *run) spend(bytes int) {
	const maxPending = 4096 // the largest amount of fuel, in units, that is collected before it is charged
	if r.pending += int64(bytes); r.pending > maxPending {
		r.chargePending()
	}
}

// chargePending charges the pending fuel, and ends the call if the guest has less than that.
func (r *run) chargePending() {
	remaining := r.fuelLeft()
	r.pending = 0
	r.guest.fuel.Set(uint64(remaining))
	if remaining < 0 {
		r.abort(r.outOfFuel())
	}
}

// text returns a copy of the block at offset. It ends the call if that is not UTF-8.
func (r *run) text(offset uint64) string {
	text := r.data(offset)
	if !utf8.ValidString(text) {
		r.fail(ErrUse, "%s: its text is not UTF-8", r.function)
	}
	return text
}

// envFunctions are the functions of the Extism kernel. An offset out of bounds ends the call, while Extism itself would
// read or write what is there: such a guest is broken, and must not authenticate anything.
var envFunctions = []function{
	{contract.EnvAlloc, alloc},
	{contract.EnvFree, func(*run, []uint64) {}}, // blocks live as long as the call
	{contract.EnvLength, length},
	{contract.EnvLengthUnsafe, length},
	{contract.EnvLoadU8, func(r *run, stack []uint64) { stack[0] = uint64(r.bytesAt(stack[0], 1)[0]) }},
	{contract.EnvLoadU64, func(r *run, stack []uint64) { stack[0] = binary.LittleEndian.Uint64(r.bytesAt(stack[0], 8)) }},
	{contract.EnvStoreU8, func(r *run, stack []uint64) { r.bytesAt(stack[0], 1)[0] = byte(stack[1]) }},
	{contract.EnvStoreU64, func(r *run, stack []uint64) { binary.LittleEndian.PutUint64(r.bytesAt(stack[0], 8), stack[1]) }},

	{contract.EnvInputLength, guarded(func(r *run, stack []uint64) { stack[0] = r.needInput().length })},
	{contract.EnvInputOffset, guarded(func(r *run, stack []uint64) { stack[0] = r.needInput().offset })},
	{contract.EnvInputLoadU8, guarded(func(r *run, stack []uint64) { stack[0] = uint64(r.inputAt(stack[0], 1)[0]) })},
	{contract.EnvInputLoadU64, guarded(func(r *run, stack []uint64) { stack[0] = binary.LittleEndian.Uint64(r.inputAt(stack[0], 8)) })},
	{contract.EnvOutputSet, guarded(outputSet)},
	{contract.EnvErrorSet, guarded(errorSet)},

	// An empty value is a block of no bytes. To go-pdk that is no value; a guest that distinguishes them must look at the offset.
	{contract.EnvConfigGet, guarded(optional(busy, contract.Env.ConfigGet))},
	{contract.EnvVarGet, guarded(varGet)},
	{contract.EnvVarSet, guarded(varSet)},

	{contract.EnvGetLogLevel, func(_ *run, stack []uint64) { stack[0] = uint64(contract.LevelInfo) }}, // the lowest at which PDKs should log
	{contract.EnvLogTrace, logAt(contract.LevelTrace)},
	{contract.EnvLogDebug, logAt(contract.LevelDebug)},
	{contract.EnvLogInfo, logAt(contract.LevelInfo)},
	{contract.EnvLogWarn, logAt(contract.LevelWarn)},
	{contract.EnvLogError, logAt(contract.LevelError)},
}

// alloc implements alloc(length) → offset of a block, or 0 for a length of 0, as Extism does: only the host makes empty blocks.
func alloc(r *run, stack []uint64) {
	if stack[0] != 0 {
		stack[0] = r.alloc(stack[0])
	}
}

// alloc allocates a block of n bytes and returns its offset. It ends the call if there is no room.
func (r *run) alloc(n uint64) uint64 {
	offset, err := r.arena.alloc(n)
	if err != nil {
		r.abort(&Error{Kind: ErrLimit, Limit: LimitMemory, Detail: err.Error()})
	}
	return offset
}

// put copies text into a new block and returns its offset.
func put[Text []byte | string](r *run, text Text) uint64 {
	r.spend(len(text))
	offset := r.alloc(uint64(len(text)))
	copy(r.arena.bytes[offset:], text)
	return offset
}

// length implements length(offset) → bytes. It returns 0 without a block, because PDKs ask so before they use an offset.
func length(r *run, stack []uint64) {
	block, _ := r.arena.block(stack[0])
	stack[0] = uint64(len(block))
}

// bytesAt returns n bytes of the memory blocks. It ends the call if they are out of bounds.
func (r *run) bytesAt(offset, n uint64) []byte {
	bytes := r.arena.bytesAt(offset, n)
	if bytes == nil {
		r.fail(ErrUse, "%s: offset %d is outside the memory blocks of the call", r.function, offset)
	}
	return bytes
}

// needInput returns the place of the input, which is at 0 if there is none. It asks env for the input when the guest first uses it.
func (r *run) needInput() input {
	if r.input.loaded {
		return r.input
	}
	r.input.loaded = true
	if document := result(r, busy, r.env.Input); len(document) > 0 {
		r.input.offset = put(r, document)
		r.input.length = uint64(len(document))
	}
	return r.input
}

// inputAt returns n bytes of the input. It ends the call if they are out of bounds.
func (r *run) inputAt(position, n uint64) []byte {
	in := r.needInput()
	if position >= in.length || in.length-position < n {
		r.fail(ErrUse, "%s: position %d is outside an input of %d bytes", r.function, position, in.length)
	}
	return r.arena.bytesAt(in.offset+position, n)
}

// outputSet implements output_set(offset, length), with any bytes of the memory blocks. The last call counts.
func outputSet(r *run, stack []uint64) {
	if limit := r.module.limits.OutputBytes; stack[1] > uint64(limit) {
		r.fail(ErrLimit, "an output of %d bytes, %d are allowed", stack[1], limit)
	}
	bytes := r.arena.bytesAt(stack[0], stack[1])
	if bytes == nil && stack[1] > 0 {
		r.fail(ErrUse, "%s: outside the memory blocks of the call: %d bytes at offset %d", r.function, stack[1], stack[0])
	}
	r.spend(len(bytes))
	if !utf8.Valid(bytes) {
		r.fail(ErrUse, "%s: the output is not UTF-8", r.function)
	}
	r.result.Output = append([]byte(nil), bytes...)
	r.result.OutputSet = true
}

// errorSet implements error_set(offset). Offset 0 removes the message.
func errorSet(r *run, stack []uint64) {
	block, limit := r.block(stack[0]), r.module.limits.OutputBytes
	if len(block) > limit {
		r.fail(ErrLimit, "an error message of %d bytes, %d are allowed", len(block), limit)
	}
	r.result.Message = r.text(stack[0])
}

// vars holds the variables of a call. They are dropped at its end, so that a guest can keep nothing in them.
type vars struct {
	values map[string]string
	bytes  int
}

const (
	// maxVarBytes bounds the names and values of all variables of a call, with varOverhead for each variable.
	maxVarBytes = 1 << 20
	varOverhead = 64
)

// varGet implements var_get(name) → value, or 0 if there is none.
func varGet(r *run, stack []uint64) {
	value, ok := r.vars.values[r.text(stack[0])]
	stack[0] = 0
	if ok {
		stack[0] = put(r, value)
	}
}

// varSet implements var_set(name, value). Value 0 removes the variable.
func varSet(r *run, stack []uint64) {
	name := r.text(stack[0])
	if old, ok := r.vars.values[name]; ok {
		r.vars.bytes -= len(name) + len(old) + varOverhead
		delete(r.vars.values, name)
	}
	if stack[1] == 0 {
		return
	}
	value := r.data(stack[1])
	if r.vars.bytes += len(name) + len(value) + varOverhead; r.vars.bytes > maxVarBytes {
		r.fail(ErrLimit, "more than %d bytes of variables in a call", maxVarBytes)
	}
	if r.vars.values == nil {
		r.vars.values = map[string]string{}
	}
	r.vars.values[name] = value
}

// maxLineBytes is the maximum length of a log line. The rest of a longer one is dropped.
const maxLineBytes = 8 << 10

// logAt returns the implementation of log_trace(text), log_debug(text) and so on.
func logAt(level contract.Level) implementation {
	return func(r *run, stack []uint64) { r.log(level, admission.Cut(r.text(stack[0]), maxLineBytes)) }
}
