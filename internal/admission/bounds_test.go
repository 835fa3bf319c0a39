package admission

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// bound has a module at a limit, and one just beyond it with the reason why it is refused.
type bound struct {
	allowed, refused []byte
	reason           string
}

func checkBounds(t *testing.T, bounds map[string]bound) {
	t.Helper()
	for name, b := range bounds {
		if _, err := Admit(b.allowed, testLimits); err != nil {
			t.Errorf("%s: err = %v", name, err)
		}
		testworld.WantError(t, name, testworld.ErrorOf(Admit(b.refused, testLimits)), b.reason)
	}
}

// A limit is the greatest size that is allowed. threats.md 2
func TestModulesAtLimit(t *testing.T) {
	bytes := func(n int) []byte { // an i64.const of many bytes takes little work, and 2 bytes are not of the code
		long := "\x42" + repeat("\x80", 9) + "\x00\x1a"
		code := repeat(long, (n-2)/len(long))
		return build(plugin(function(noLocals, code+repeat("\x01", n-2-len(code)))))
	}
	locals := func(functions ...uint32) []byte { // of functions with 200 parameters, which are no locals here
		bodies, types := make([]string, len(functions)), []string{"\x01", "\x01"}
		for i, n := range functions {
			bodies[i] = function("\x01"+number(n)+"\x7f", "")
			types = append(types, "\x02")
		}
		p := plugin(bodies...).with(sectionType, list(typeNone, typeResult, "\x60"+number(200)+repeat("\x7f", 200)+"\x00"))
		return build(p.with(sectionFunction, list(types...)))
	}
	forty := make([]uint32, 40)
	for i := range forty {
		forty[i] = 5_000
	}
	elements := func(n uint32) []byte {
		return build(plugin().with(sectionElement, list("\x01\x00\x01\x00", "\x01\x00"+number(n)+repeat("\x00", int(n)))))
	}
	block := func(of uint64) []byte {
		types := []string{typeNone, typeResult}
		for len(types) < 100 {
			types = append(types, typeNone)
		}
		return build(plugin(function(noLocals, "\x02"+signed(of)+"\x0b")).with(sectionType, list(types...)))
	}
	data := func(content string) []byte { // at the end of the memory
		p := plugin().with(sectionMemory, list("\x00\x01"))
		return build(p.with(sectionData, list("\x00\x41"+signed(65_535)+"\x0b"+text(content))))
	}
	checkBounds(t, map[string]bound{
		"bytes of a function":     {bytes(524_288), bytes(524_289), "its code has 524289 bytes, and 524288 are allowed: split it (function 2"},
		"locals of a function":    {locals(5_000), locals(5_001), "it has more than 5000 locals: split it (function 2"},
		"locals of all functions": {locals(append(forty, 0)...), locals(append(forty, 1)...), "all functions have more than 200000 locals: split the largest (function 42"},
		"elements":                {elements(19_999), elements(20_000), "there are 20001 elements, and 20000 are allowed"},
		"the type of a block":     {block(99), block(100), "a block is of a type that is none"},
		"data in the memory":      {data("x"), data("xy"), "a data segment ends beyond the memory, so that the module can never start"},
	})
	wasm, limits := build(plugin()), testLimits
	limits.ModuleBytes = len(wasm)
	if _, err := Admit(wasm, limits); err != nil {
		t.Errorf("bytes of the module: %v", err)
	}
}

// A module is refused if what it consists of does not fit together.
func TestPartsOfAModuleFitTogether(t *testing.T) {
	element := func(segment string) []byte { return build(plugin().with(sectionElement, list(segment))) }
	data := func(segments ...string) []byte {
		p := plugin().with(sectionMemory, list("\x00\x01"))
		return build(p.with(sectionDataCount, []byte{0}).with(sectionData, list(segments...)))
	}
	targets := func(inner, outer, value string) []byte { // a br_table out of the inner or the outer block, with an i32
		return build(plugin(function(noLocals, "\x02"+outer+"\x02"+inner+"\x41\x00\x41\x00\x0e\x01\x00\x01\x0b\x1a"+value+"\x0b\x1a")))
	}
	checkBounds(t, map[string]bound{
		"the kind of an element segment":    {element("\x07\x70\x00"), element("\x08\x70\x00"), "an element segment is of a kind that a plugin does not need"},
		"no data segments, as announced":    {data(), data("\x01\x00"), "there is more or less data than announced"},
		"the types of a br_table's targets": {targets(ofI32, ofI32, "\x41\x00"), targets(ofI32, ofF32, "\x43\x00\x00\x00\x00"), "a branch has a value of the wrong type (function 2"},
		"a block at the end of the module":  {build(plugin(function(noLocals, "\x02\x40\x0b"))), build(plugin(text(noLocals + "\x02"))), "it ends in the middle of something (function 2"},
	})
}

// idle returns a function of this many units of work.
func idle(units int) string { return function(noLocals, repeat("\x01", (units-4)*8-1)) }

