package admission

import (
	"runtime"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// Admit refuses each attack and allocates at most 64 MiB for it. It also takes at most 100 ms, which BenchmarkAttacks
// shows: here, tests of other packages run at the same time. threats.md 2
func TestExpensiveModules(t *testing.T) {
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			wasm := attack.module()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Admit(wasm, testLimits)
			runtime.ReadMemStats(&after)
			testworld.WantError(t, "", err, attack.reason)
			if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
				t.Errorf("it took %d bytes of memory", used)
			}
		})
	}
}

// Modules at a limit are admitted, and those just beyond it are refused. threats.md 2
func TestHowLargeTheCodeOfAModuleMayBe(t *testing.T) {
	ofTypes := func(body string, types ...string) []byte {
		p := plugin(function(noLocals, body))
		return build(p.with(sectionType, list(append([]string{typeNone, typeResult}, types...)...)))
	}
	block := func(params int) []byte {
		return ofTypes(repeat("\x41\x00", params)+"\x02\x02\x00\x0b", "\x60"+number(uint32(params))+repeat("\x7f", params)+"\x00")
	}
	blocks := func(n int) []byte { return ofTypes(repeat("\x02\x40", n) + repeat("\x0b", n)) }
	targets := func(n int) []byte {
		return ofTypes("\x41\x00\x0e" + number(uint32(n)) + repeat("\x00", n+1))
	}
	for name, c := range map[string]struct {
		allowed, refused []byte
		reason           string
	}{
		"parameters of a block": {block(20), block(21), "a block has more than 20 parameters"},
		"the type of a block":   {ofTypes("\x02\x00\x0b"), ofTypes("\x02\x02\x0b"), "a block is of a type that is none"},
		"nested blocks":         {blocks(500), blocks(501), "nested more than 500 deep"},
		"targets of a br_table": {targets(5000), targets(5001), "5000 are allowed"},
	} {
		if _, err := Admit(c.allowed, testLimits); err != nil {
			t.Errorf("%s: err = %v", name, err)
		}
		testworld.WantError(t, name, testworld.ErrorOf(Admit(c.refused, testLimits)), c.reason)
	}
}

// An access to memory takes longer to compile than a comparison, and a call that passes values takes longer than one that passes
// none. So fewer of them are allowed. threats.md 2
func TestSlowCompilationWeights(t *testing.T) {
	twenty := repeat("\x7f", 20)
	code := func(begin, again string, times int) []byte {
		p := plugin(function(noLocals, begin+repeat(again, times)+"\x00"), function(noLocals, ""), function(noLocals, "\x00"))
		return build(p.with(sectionType, list(typeNone, typeResult, "\x60\x14"+twenty+"\x14"+twenty)).
			with(sectionFunction, list("\x01", "\x01", "\x00", "\x00", "\x02")).
			with(sectionTable, list("\x70\x00\x01")).with(sectionMemory, list("\x00\x01")))
	}
	values := repeat("\x41\x00", 20)
	for name, c := range map[string]struct {
		wasm    []byte
		allowed bool
	}{
		"20,000 comparisons":                         {code("\x41\x00", "\x45", 20_000), true},
		"20,000 loads":                               {code("\x41\x00", "\x28\x02\x00", 20_000), false},
		"60,000 comparisons":                         {code("\x41\x00", "\x45", 60_000), false},
		"8,000 references to functions":              {code("", "\xd2\x00\x1a", 8_000), true},
		"15,000 references to functions":             {code("", "\xd2\x00\x1a", 15_000), false},
		"8,000 conversions that saturate":            {code("", "\x43\x00\x00\x00\x00\xfc\x00\x1a", 8_000), true},
		"15,000 conversions that saturate":           {code("", "\x43\x00\x00\x00\x00\xfc\x00\x1a", 15_000), false},
		"1,000 blocks":                               {code("", "\x02\x40\x0b", 1_000), true},
		"1,000 blocks that pass 40 values":           {code(values, "\x02\x02\x0b", 1_000), false},
		"1,000 calls that pass 40 values":            {code(values, "\x10\x04", 1_000), true},
		"5,000 calls":                                {code("", "\x10\x03", 5_000), true},
		"5,000 calls that pass 40 values":            {code(values, "\x10\x04", 5_000), false},
		"1,500 calls by a table":                     {code("", "\x41\x00\x11\x00\x00", 1_500), true},
		"1,500 calls by a table that pass 40 values": {code(values, "\x41\x00\x11\x02\x00", 1_500), false},
	} {
		_, err := Admit(c.wasm, testLimits)
		if c.allowed && err != nil || !c.allowed && (err == nil || !strings.Contains(err.Error(), "units of work, and 25000 are allowed")) {
			t.Errorf("%s: err = %v", name, err)
		}
	}
}

// Instructions that trap, or that a processor has no instruction for, take longer to compile than an addition. So fewer of them are
// allowed. threats.md 2
func TestSlowInstructionWeights(t *testing.T) {
	allowed := func(opcode byte) bool {
		_, err := Admit(build(plugin(function(noLocals, "\x00"+repeat(string([]byte{opcode, opDrop}), 20_000)))), testLimits)
		if err != nil && !strings.Contains(err.Error(), "units of work, and 25000 are allowed") {
			t.Errorf("%#x: err = %v", opcode, err)
		}
		return err == nil
	}
	for name, opcode := range map[string]byte{"i32.add": 0x6a, "i64.mul": 0x7e, "f32.div": 0x95, "f64.sqrt": 0x9f, "f64.convert_i32_u": 0xb8} {
		if !allowed(opcode) {
			t.Errorf("20,000 times %s are refused", name)
		}
	}
	for name, opcode := range map[string]byte{
		"i32.div_s": 0x6d, "i32.div_u": 0x6e, "i32.rem_s": 0x6f, "i32.rem_u": 0x70,
		"i64.div_s": 0x7f, "i64.div_u": 0x80, "i64.rem_s": 0x81, "i64.rem_u": 0x82,
		"f32.min": 0x96, "f32.max": 0x97, "f64.min": 0xa4, "f64.max": 0xa5, "f32.copysign": 0x98, "f64.copysign": 0xa6,
		"i32.trunc_f32_s": 0xa8, "i32.trunc_f32_u": 0xa9, "i32.trunc_f64_s": 0xaa, "i32.trunc_f64_u": 0xab,
		"i64.trunc_f32_s": 0xae, "i64.trunc_f32_u": 0xaf, "i64.trunc_f64_s": 0xb0, "i64.trunc_f64_u": 0xb1,
		"f32.convert_i64_u": 0xb5, "f64.convert_i64_u": 0xba,
	} {
		if allowed(opcode) {
			t.Errorf("20,000 times %s are admitted", name)
		}
	}
}

// BenchmarkAttacks measures how long Admit takes to refuse each attack.
func BenchmarkAttacks(b *testing.B) {
	for name, attack := range attacks {
		b.Run(name, func(b *testing.B) {
			wasm := attack.module()
			for b.Loop() {
				if _, err := Admit(wasm, testLimits); err == nil {
					b.Fatal("it is admitted")
				}
			}
		})
	}
}
