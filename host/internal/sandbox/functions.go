package sandbox

import (
	"context"
	"unicode/utf8"

	"github.com/tetratelabs/wazero/api"
)

// function is one that guests may import. do takes its parameters from the stack, and leaves its result there.
type function struct {
	name            string
	params, results []api.ValueType
	do              func(r *run, stack []uint64)
}

// The types that parameters and results have. In the tables, i64x2 reads as (i64, i64).
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

// kernelFunction makes the function known to wazero.
func (f function) kernelFunction() api.GoFunc {
	return func(ctx context.Context, stack []uint64) {
		r := ctx.(*run)
		r.asked = true
		f.do(r, stack)
	}
}

// guarded is a kernel function that reaches beyond the call's own memory.
func guarded(name string, do func(r *run, stack []uint64)) func(r *run, stack []uint64) {
	return func(r *run, stack []uint64) {
		r.proceed(name)
		do(r, stack)
	}
}

// hostFunction makes the function known to wazero as one of abi.ModuleUser: guarded, and counted.
func (f function) hostFunction() api.GoFunc {
	return func(ctx context.Context, stack []uint64) {
		r := ctx.(*run)
		r.proceed(f.name)
		r.hostCalls++
		if limit := r.module.runtime.limits.HostCalls; r.hostCalls > limit {
			r.fail(ErrLimit, "more than %d calls of host functions in a call", limit)
		}
		if r.hostCalls%16 == 0 { // because the clock takes longer than most of them
			r.inTime(f.name)
		}
		f.do(r, stack)
	}
}

// inTime ends the call when its time is over.
func (r *run) inTime(function string) {
	if r.took() > r.module.runtime.limits.CallTime {
		r.abort(stopped(context.DeadlineExceeded, "its time was over when it called "+function))
	}
}

// data copies the block at offset. Offset 0 is no bytes.
func (r *run) data(function string, offset uint64) string {
	block, err := r.arena.Block(offset)
	if err != nil {
		r.fail(ErrUse, "%s: %v", function, err)
	}
	r.spend(len(block))
	return string(block)
}

// spend takes fuel for bytes that the host copies or looks at, a unit each: what a host call costs otherwise is the same
// however long its texts are, and a guest may make thousands. A few are pending, since to take fuel costs more than they do.
func (r *run) spend(bytes int) {
	if r.pending += int64(bytes); r.pending > maxPending {
		r.chargePending()
	}
}

// maxPending is the fuel, in units, that a guest may owe while it runs.
const maxPending = 4096

// chargePending takes what the guest owes, and ends the call when it has less than that.
func (r *run) chargePending() {
	left := r.left()
	r.pending = 0
	r.guest.fuel.Set(uint64(left))
	if left < 0 {
		r.abort(r.outOfFuel())
	}
}

// text copies the block at offset, which has to be UTF-8.
func (r *run) text(function string, offset uint64) string {
	text := r.data(function, offset)
	if !utf8.ValidString(text) {
		r.fail(ErrUse, "%s: its text is not UTF-8", function)
	}
	return text
}
