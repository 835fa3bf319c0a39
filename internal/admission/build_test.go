package admission

import (
	"bytes"
	"slices"
	"strings"
)

// parts holds the sections of a module by ID. Modules are built byte by byte, because no assembler would write most of
// them.
type parts map[byte][]byte

// build returns a module of the given sections.
func build(sections parts) []byte {
	out := []byte(magic)
	for _, l := range layout {
		if body, ok := sections[l.id]; ok {
			out = appendText(append(out, l.id), string(body))
		}
	}
	return out
}

func (p parts) bytes() []byte { return build(p) }

// list returns a vector of items.
func list(items ...string) []byte {
	return append(appendNumber(nil, uint32(len(items))), strings.Join(items, "")...)
}

func number(v uint32) string { return string(appendNumber(nil, v)) }
func signed(v uint64) string { return string(appendSigned(nil, v)) }
func text(s string) string   { return string(appendText(nil, s)) }

// function returns the body of a function with these locals and instructions.
func function(locals, code string) string { return text(locals + code + "\x0b") }

// code is a function without locals.
func code(instructions string) string { return function(noLocals, instructions) }

const (
	noLocals   = "\x00"
	typeNone   = "\x60\x00\x00"
	typeResult = "\x60\x00\x01\x7f"
)

// plugin returns a module that satisfies the contract. The given functions are of type () → () and begin at index 2.
func plugin(functions ...string) parts {
	types := []string{"\x01", "\x01"}
	code := []string{function(noLocals, "\x41\x00"), function(noLocals, "\x41\x00")}
	for _, f := range functions {
		types = append(types, "\x00")
		code = append(code, f)
	}
	return parts{
		sectionType:     list(typeNone, typeResult),
		sectionFunction: list(types...),
		sectionExport:   list(text("describe")+"\x00\x00", text("authenticate")+"\x00\x01"),
		sectionCode:     list(code...),
	}
}

// with adds or replaces a section.
func (p parts) with(id byte, body []byte) parts {
	p[id] = body
	return p
}

const (
	loopForever = "\x03\x40\x0c\x00\x0b"
	billions    = "\xff\xff\xff\xff\x0f"
)

func repeat(text string, n int) string { return strings.Repeat(text, n) }

// moveOn returns a loop that copies each of the locals to the one before it.
func moveOn(locals uint32) string { return "\x03\x40" + move(locals) + "\x20\x00\x0d\x00\x0b" }

// move returns code that copies each of the locals to the one before it.
func move(locals uint32) string {
	code := strings.Builder{}
	for i := range locals - 1 {
		code.WriteString("\x20" + number(i+1) + "\x21" + number(i))
	}
	return code.String()
}

// growTable is a function that makes a table larger by 100 million.
var growTable = code("\xd0\x70\x41" + signed(100_000_000) + "\xfc\x0f\x00\x1a")

const (
	tooMuchWork = "units of work, and 25000 are allowed"
	tooMany     = "more things than bytes"
)

