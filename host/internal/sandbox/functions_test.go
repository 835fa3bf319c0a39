package sandbox_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host/internal/sandbox"
	"github.com/keywright/keywright/internal/contract"
)

// abcd is a part of a guest with functions $a to $d, each of which returns a block with a text. That of $d is not UTF-8.
const abcd = `
	(data (i32.const 0) "aabbbcccc\ff")
	(func $a (result i64) (call $str (i32.const 0) (i32.const 2)))
	(func $b (result i64) (call $str (i32.const 2) (i32.const 3)))
	(func $c (result i64) (call $str (i32.const 5) (i32.const 4)))
	(func $d (result i64) (call $str (i32.const 9) (i32.const 1)))
`

func TestHostFunctions(t *testing.T) {
	for name, c := range map[string]struct {
		body   string // leaves the offset of a block on the stack
		asked  string
		output string
	}{
		"config_get":    {`(call $config_get (call $a))`, `ConfigGet["aa"]`, "value"},
		"secret_get":    {`(call $secret_get (call $a))`, `SecretGet["aa"]`, "sealed aa"},
		"token_request": {`(call $token_request (call $c))`, `TokenRequest["cccc"]`, "reply"},
		"exchange":      {`(call $exchange (call $c))`, `Exchange["cccc"]`, "answers"},
		"random":        {`(call $random (i64.const -7))`, `Random["-7"]`, "random"},
		"body":          {`(call $body)`, `Body[]`, "sealed body"},
		"body_form":     {`(call $body_form)`, `BodyForm[]`, "form"},
		"compose":       {`(call $compose (call $d) (call $b))`, `Compose["\xff" "bbb"]`, "composed"},
		"challenge":     {`(call $challenge)`, `Challenge[]`, "challenge"},
		"cache_drop":    {`(drop (call $cache_drop (call $a))) (call $a)`, `CacheDrop["aa"]`, "aa"},
		"state_get":     {`(call $state_get (call $a))`, `StateGet["aa"]`, "state"},
		"decode":        {`(call $decode (call $a) (call $b))`, `Decode["aa" "bbb"]`, "decoded"},
		"digest":        {`(call $digest (call $a) (call $d))`, `Digest["aa" "\xff"]`, "digest"},
		"sign_sealed":   {`(call $sign_sealed (call $a) (call $b) (call $d))`, `SignSealed["aa" "bbb" "\xff"]`, "sealed signature"},
		"public_key":    {`(call $public_key (call $a) (call $b))`, `PublicKey["aa" "bbb"]`, "public"},
		"cache_get":     {`(call $cache_get (call $a))`, `CacheGet["aa"]`, "value"},
		"cache_set":     {`(call $cache_set (call $a) (call $b) (i64.const -7)) (call $a)`, `CacheSet["aa" "bbb" "-7"]`, "aa"},
		"jwt_sign":      {`(call $jwt_sign (call $c))`, `JWTSign["cccc"]`, "jwt"},
		"counter":       {`(drop (call $counter (i64.const -7))) (call $a)`, `Counter["-7"]`, "aa"},
		"jws_sign":      {`(call $jws_sign (call $c))`, `JWSSign["cccc"]`, "jws"},
		"encode":        {`(call $encode (call $a) (call $d))`, `Encode["aa" "\xff"]`, "encoded"},
		"mac":           {`(call $mac (call $a) (call $d) (call $d))`, `MAC["aa" "\xff" "\xff"]`, "mac"},
		"sign":          {`(call $sign (call $a) (call $d))`, `Sign["aa" "\xff"]`, "signature"},
		"reveal":        {`(call $reveal (call $a))`, `Reveal["aa"]`, "revealed"},
		"no text":       {`(call $encode (i64.const 0) (i64.const 0))`, `Encode["" ""]`, "encoded"},
		"log_trace":     {`(call $log_trace (call $a)) (call $a)`, `Log["0" "aa"]`, "aa"},
		"log_debug":     {`(call $log_debug (call $a)) (call $a)`, `Log["1" "aa"]`, "aa"},
		"log_info":      {`(call $log_info (call $a)) (call $a)`, `Log["2" "aa"]`, "aa"},
		"log_warn":      {`(call $log_warn (call $a)) (call $a)`, `Log["3" "aa"]`, "aa"},
		"log_error":     {`(call $log_error (call $a)) (call $a)`, `Log["4" "aa"]`, "aa"},
	} {
		t.Run(name, func(t *testing.T) {
			m := load(t, plugin(`(call $give `+c.body+`) i32.const 0`, abcd))
			e := &env{config: map[string]string{"aa": "value"}}
			got := authenticate(t, m, e)
			if diff := cmp.Diff([]string{c.asked}, e.asked); diff != "" {
				t.Errorf("asked of the host (-want +got):\n%s", diff)
			}
			if string(got.Output) != c.output {
				t.Errorf("the guest got %q, want %q", got.Output, c.output)
			}
		})
	}
}

