package sandbox_test

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/internal/contract"
)

// calls has the calls that the guest of FuzzHostFunctions may make. Their arguments are three numbers $x, $y and $z. $x
// gets the result.
var calls = []string{
	`(local.set $x (call $alloc (local.get $x)))`,
	`(call $free (local.get $x))`,
	`(local.set $x (call $length (local.get $x)))`,
	`(local.set $x (call $length_unsafe (local.get $x)))`,
	`(local.set $x (i64.extend_i32_u (call $load_u8 (local.get $x))))`,
	`(local.set $x (call $load_u64 (local.get $x)))`,
	`(call $store_u8 (local.get $x) (i32.wrap_i64 (local.get $y)))`,
	`(call $store_u64 (local.get $x) (local.get $y))`,
	`(local.set $x (call $block_new (i32.wrap_i64 (local.get $x)) (i32.wrap_i64 (local.get $y))))`,
	`(local.set $x (call $block_read (local.get $x) (i32.wrap_i64 (local.get $y)) (i32.wrap_i64 (local.get $z))))`,
	`(local.set $x (call $input_offset))`,
	`(local.set $x (i64.extend_i32_u (call $input_load_u8 (local.get $x))))`,
	`(local.set $x (call $input_load_u64 (local.get $x)))`,
	`(call $output_set (local.get $x) (local.get $y))`,
	`(call $error_set (local.get $x))`,
	`(local.set $x (call $config_get (local.get $x)))`,
	`(local.set $x (call $var_get (local.get $x)))`,
	`(call $var_set (local.get $x) (local.get $y))`,
	`(call $log_info (local.get $x))`,
	`(local.set $x (call $secret_get (local.get $x)))`,
	`(local.set $x (call $token_request (local.get $x)))`,
	`(local.set $x (call $cache_get (local.get $x)))`,
	`(call $cache_set (local.get $x) (local.get $y) (local.get $z))`,
	`(local.set $x (call $jwt_sign (local.get $x)))`,
	`(local.set $x (call $jws_sign (local.get $x)))`,
	`(local.set $x (call $counter (local.get $x)))`,
	`(local.set $x (call $encode (local.get $x) (local.get $y)))`,
	`(local.set $x (call $mac (local.get $x) (local.get $y) (local.get $z)))`,
	`(local.set $x (call $sign (local.get $x) (local.get $y)))`,
	`(local.set $x (call $reveal (local.get $x)))`,
}

// puppet returns the text of a guest that runs its input as a program. A step has three 8-byte numbers. The lowest byte
// of the first is an index into calls, and the rest of it is added to the last result. That is $x; the other two are $y
// and $z.
func puppet() string {
	var blocks, cases strings.Builder
	for _, call := range calls {
		blocks.WriteString("(block ")
		cases.WriteString(") " + call + " (br $step)\n")
	}
	return plugin(`
		(local $at i64) (local $op i32) (local $x i64) (local $y i64) (local $z i64)
		(loop $step
			(if (i64.gt_u (i64.add (local.get $at) (i64.const 24)) (call $input_length)) (then (return (i32.const 0))))
			(local.set $op (i32.and (i32.wrap_i64 (call $input_load_u64 (local.get $at))) (i32.const 0xff)))
			(local.set $x (i64.add (local.get $x)
				(i64.shr_s (call $input_load_u64 (local.get $at)) (i64.const 8))))
			(local.set $y (call $input_load_u64 (i64.add (local.get $at) (i64.const 8))))
			(local.set $z (call $input_load_u64 (i64.add (local.get $at) (i64.const 16))))
			(local.set $at (i64.add (local.get $at) (i64.const 24)))
			` + blocks.String() + `(block (br_table ` + targets(len(calls)) + ` (local.get $op)))
			` + cases.String() + `)
		i32.const 0`)
}

func targets(n int) string {
	var list strings.Builder
	for i := range n {
		list.WriteString(" " + string(rune('0'+(i+1)/10)) + string(rune('0'+(i+1)%10)))
	}
	return list.String() + " 0"
}

// Whatever numbers a guest passes to host functions, the call ends well or with ErrUse or ErrLimit, and the host does
// not crash (threats.md 9).
func FuzzHostFunctions(f *testing.F) {
	step := func(op byte, x int64, y, z uint64) []byte {
		program := binary.LittleEndian.AppendUint64(nil, uint64(x)<<8|uint64(op))
		program = binary.LittleEndian.AppendUint64(program, y)
		return binary.LittleEndian.AppendUint64(program, z)
	}
	for op := range len(calls) {
		for _, n := range []uint64{0, 1, 15, 16, 17, 4096, math.MaxUint32, math.MaxInt64, math.MaxUint64 - 7, math.MaxUint64} {
			f.Add(append(step(0, 16, 0, 0), step(byte(op), int64(n), n, n)...))
		}
	}
	m := load(f, puppet())
	f.Fuzz(func(t *testing.T, program []byte) {
		program = program[:min(len(program), 8<<10)] // longer ones find nothing that shorter ones do not
		e := &env{input: string(program), config: map[string]string{"": ""}}
		_, err := m.Call(context.Background(), contract.ExportAuthenticate, e)
		if err != nil && !errors.Is(err, sandbox.ErrUse) && !errors.Is(err, sandbox.ErrLimit) {
			t.Errorf("error %v", err)
		}
	})
}
