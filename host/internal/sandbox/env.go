package sandbox

import (
	"unicode/utf8"

	"github.com/keywright/keywright/abi"
)

// envFunctions are the functions of the Extism kernel. An offset out of bounds ends the call where Extism itself
// would read or write whatever is there: a guest that does this has gone wrong, and may not authenticate anything.
var envFunctions = []function{
	{abi.EnvAlloc, i64, i64, alloc},
	{abi.EnvFree, i64, none, free},
	{abi.EnvLength, i64, i64, length},
	{abi.EnvLengthUnsafe, i64, i64, length},
	{abi.EnvLoadU8, i64, i32, loadU8},
	{abi.EnvLoadU64, i64, i64, loadU64},
	{abi.EnvStoreU8, store, none, storeU8},
	{abi.EnvStoreU64, i64x2, none, storeU64},

	{abi.EnvInputLength, none, i64, guarded(abi.EnvInputLength, inputLength)},
	{abi.EnvInputOffset, none, i64, guarded(abi.EnvInputOffset, inputOffset)},
	{abi.EnvInputLoadU8, i64, i32, guarded(abi.EnvInputLoadU8, inputLoadU8)},
	{abi.EnvInputLoadU64, i64, i64, guarded(abi.EnvInputLoadU64, inputLoadU64)},
	{abi.EnvOutputSet, i64x2, none, guarded(abi.EnvOutputSet, outputSet)},
	{abi.EnvErrorSet, i64, none, guarded(abi.EnvErrorSet, errorSet)},

	{abi.EnvConfigGet, i64, i64, guarded(abi.EnvConfigGet, configGet)},
	{abi.EnvVarGet, i64, i64, guarded(abi.EnvVarGet, varGet)},
	{abi.EnvVarSet, i64x2, none, guarded(abi.EnvVarSet, varSet)},

	{abi.EnvGetLogLevel, none, i32, getLogLevel},
	{abi.EnvLogTrace, i64, none, logAt(abi.EnvLogTrace, abi.LevelTrace)},
	{abi.EnvLogDebug, i64, none, logAt(abi.EnvLogDebug, abi.LevelDebug)},
	{abi.EnvLogInfo, i64, none, logAt(abi.EnvLogInfo, abi.LevelInfo)},
	{abi.EnvLogWarn, i64, none, logAt(abi.EnvLogWarn, abi.LevelWarn)},
	{abi.EnvLogError, i64, none, logAt(abi.EnvLogError, abi.LevelError)},
}

// alloc: (length) → offset. No bytes are offset 0, as in Extism; only the host makes empty blocks.
func alloc(r *run, stack []uint64) {
	if stack[0] == 0 {
		return
	}
	offset, err := r.arena.Alloc(stack[0])
	r.check(err)
	stack[0] = offset
}

// free: (offset). Blocks live as long as the call; a guest that frees may go on as if it had been done.
func free(*run, []uint64) {}

// length: (offset) → bytes, and 0 for what is no block.
func length(r *run, stack []uint64) { stack[0] = r.arena.Length(stack[0]) }

// loadU8: (offset) → byte.
func loadU8(r *run, stack []uint64) {
	v, ok := r.arena.Load8(stack[0])
	r.inBounds(ok, abi.EnvLoadU8, stack[0])
	stack[0] = uint64(v)
}

// loadU64: (offset) → eight bytes, little-endian.
func loadU64(r *run, stack []uint64) {
	v, ok := r.arena.Load64(stack[0])
	r.inBounds(ok, abi.EnvLoadU64, stack[0])
	stack[0] = v
}

// storeU8: (offset, byte).
func storeU8(r *run, stack []uint64) {
	r.inBounds(r.arena.Store8(stack[0], byte(stack[1])), abi.EnvStoreU8, stack[0])
}

// storeU64: (offset, eight bytes, little-endian).
func storeU64(r *run, stack []uint64) {
	r.inBounds(r.arena.Store64(stack[0], stack[1]), abi.EnvStoreU64, stack[0])
}

func (r *run) inBounds(ok bool, function string, offset uint64) {
	if !ok {
		r.fail(ErrUse, "%s: offset %d is outside the memory blocks of the call", function, offset)
	}
}

// needInput asks env for the input when the guest first shows an interest.
func (r *run) needInput() {
	if r.input.asked {
		return
	}
	r.input.asked = true
	var document []byte
	r.ask(func() { document = r.env.Input() })
	if len(document) > 0 {
		r.input.offset = put(r, document)
		r.input.length = uint64(len(document))
	}
}

// inputLength: () → bytes.
func inputLength(r *run, stack []uint64) {
	r.needInput()
	stack[0] = r.input.length
}