// A guest copies any number of bytes between its own memory and a block with one call.
func TestBlockCopies(t *testing.T) {
	m := load(t, plugin(`(local $block i64)
		(local.set $block (call $block_new (i32.const 2) (i32.const 7)))
		(if (i64.ne (call $block_read (local.get $block) (i32.const 65532) (i32.const 4)) (i64.const 7)) (then (return (i32.const 1)))) ;; as much as there is room for
		(if (i64.ne (call $block_read (local.get $block) (i32.const 65520) (i32.const 9)) (i64.const 7)) (then (return (i32.const 2))))
		(call $give (call $block_new (i32.const 65519) (i32.const 17)))
		(if (i64.ne (call $block_read (i64.const 0) (i32.const 0) (i32.const 9)) (i64.const 0)) (then (return (i32.const 3)))) ;; none is empty
		(i32.wrap_i64 (call $length (call $block_new (i32.const 65536) (i32.const 0))))`, abcd))
	e := &env{}
	got := authenticate(t, m, e)
	if string(got.Output) != "\x00bbbcccc\x00\x00\x00\x00\x00bbbc" || got.Code != 0 || len(e.asked) > 0 {
		t.Errorf("the guest copied %q, code %d, and asked for %q", got.Output, got.Code, e.asked)
	}
}

func TestTimeNumbers(t *testing.T) {
	m := load(t, plugin(`(i32.add (i64.eq (call $time_now) (i64.const 1700000000)) (i32.add
		(i64.eq (call $time_millis) (i64.const 1700000000123))
		(i64.eq (call $clock_offset) (i64.const -5))))`))
	if got := authenticate(t, m, &env{}); got.Code != 3 {
		t.Error("the guest saw other times")
	}
}

func TestThereButEmptyDiffersFromNotThere(t *testing.T) {
	for _, function := range []string{"config_get", "cache_get"} {
		m := load(t, plugin(`(local $o i64)
			(local.set $o (call $`+function+` (call $a)))
			(i32.add
				(i32.mul (i32.const 10) (i64.ne (local.get $o) (i64.const 0)))
				(i32.wrap_i64 (call $length (local.get $o))))`, abcd))
		for name, c := range map[string]struct {
			config map[string]string
			code   int32 // the length, plus 10 if there is a value
		}{
			"not there": {nil, 0},
			"empty":     {map[string]string{"aa": ""}, 10},
			"a value":   {map[string]string{"aa": "12345"}, 15},
		} {
			if got := authenticate(t, m, &env{config: c.config}); got.Code != c.code {
				t.Errorf("%s, %s: the guest says %d, want %d", function, name, got.Code, c.code)
			}
		}
	}
}

func TestLazyInput(t *testing.T) {
	e := &env{input: "0123456789"}
	authenticate(t, load(t, plugin(`i32.const 0`)), e)
	if len(e.asked) != 0 {
		t.Errorf("a guest that reads no input made the host make one: %q", e.asked)
	}
	m := load(t, plugin(`
		(if (i64.ne (call $input_length) (i64.const 10)) (then (return (i32.const 1))))
		(if (i32.ne (call $input_load_u8 (i64.const 9)) (i32.const 0x39)) (then (return (i32.const 2))))
		(if (i64.ne (call $input_load_u64 (i64.const 1)) (i64.const 0x3837363534333231)) (then (return (i32.const 3))))
		(if (i64.ne (call $length (call $input_offset)) (i64.const 10)) (then (return (i32.const 4))))
		(call $give (call $input_offset))
		i32.const 0`))
	got := authenticate(t, m, e)
	if got.Code != 0 || string(got.Output) != "0123456789" {
		t.Errorf("code %d, output %q", got.Code, got.Output)
	}
	if len(e.asked) != 1 {
		t.Errorf("asked for input: %q", e.asked)
	}
	if got := authenticate(t, load(t, plugin(`(i32.wrap_i64 (i64.add (call $input_length) (call $input_offset)))`)), &env{}); got.Code != 0 {
		t.Errorf("no input has length plus offset %d", got.Code)
	}
}

