package sandbox

import (
	"context"
	"unicode/utf8"

	"github.com/tetratelabs/wazero/api"
)

// function is a host function that guests may import. do reads its parameters from the stack and writes its result there.
type function struct {
	name            string
	params, results []api.ValueType
	do              implementation
}

type implementation = func(r *run, stack []uint64)

// Parameter and result types for the tables of functions.
var (
	none  []api.ValueType
	i32   = []api.ValueType{api.ValueTypeI32}
	i64   = []api.ValueType{api.ValueTypeI64}
	i64x2 = []api.ValueType{api.ValueTypeI64, api.ValueTypeI64}
	i64x3 = []api.ValueType{api.ValueTypeI64, api.ValueTypeI64, api.ValueTypeI64}
	i32x2 = []api.ValueType{api.ValueTypeI32, api.ValueTypeI32}
	store = []api.ValueType{api.ValueTypeI64, api.ValueTypeI32}
	copy3 = []api.ValueType{api.ValueTypeI64, api.ValueTypeI32, api.ValueTypeI32}
)

// kernelFunction returns f as a function for wazero. Its calls do not count as host calls.
func (f function) kernelFunction() api.GoFunc {
	return func(ctx context.Context, stack []uint64) {
		r := ctx.(*run)
		r.function, r.hostUsed = f.name, true
		f.do(r, stack)
	}
}

// guarded returns a kernel function that calls do after run.proceed, for functions that reach beyond the call's own
// memory.
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

// data returns a copy of the block at offset. Offset 0 is an empty text. Any other offset that is not of a block ends the
// call.
func (r *run) data(offset uint64) string {
	block, err := r.arena.Block(offset)
	if err != nil {
		r.fail(ErrUse, "%s: %v", r.function, err)
	}
	r.spend(len(block))
	return string(block)
}

// spend charges a unit of fuel for each byte that the host copies or examines. The other fuel of a host call does not
// depend on the length of its texts, and a guest may make thousands of calls. Small amounts are collected first,
// because charging costs more than they do.
func (r *run) spend(bytes int) {
	if r.pending += int64(bytes); r.pending > maxPending {
		r.chargePending()
	}
}

// maxPending is the largest amount of fuel, in units, that is collected before it is charged.
const maxPending = 4096

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
