package admission

import (
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

func BenchmarkAdmit(b *testing.B) {
	for name, wasm := range shipped(b) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(wasm)))
			b.ReportAllocs()
			for b.Loop() {
				testworld.Must(Admit(wasm, testLimits))(b)
			}
		})
	}
}

// BenchmarkMetering compares functions that only calculate with and without metering.
func BenchmarkMetering(b *testing.B) {
	for name, body := range map[string]string{
		"base64 of 300 bytes": `(local $i i32) (local $o i32) (local $v i32) (local.set $o (i32.const 1024))
			(loop $next
				(local.set $v (i32.or (i32.or (i32.shl (i32.load8_u (local.get $i)) (i32.const 16))
					(i32.shl (i32.load8_u offset=1 (local.get $i)) (i32.const 8))) (i32.load8_u offset=2 (local.get $i))))
				(i32.store8 (local.get $o) (i32.load8_u offset=512 (i32.shr_u (local.get $v) (i32.const 18))))
				(i32.store8 offset=1 (local.get $o) (i32.load8_u offset=512 (i32.and (i32.shr_u (local.get $v) (i32.const 12)) (i32.const 63))))
				(i32.store8 offset=2 (local.get $o) (i32.load8_u offset=512 (i32.and (i32.shr_u (local.get $v) (i32.const 6)) (i32.const 63))))
				(i32.store8 offset=3 (local.get $o) (i32.load8_u offset=512 (i32.and (local.get $v) (i32.const 63))))
				(local.set $o (i32.add (local.get $o) (i32.const 4)))
				(br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 3))) (i32.const 300))))`,
		"bytes, one by one": `(local $i i32)
			(loop $next
				(i32.store8 offset=1024 (local.get $i) (i32.load8_u (local.get $i)))
				(br_if $next (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (i32.const 300))))`,
		"calls of small functions": `(drop (call $fibonacci (i32.const 12)))`,
	} {
		wasm := assemble(b, `(module (memory 1)
			(func $fibonacci (param i32) (result i32)
				(if (result i32) (i32.lt_u (local.get 0) (i32.const 2)) (then (local.get 0))
					(else (i32.add (call $fibonacci (i32.sub (local.get 0) (i32.const 1))) (call $fibonacci (i32.sub (local.get 0) (i32.const 2)))))))
			(func (export "run") `+body+`))`)
		admitted := testworld.Must(admit(wasm, testLimits, open))(b)
		m := newMachine(b)
		for _, fuel := range []bool{false, true} {
			code, kind := wasm, "plain"
			if fuel {
				code, kind = admitted.Wasm, "metered"
			}
			b.Run(name+"/"+kind, func(b *testing.B) {
				instance := m.start(b, code)
				run := instance.ExportedFunction("run")
				for b.Loop() {
					if fuel {
						refuel(instance, 1<<40)
					}
					testworld.Check(b, run.CallWithStack(m.ctx, nil))
				}
			})
		}
	}
}