func TestVariablesLastForOneCall(t *testing.T) {
	m := load(t, plugin(`
		(if (i64.ne (call $var_get (call $a)) (i64.const 0)) (then (return (i32.const 1))))
		(call $var_set (call $a) (call $c))
		(call $give (call $var_get (call $a)))
		(call $var_set (call $a) (i64.const 0))
		(i64.ne (call $var_get (call $a)) (i64.const 0))`, abcd))
	for range 2 {
		if got := authenticate(t, m, &env{}); got.Code != 0 || string(got.Output) != "cccc" {
			t.Errorf("code %d, output %q", got.Code, got.Output)
		}
	}
}

func TestResult(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want sandbox.Result
	}{
		"nothing":          {`i32.const 0`, sandbox.Result{}},
		"code":             {`i32.const -5`, sandbox.Result{Code: -5}},
		"last output":      {`(call $give (call $a)) (call $give (call $b)) i32.const 0`, sandbox.Result{Output: []byte("bbb"), OutputSet: true}},
		"output of no use": {`(call $output_set (i64.const 0) (i64.const 0)) i32.const 0`, sandbox.Result{OutputSet: true}},
		"part of a block": {
			`(call $output_set (i64.add (call $c) (i64.const 1)) (i64.const 2)) i32.const 0`,
			sandbox.Result{Output: []byte("cc"), OutputSet: true},
		},
		"message":            {`(call $error_set (call $a)) i32.const 1`, sandbox.Result{Code: 1, Message: "aa"}},
		"message taken back": {`(call $error_set (call $a)) (call $error_set (i64.const 0)) i32.const 0`, sandbox.Result{}},
		"freed after output": {
			`(local $o i64) (local.set $o (call $a)) (call $give (local.get $o))
			(call $store_u8 (local.get $o) (i32.const 0)) (call $free (local.get $o)) i32.const 0`,
			sandbox.Result{Output: []byte("aa"), OutputSet: true},
		},
		"log level is info": {`(call $get_log_level)`, sandbox.Result{Code: 2}},
		"alloc of nothing":  {`(i32.wrap_i64 (call $alloc (i64.const 0)))`, sandbox.Result{}},
		"length of nothing": {`(i32.wrap_i64 (call $length_unsafe (i64.const 0)))`, sandbox.Result{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := authenticate(t, load(t, plugin(c.body, abcd)), &env{})
			if len(got.Output) == 0 {
				got.Output = nil
			}
			got.Fuel = 0
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
		})
	}
}

// times returns the text of a loop that runs body n times. body may use $i, the number of the turn from 0.
func times(n, body string) string {
	return `(local $i i32)
		(loop $again
			` + body + `
			(local.set $i (i32.add (local.get $i) (i32.const 1)))
			(br_if $again (i32.lt_u (local.get $i) (i32.const ` + n + `))))
		i32.const 0`
}

