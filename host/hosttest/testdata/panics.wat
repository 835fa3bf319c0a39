;; A plugin that logs a text and traps, as a panic does.
(module
	(import "extism:host/env" "output_set" (func $output_set (param i64 i64)))
	(import "extism:host/env" "log_error" (func $log_error (param i64)))
	(import "extism:host/user" "block_new" (func $block_new (param i32 i32) (result i64)))
	(memory (export "memory") 1)
	(data (i32.const 0) "panic: no such key")
	(data (i32.const 128) "{\"abi\":1,\"type\":\"panics\",\"version\":\"1.0.0\",\"summary\":\"Panics.\",\"fields\":[{\"name\":\"value\",\"kind\":\"string\",\"required\":true,\"sealed\":true,\"sinks\":[\"header\"]}]}")

	(func (export "describe") (result i32)
		(call $output_set (call $block_new (i32.const 128) (i32.const 156)) (i64.const 156))
		(i32.const 0))

	(func (export "authenticate") (result i32)
		(call $log_error (call $block_new (i32.const 0) (i32.const 18)))
		(unreachable)))