// attacks are modules that were expensive to compile, and similar ones. threats.md 2
var attacks = map[string]struct {
	module func() []byte
	reason string
}{
	"600 kB of nested blocks": {
		plugin(code(repeat("\x02\x40", 200_000) + repeat("\x0b", 200_000))).bytes,
		"and 524288 are allowed: split it (function 2",
	},
	"br_table with a million targets": {
		plugin(code("\x41\x00\x0e" + number(1_000_000) + repeat("\x00", 1_000_001))).bytes,
		"and 524288 are allowed",
	},
	"2,000 functions with 50,000 locals each": {
		plugin(slices.Repeat([]string{function("\x01"+number(50_000)+"\x7f", "")}, 2000)...).bytes,
		"it has more than 5000 locals: split it (function 2",
	},
	"2,000 functions with 5,000 locals each": {
		plugin(slices.Repeat([]string{function("\x01"+number(5_000)+"\x7f", "")}, 2000)...).bytes,
		"all functions have more than 200000 locals: split the largest (function 42",
	},
	"locals that overflow": {
		plugin(function("\x03"+billions+"\x7f"+billions+"\x7f\x02\x7f", "")).bytes,
		"more than 5000 locals",
	},
	"one 9 MB function": {
		plugin(code(repeat("\x01", 9<<20))).bytes,
		"8388608 are allowed: build it without debug information",
	},
	"one 7 MB function": {plugin(code(repeat("\x01", 7<<20))).bytes, "7340034 bytes, and 524288 are allowed"},
	"20,001 functions": {
		plugin(slices.Repeat([]string{code("")}, 19_999)...).bytes,
		"there are 20001 functions, and 20000 are allowed",
	},
	"50,000 memory.fill": { // takes two minutes to compile
		plugin(code(repeat("\x41\x00\x41\x00\x41\x00\xfc\x0b\x00", 50_000))).with(sectionMemory, list("\x00\x01")).bytes,
		tooMuchWork,
	},
	"100,000 indirect calls": {
		plugin(code(repeat("\x41\x00\x11\x00\x00", 100_000))).with(sectionTable, list("\x70\x00\x01")).bytes,
		tooMuchWork,
	},
	"100,000 loops": {plugin(code(repeat("\x03\x40\x0b", 100_000))).bytes, tooMuchWork},
	"300 functions of 1,000 ifs": {
		plugin(slices.Repeat([]string{code(repeat("\x41\x00\x04\x40\x0b", 1_000))}, 300)...).bytes,
		"units of work with the functions before it, and 600000 are allowed: split it or leave some out (function 10",
	},
	"400 nested loops with 1,000 locals": {
		plugin(function("\x01"+number(1000)+"\x7f", repeat("\x03\x40", 400)+repeat("\x0b", 400))).bytes,
		tooMuchWork,
	},
	"50 br_tables of 5,000 targets": {
		plugin(code(repeat("\x02\x40\x41\x00\x0e"+number(5000)+repeat("\x00", 5001)+"\x0b", 50))).bytes,
		tooMuchWork,
	},
	// The next ones were found by measuring. The comments say how long wazero took to compile them, and its memory.
	"4,500 ifs over 30,000 values on the stack": { // 55 s, 7 GB
		plugin(code(repeat("\x41\x00\x41\x00\x28\x02\x00", 30_000)+repeat("\x41\x00\x28\x02\x00\x04\x40\x0b", 4_500)+
			repeat("\x36\x02\x00", 30_000))).with(sectionMemory, list("\x00\x01")).bytes,
		tooMuchWork,
	},
	"20 functions of 2,880 loops": { // 41 s
		plugin(slices.Repeat([]string{code(repeat(repeat("\x03\x40", 480)+repeat("\x0b", 480), 6))}, 20)...).bytes,
		tooMuchWork,
	},
	"2,000 locals that a loop moves on": { // 5 s, and with 5,000 over a minute
		plugin(function("\x01"+number(2_000)+"\x7f", moveOn(2_000))).bytes,
		"looks at what its locals are in loops, and 800000000 are allowed",
	},
	"40 functions of 300 locals that a loop moves on": {
		plugin(slices.Repeat([]string{function("\x01"+number(300)+"\x7f", moveOn(300))}, 40)...).bytes,
		"looks at what locals are in loops with the functions before it, and 1600000000 are allowed",
	},
	"100 locals that a loop of many branches moves on": {
		plugin(function("\x01"+number(100)+"\x7f", repeat("\x03\x40", 1)+repeat("\x20\x00\x0d\x00", 1_000)+moveOn(100)+"\x0b")).bytes,
		"looks at what its locals are in loops",
	},
	"500,000 negations": { // 15 such functions take 12 s, and 750 MB
		plugin(code("\x43\x00\x00\x00\x00" + repeat("\x8c", 500_000) + "\x1a")).bytes,
		tooMuchWork,
	},
	"170,000 loads": { // 2 s, 770 MB
		plugin(code("\x41\x00"+repeat("\x28\x02\x00", 170_000)+"\x1a")).with(sectionMemory, list("\x00\x01")).bytes,
		tooMuchWork,
	},
	"250,000 conversions": { // 2.5 s, 760 MB
		plugin(code("\x42\x00" + repeat("\xba\xbd", 250_000) + "\x1a")).bytes,
		tooMuchWork,
	},
	"250,000 calls with 20 results": { // 6 s, 1.7 GB
		plugin(code(repeat("\x10\x03", 250_000)+"\x00"), code("\x00")).
			with(sectionType, list(typeNone, typeResult, "\x60\x00\x14"+repeat("\x7f", 20))).
			with(sectionFunction, list("\x01", "\x01", "\x00", "\x02")).bytes,
		tooMuchWork,
	},
	"8 MB of what is cheap": { // reading the whole module takes longer than 100 ms
		plugin(slices.Repeat([]string{code(repeat("\x01", 524_000))}, 15)...).bytes,
		tooMuchWork,
	},
	"table.grow by 100 million": {
		plugin(growTable).with(sectionTable, list("\x70\x00\x01")).bytes,
		"table 0 grows without a maximum: give it one",
	},
	"a table that may grow to 100 million": {
		plugin(growTable).with(sectionTable, list("\x70\x01\x01"+number(100_000_000))).bytes,
		"it has tables that may have 100000000 elements, and 10000 are allowed",
	},
	"a table that begins with 10,001": {
		plugin().with(sectionTable, list("\x70\x00"+number(10_001))).bytes,
		"it has tables that may have 10001 elements",
	},
	"two tables of 6,000": {
		plugin().with(sectionTable, list("\x70\x00"+number(6_000), "\x6f\x00"+number(6_000))).bytes,
		"it has tables that may have 12000 elements",
	},
	"a million types": {
		plugin().with(sectionType, append([]byte(number(1_000_000)), repeat(typeNone, 1_000_000)...)).bytes,
		"there are 1000000 types, and 5000 are allowed",
	},
	"a million data segments": {
		plugin().with(sectionData, append([]byte(number(1_000_000)), repeat("\x01\x00", 1_000_000)...)).bytes,
		"there are 1000000 data segments, and 5000 are allowed",
	},
	"200,000 elements over each other": { // 67 ms and 17 MB per instance
		plugin().with(sectionTable, list("\x70\x00"+number(10_000))).
			with(sectionElement, []byte("\x14"+repeat("\x00\x41\x00\x0b"+number(9_990)+repeat("\x00", 9_990), 20))).bytes,
		"there are 29970 elements, and 20000 are allowed",
	},
	"8 MB of elements": {
		plugin().with(sectionElement, []byte("\x01\x01\x00"+number(8_000_000)+repeat("\x00", 8_000_000))).bytes,
		"there are 8000000 elements, and 20000 are allowed",
	},
	"billions of types":      {parts{sectionType: []byte(billions)}.bytes, tooMany},
	"billions of parameters": {parts{sectionType: []byte("\x01\x60" + billions)}.bytes, tooMany},
	"billions of imports":    {parts{sectionImport: []byte(billions)}.bytes, tooMany},
	"billions of functions":  {parts{sectionFunction: []byte(billions)}.bytes, tooMany},
	"billions of globals":    {parts{sectionGlobal: []byte(billions)}.bytes, tooMany},
	"billions of exports":    {parts{sectionExport: []byte(billions)}.bytes, tooMany},
	"billions of elements":   {parts{sectionElement: []byte(billions)}.bytes, tooMany},
	"billions of indices":    {parts{sectionElement: []byte("\x01\x01\x00" + billions)}.bytes, tooMany},
	"billions of bodies":     {parts{sectionCode: []byte(billions)}.bytes, tooMany},
	"billions of code bytes": {plugin(billions).bytes, "in the middle"},
	"billions of data":       {parts{sectionData: []byte(billions)}.bytes, tooMany},
	"billions of data bytes": {parts{sectionData: []byte("\x01\x01" + billions)}.bytes, "in the middle"},
	"billions of bytes":      {func() []byte { return []byte(magic + "\x01" + billions) }, "in the middle"},
}