// inputOffset: () → offset of the block that holds the input, 0 when there is none.
func inputOffset(r *run, stack []uint64) {
	r.needInput()
	stack[0] = r.input.offset
}

// inputLoadU8: (position in the input) → byte.
func inputLoadU8(r *run, stack []uint64) {
	stack[0] = uint64(r.inputAt(abi.EnvInputLoadU8, stack[0], 1)[0])
}

// inputLoadU64: (position in the input) → eight bytes, little-endian.
func inputLoadU64(r *run, stack []uint64) {
	r.inputAt(abi.EnvInputLoadU64, stack[0], 8)
	stack[0], _ = r.arena.Load64(r.input.offset + stack[0])
}

func (r *run) inputAt(function string, position, n uint64) []byte {
	r.needInput()
	if position >= r.input.length || r.input.length-position < n {
		r.fail(ErrUse, "%s: position %d is outside an input of %d bytes", function, position, r.input.length)
	}
	bytes, err := r.arena.Range(r.input.offset+position, n)
	r.check(err)
	return bytes
}

// outputSet: (offset, length). The bytes may be anywhere in the memory blocks; the last call counts.
func outputSet(r *run, stack []uint64) {
	if limit := r.module.runtime.limits.OutputBytes; stack[1] > uint64(limit) {
		r.fail(ErrLimit, "an output of %d bytes, %d are allowed", stack[1], limit)
	}
	bytes, err := r.arena.Range(stack[0], stack[1])
	if err != nil {
		r.fail(ErrUse, "%s: %v", abi.EnvOutputSet, err)
	}
	r.spend(len(bytes))
	if !utf8.Valid(bytes) {
		r.fail(ErrUse, "%s: the output is not UTF-8", abi.EnvOutputSet)
	}
	r.result.Output = append([]byte(nil), bytes...)
	r.result.OutputSet = true
}

// errorSet: (offset). Offset 0 takes the message back.
func errorSet(r *run, stack []uint64) {
	if limit := r.module.runtime.limits.OutputBytes; r.arena.Length(stack[0]) > uint64(limit) {
		r.fail(ErrLimit, "an error message of %d bytes, %d are allowed", r.arena.Length(stack[0]), limit)
	}
	r.result.Message = r.text(abi.EnvErrorSet, stack[0])
}

// configGet: (name) → value, or 0 when there is none. A value that is there and empty is a block of no bytes; go-pdk
// takes that for none, so that whoever wants to know compares the offset itself.
func configGet(r *run, stack []uint64) {
	name := r.text(abi.EnvConfigGet, stack[0])
	var value string
	var ok bool
	r.ask(func() { value, ok = r.env.ConfigGet(name) })
	stack[0] = 0
	if ok {
		stack[0] = put(r, value)
	}
}

// vars live for one call, and are in no way a means to keep something.
type vars struct {
	values map[string]string
	bytes  int
}

const (
	maxVarBytes = 1 << 20 // names and values of a call
	varOverhead = 64      // what a name costs apart from its bytes
)

// varGet: (name) → value, or 0 when there is none.
func varGet(r *run, stack []uint64) {
	value, ok := r.vars.values[r.text(abi.EnvVarGet, stack[0])]
	stack[0] = 0
	if ok {
		stack[0] = put(r, value)
	}
}

// varSet: (name, value). Value 0 removes the variable.
func varSet(r *run, stack []uint64) {
	name := r.text(abi.EnvVarSet, stack[0])
	if old, ok := r.vars.values[name]; ok {
		r.vars.bytes -= len(name) + len(old) + varOverhead
		delete(r.vars.values, name)
	}
	if stack[1] == 0 {
		return
	}
	value := r.data(abi.EnvVarSet, stack[1])
	if r.vars.bytes += len(name) + len(value) + varOverhead; r.vars.bytes > maxVarBytes {
		r.fail(ErrLimit, "more than %d bytes of variables in a call", maxVarBytes)
	}
	if r.vars.values == nil {
		r.vars.values = map[string]string{}
	}
	r.vars.values[name] = value
}

// getLogLevel: () → the lowest level that PDKs should bother the host with.
func getLogLevel(_ *run, stack []uint64) { stack[0] = uint64(abi.LevelInfo) }

// maxLineBytes is how much of a log line is kept.
const maxLineBytes = 8 << 10

// logAt: (text).
func logAt(name string, level abi.Level) func(r *run, stack []uint64) {
	return func(r *run, stack []uint64) { r.log(level, cutTo(r.text(name, stack[0]), maxLineBytes)) }
}
