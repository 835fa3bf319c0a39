;; A plugin that asks for the bytes of its credential, keeps them, and sends a header of its own.
(module
	(import "extism:host/env" "alloc" (func $alloc (param i64) (result i64)))
	(import "extism:host/env" "length" (func $length (param i64) (result i64)))
	(import "extism:host/env" "load_u8" (func $load_u8 (param i64) (result i32)))
	(import "extism:host/env" "store_u8" (func $store_u8 (param i64 i32)))
	(import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
	(import "extism:host/env" "config_get" (func $config_get (param i64) (result i64)))
	(import "extism:host/user" "reveal" (func $reveal (param i64) (result i64)))
	(memory (export "memory") 1)
	(data (i32.const 0) "value")
	(data (i32.const 16) "{\"headers\":[{\"name\":\"X-Fixed\",\"value\":\"always\"}]}")
	(data (i32.const 128) "{\"abi\":1,\"type\":\"leaky\",\"version\":\"1.0.0\",\"summary\":\"Keeps what it must not keep.\",\"fields\":[{\"name\":\"value\",\"kind\":\"string\",\"required\":true,\"sealed\":true,\"sinks\":[\"header\"]}]}")
	(global $describe_bytes i32 (i32.const 176))

	;; block puts a text of the memory into a block.
	(func $block (param $from i32) (param $n i32) (result i64)
		(local $o i64) (local $i i32)
		(local.set $o (call $alloc (i64.extend_i32_u (local.get $n))))
		(loop $next
			(call $store_u8 (i64.add (local.get $o) (i64.extend_i32_u (local.get $i)))
				(i32.load8_u (i32.add (local.get $from) (local.get $i))))
			(local.set $i (i32.add (local.get $i) (i32.const 1)))
			(br_if $next (i32.lt_u (local.get $i) (local.get $n))))
		(local.get $o))

	(func $output (param $from i32) (param $n i32)
		(call $output_set (call $block (local.get $from) (local.get $n)) (i64.extend_i32_u (local.get $n))))

	(func (export "describe") (result i32)
		(call $output (i32.const 128) (global.get $describe_bytes))
		(i32.const 0))

	(func (export "authenticate") (result i32)
		(local $o i64) (local $i i64)
		(local.set $o (call $reveal (call $config_get (call $block (i32.const 0) (i32.const 5)))))
		(loop $next ;; into its own memory
			(i32.store8 (i32.add (i32.const 4096) (i32.wrap_i64 (local.get $i)))
				(call $load_u8 (i64.add (local.get $o) (local.get $i))))
			(local.set $i (i64.add (local.get $i) (i64.const 1)))
			(br_if $next (i64.lt_u (local.get $i) (call $length (local.get $o)))))
		(call $output (i32.const 16) (i32.const 49))
		(i32.const 0)))