// seeds returns modules for fuzzing: the small attacks, and modules that together have every instruction.
func seeds() [][]byte {
	var all [][]byte
	for _, a := range attacks {
		if wasm := a.module(); len(wasm) < 10_000 {
			all = append(all, wasm)
		}
	}
	every := bytes.Buffer{}
	for op, p := range plains {
		if p.weight == 0 {
			continue
		}
		every.WriteByte(opUnreachable)
		every.WriteByte(byte(op))
		if p.align > 0 {
			every.WriteString("\x00\x00")
		}
	}
	all = append(all, build(plugin(function(noLocals, every.String())).with(sectionMemory, list("\x00\x01"))))
	bulk := "\x41\x00\x41\x00\x41\x00\xfc\x0b\x00" + "\x41\x00\x41\x00\x41\x00\xfc\x0a\x00\x00" + "\x41\x00\x41\x00\x41\x00\xfc\x08\x00\x00" +
		"\xfc\x09\x00" + "\x41\x01\x40\x00\x1a" + "\xd0\x70\x41\x01\xfc\x0f\x00\x1a" + "\x41\x00\xd2\x02\x41\x00\xfc\x11\x00" +
		"\x41\x00\x41\x00\x41\x00\xfc\x0c\x00\x00" + "\x41\x00\x41\x00\x41\x00\xfc\x0e\x00\x00" + "\xfc\x0d\x00" + "\x41\x00\x41\x00\x25\x00\x26\x00"
	all = append(all, build(plugin(function(noLocals, bulk)).
		with(sectionMemory, list("\x00\x01")).with(sectionTable, list("\x70\x01\x02\x08")).
		with(sectionElement, list("\x01\x00\x01\x02")).with(sectionDataCount, []byte{1}).with(sectionData, list("\x01\x03abc"))))
	wasi := list(text("wasi_snapshot_preview1")+text("fd_write")+"\x00\x02", text("wasi_snapshot_preview1")+text("random_get")+"\x00\x03")
	all = append(all, build(parts{
		sectionType:     list(typeNone, typeResult, "\x60\x04\x7f\x7f\x7f\x7f\x01\x7f", "\x60\x02\x7f\x7f\x01\x7f"),
		sectionImport:   wasi,
		sectionFunction: list("\x00"),
		sectionTable:    list("\x70\x00\x03"),
		sectionMemory:   list("\x00\x01"),
		sectionGlobal:   list("\x7e\x01\x42\x00\x0b", "\x70\x01\xd2\x00\x0b"),
		sectionExport:   list(text("memory")+"\x02\x00", text("write")+"\x00\x00", text("_initialize")+"\x00\x02"),
		sectionStart:    {2},
		sectionElement:  list("\x00\x41\x00\x0b\x02\x00\x01", "\x05\x70\x01\xd2\x01\x0b"),
		sectionCode:     list(function(noLocals, "\x02\x40\x03\x40\x41\x08\x41\x08\x10\x01\x0d\x00\x0b\x0b\xd2\x01\x1a\x42\x01\x24\x00")),
	}))
	return all
}