// looks returns a function in which the compiler looks this many million times at what its 1,000 locals are.
func looks(millions int) string {
	return function("\x01"+number(1_000)+"\x7f", "\x41\x00\x0e"+number(uint32(millions-1))+repeat("\x00", millions))
}

// Functions, and all functions together, may take exactly the work that is allowed. threats.md 2
func TestModulesAtWorkLimit(t *testing.T) {
	all := func(last int) []byte { // 134,946 units for types, 8 for the plugin's functions, 450,000 for these, and the last
		functions, types := []string{idle(last)}, []string{typeNone, typeResult}
		for range 18 {
			functions = append([]string{idle(25_000)}, functions...)
		}
		for len(types) < 5_000 {
			types = append(types, "\x60"+number(200)+repeat("\x7f", 200)+"\x14"+repeat("\x7f", 20))
		}
		return build(plugin(functions...).with(sectionType, list(types...)))
	}
	checkBounds(t, map[string]bound{
		"of a function":  {build(plugin(idle(25_000))), build(plugin(idle(25_001))), "compile: 25001 units of work, and 25000 are allowed: split it or leave some out; in Go"},
		"of all of them": {all(15_046), all(15_047), "compile: 600001 units of work with the functions before it, and 600000 are allowed: split it or leave some out (function 20"},
		"at the locals of a function": {
			build(plugin(looks(800))), build(plugin(looks(801))), "compile: 801000000 looks at what its locals are in loops, and 800000000 are allowed",
		},
		"at the locals of all of them": {
			build(plugin(looks(800), looks(800), function(noLocals, "\x02\x40\x0b"))),
			build(plugin(looks(800), looks(800), function("\x01\x01\x7f", "\x02\x40\x0b"))),
			"compile: 1600000001 looks at what locals are in loops with the functions before it, and 1600000000 are allowed",
		},
	})
}

// Once all functions together take too long, the rest of the module is not read. threats.md 2
func TestReadingEndsWhenAllFunctionsTakeTooLong(t *testing.T) {
	functions := make([]string, 30)
	for i := range functions {
		functions[i] = idle(25_000)
	}
	_, err := Admit(build(plugin(functions...)), testLimits)
	var refused *RefusedError
	if !errors.As(err, &refused) || len(refused.Reasons) != 1 || refused.Reasons[0].Function != 25 {
		t.Errorf("error %v", err)
	}
}

// The compiler looks at each local where blocks join, again for each level of loops, and for each local that a loop sets to
// another one. threats.md 2
func TestSlowLoops(t *testing.T) {
	code := func(locals uint32, code string) []byte {
		p := plugin(function("\x01"+number(locals)+"\x7f", code))
		return build(p.with(sectionType, list(typeNone, typeResult, "\x60\x14"+repeat("\x7f", 20)+"\x00")))
	}
	sets := func(begin, again, end string, locals uint32) []byte { // a loop that sets each of the locals
		all := strings.Builder{}
		for i := range locals {
			all.WriteString(again + number(i))
		}
		return code(locals, "\x03\x40"+begin+all.String()+end+"\x0b")
	}
	twenty := repeat("\x41\x00", 20)
	targets := func(n uint32) string { return "\x03\x40\x41\x00\x0e" + number(n) + repeat("\x00", int(n)+1) + "\x0b" }
	const reason = "looks at what its locals are in loops, and 800000000 are allowed"
	checkBounds(t, map[string]bound{
		"copies in a loop, and in none":          {code(2_000, move(2_000)+"\x02\x40\x0b"), code(2_000, moveOn(2_000)), reason},
		"copies in a loop, and before it":        {code(1_000, move(1_000)+"\x03\x40\x0b"), code(1_000, moveOn(1_000)), reason},
		"a loop that sets locals to another one": {sets("", "\x41\x00\x21", "", 2_000), sets("", "\x20\x00\x21", "", 2_000), reason},
		"a loop that does so with local.tee":     {sets("\x41\x00", "\x22", "\x1a", 2_000), sets("\x20\x00", "\x22", "\x1a", 2_000), reason},
		"loops in a row, and in each other":      {code(200, repeat("\x03\x40\x0b", 100)), code(200, repeat("\x03\x40", 100)+repeat("\x0b", 100)), reason},
		"parameters of a loop":                   {code(3_100, twenty+"\x03\x40\x0b\x00"), code(3_100, twenty+"\x03\x02\x00\x0b\x00"), reason},
		"targets of a br_table in a loop":        {code(300, targets(4_000)), code(300, targets(4_500)), reason},
	})
}

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
	checkBounds(t, map[string]bound{
		"parameters of a block": {block(20), block(21), "a block has more than 20 parameters"},
		"nested blocks":         {blocks(500), blocks(501), "nested more than 500 deep: split it (function 2"},
		"targets of a br_table": {targets(5000), targets(5001), "a br_table has 5001 targets, and 5000 are allowed (function 2"},
	})
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