// A call that exceeds a limit, misuses the host or traps ends with an error of that kind (threats.md 3, 8, 9, 10).
func TestCallErrors(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		kind sandbox.Kind
		text string // a part of the error
	}{
		"host calls":    {times("1001", `(drop (call $time_now))`), sandbox.ErrLimit, "1000 calls of host functions"},
		"arena":         {times("5", `(drop (call $alloc (i64.const 0x100000)))`), sandbox.ErrLimit, "4194304 bytes of memory blocks"},
		"one block":     {`(drop (call $alloc (i64.const -1))) i32.const 0`, sandbox.ErrLimit, "memory blocks"},
		"blocks":        {times("4097", `(drop (call $alloc (i64.const 1)))`), sandbox.ErrLimit, "4096 memory blocks"},
		"host's blocks": {times("4097", `(drop (call $config_get (i64.const 0)))`), sandbox.ErrLimit, "4096 memory blocks"},
		"variables": {
			times("20", `(call $var_set (call $name (local.get $i)) (call $alloc (i64.const 65536)))`),
			sandbox.ErrLimit, "bytes of variables",
		},

		"output too large":       {`(call $give (call $alloc (i64.const 65537))) i32.const 0`, sandbox.ErrLimit, "output of 65537 bytes"},
		"output not UTF-8":       {`(call $give (call $d)) i32.const 0`, sandbox.ErrUse, "output_set: the output is not UTF-8"},
		"output out of range":    {`(call $output_set (call $a) (i64.const 3)) i32.const 0`, sandbox.ErrUse, "output_set: outside"},
		"output that wraps":      {`(call $output_set (i64.const -8) (i64.const 16)) i32.const 0`, sandbox.ErrUse, "output_set: outside"},
		"message too large":      {`(call $error_set (call $alloc (i64.const 65537))) i32.const 1`, sandbox.ErrLimit, "message of 65537 bytes"},
		"message not UTF-8":      {`(call $error_set (call $d)) i32.const 1`, sandbox.ErrUse, "error_set: its text is not UTF-8"},
		"name not UTF-8":         {`(drop (call $config_get (call $d))) i32.const 0`, sandbox.ErrUse, "config_get: its text is not UTF-8"},
		"log not UTF-8":          {`(call $log_info (call $d)) i32.const 0`, sandbox.ErrUse, "log_info: its text is not UTF-8"},
		"middle of a block":      {`(drop (call $secret_get (i64.add (call $a) (i64.const 1)))) i32.const 0`, sandbox.ErrUse, "secret_get: not the offset"},
		"load beyond the blocks": {`(call $load_u8 (i64.const 4096))`, sandbox.ErrUse, "load_u8: offset 4096"},
		"store beyond":           {`(call $store_u64 (call $a) (i64.const 1)) i32.const 0`, sandbox.ErrUse, "store_u64: offset"},
		"block_new beyond":       {`(drop (call $block_new (i32.const 65530) (i32.const 7))) i32.const 0`, sandbox.ErrUse, "block_new: 7 bytes at address 65530"},
		"block_new that wraps":   {`(drop (call $block_new (i32.const 8) (i32.const -4))) i32.const 0`, sandbox.ErrUse, "block_new: 4294967292 bytes at address 8"},
		"block_read to beyond":   {`(drop (call $block_read (call $a) (i32.const 65535) (i32.const 2))) i32.const 0`, sandbox.ErrUse, "block_read: 2 bytes at address 65535"},
		"block_read of no block": {`(drop (call $block_read (i64.add (call $a) (i64.const 1)) (i32.const 0) (i32.const 1))) i32.const 0`, sandbox.ErrUse, "block_read: not the offset"},
		"input beyond":           {`(call $input_load_u8 (i64.const 0))`, sandbox.ErrUse, "input of 0 bytes"},

		"unreachable":        {`unreachable`, sandbox.ErrTrap, "unreachable"},
		"division by zero":   {`(i32.div_u (i32.const 1) (i32.const 0))`, sandbox.ErrTrap, "divide by zero"},
		"memory beyond":      {`(i32.load (i32.const 0x20000))`, sandbox.ErrTrap, "out of bounds memory access"},
		"a call through a …": {`(call_indirect (result i32) (i32.const 7))`, sandbox.ErrTrap, "invalid table access"},
	} {
		t.Run(name, func(t *testing.T) {
			m := load(t, plugin(c.body, abcd, `(table 1 funcref)
				(func $name (param $i i32) (result i64)
					(i32.store8 (i32.const 100) (i32.add (local.get $i) (i32.const 0x41)))
					(call $str (i32.const 100) (i32.const 1)))`))
			_, err := m.Call(context.Background(), contract.ExportAuthenticate, &env{config: map[string]string{"": ""}})
			if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("error %v, want one of kind %q with %q", err, c.kind, c.text)
			}
		})
	}
}

// The limit of host calls does not count functions of the kernel (threats.md 10).
func TestKernelCalls(t *testing.T) {
	m := load(t, plugin(times("5000", `(drop (call $length (i64.const 0)))`)))
	authenticate(t, m, &env{})
}
