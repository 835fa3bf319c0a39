package admission

import (
	"cmp"
	"fmt"
	"slices"
)

// IDs of sections, and kinds of imports and exports. https://www.w3.org/TR/wasm-core-2/#binary-modules
const (
	magic = "\x00asm\x01\x00\x00\x00"

	sectionCustom    = 0
	sectionType      = 1
	sectionImport    = 2
	sectionFunction  = 3
	sectionTable     = 4
	sectionMemory    = 5
	sectionGlobal    = 6
	sectionExport    = 7
	sectionStart     = 8
	sectionElement   = 9
	sectionCode      = 10
	sectionData      = 11
	sectionDataCount = 12
	sectionTag       = 13

	kindFunction = 0
	kindTable    = 1
	kindMemory   = 2
	kindGlobal   = 3
	kindTag      = 4
)

var kindNames = map[byte]string{
	kindFunction: "function", kindTable: "table", kindMemory: "memory", kindGlobal: "global", kindTag: "exception tag",
}

// sectionKind is a kind of section. It is a list of at most limit things, which item reads one by one, unless read reads the section.
type sectionKind struct {
	id     byte
	limit  int
	things string
	item   func(*module, *reader, *patch)
	read   func(*module, *reader)
}

// layout has the sections in the order in which they are in a module. Custom sections may be anywhere.
var layout = []sectionKind{
	{id: sectionType, limit: maxTypes, things: "types", item: (*module).readType},
	{id: sectionImport, limit: maxImports, things: "imports", item: (*module).readImport},
	{id: sectionFunction, limit: maxFunctions, things: "functions", item: (*module).readFunction},
	{id: sectionTable, limit: maxTables, things: "tables", item: (*module).readTable},
	{id: sectionMemory, limit: 1, things: "memories", item: (*module).readMemory},
	{id: sectionGlobal, limit: maxGlobals, things: "globals", item: (*module).readGlobal},
	{id: sectionExport, limit: maxExports, things: "exports", item: (*module).readExport},
	{id: sectionStart, read: (*module).readStart},
	{id: sectionElement, limit: maxSegments, things: "element segments", item: (*module).readElementSegment},
	{id: sectionDataCount, read: (*module).readDataCount},
	{id: sectionCode, read: (*module).readCode},
	{id: sectionData, limit: maxSegments, things: "data segments", item: (*module).readDataSegment},
}

// module is the state of reading a module. Its index spaces begin with the imports.
type module struct {
	limits  Limits
	rules   ruleset
	reasons []Reason
	// broken is set if the rest of the module is not read. Parts that are missing are no reason then.
	broken bool

	types   []Signature
	imports []Import
	// functions has the index of each function's type.
	functions []uint32
	tables    []table
	// memories has the number of pages with which each memory begins.
	memories []uint32
	globals  []global
	// importedGlobals is the number of imported globals. Only they may be used in constant expressions.
	importedGlobals int
	exports         map[string]exported
	// names are the names of the exported functions.
	names []string
	// elements has the type of each element segment, and listed is the number of elements in all of them.
	elements []byte
	listed   int
	// segments is the number of data segments that the data count section announces, or -1 without that section.
	// It is 0 after the data section.
	segments int
	// start is the index of the start function, or -1.
	start int
	// declared has the functions that an export, a global or an element refers to. ref.func may refer to these.
	declared map[uint32]bool
	// bodies is the number of function bodies that have been read.
	bodies int
	// locals is the number of locals of these functions, and work and joins are their estimates of effort.
	locals, work int
	joins        float64

	// notPooled is the first part of the module that changes state which the host cannot reset, or "".
	notPooled string
	// code is reused for each function.
	code body
	rewriting
}

type table struct {
	element  byte
	min, max uint32
	// bounded is set if max is given.
	bounded bool
	// grows is set if the code has a table.grow of it.
	grows bool
}

type global struct {
	value   byte
	mutable bool
}

type exported struct {
	kind  byte
	index uint32
}

func (m *module) typeOf(function uint32) Signature { return m.types[m.functions[function]] }

// setNotPooled records why the host cannot reset an instance, unless there is a reason already.
func (m *module) setNotPooled(why string) { m.notPooled = cmp.Or(m.notPooled, why) }

// refuse adds a reason that concerns the module as a whole.
func (m *module) refuse(text string) { m.refuseAt(text, -1, 0) }

func (m *module) refuseAt(text string, function, offset int) {
	switch {
	case len(m.reasons) < maxReasons:
		m.reasons = append(m.reasons, Reason{Text: text, Function: function, Offset: offset})
	case !m.broken:
		m.broken = true
		m.reasons = append(m.reasons, Reason{Text: "and perhaps more", Function: -1})
	}
}

func (m *module) readAll(wasm []byte) {
	r := reader{wasm: wasm, end: len(wasm)}
	if string(r.bytes(uint32(len(magic)))) != magic {
		m.broken = true
		m.refuse("it is no WebAssembly module, or of another version than 1")
		return
	}
	for rest := layout; r.remaining() > 0 && !r.failed() && !m.broken; {
		where := r.pos
		id := r.byte()
		section := r.sub(r.u32())
		place := slices.IndexFunc(rest, func(s sectionKind) bool { return s.id == id })
		switch {
		case r.failed() || id == sectionCustom: // custom sections have no effect on execution
			continue
		case id == sectionTag:
			r.fail(where, "it uses exceptions, which a plugin does not need")
		case place < 0:
			r.fail(where, fmt.Sprintf("there is a section %d that does not belong here", id))
		default:
			m.readSection(&section, rest[place])
			rest = rest[place+1:]
			if section.failed() {
				r.fail(section.where, section.fault)
			} else if section.remaining() > 0 && !m.broken {
				r.fail(section.pos, "a section is longer than what is in it")
			}
		}
	}
	m.finish(&r)
}

// readSection reads a section. It also writes a list, with the numbers that items replace.
func (m *module) readSection(r *reader, s sectionKind) {
	if s.read != nil {
		s.read(m, r)
		return
	}
	where := r.pos
	n := r.atMost(s.limit, s.things)
	if s.id == sectionData {
		if m.segments >= 0 && m.segments != n {
			r.fail(where, "there is more or less data than announced")
		}
		m.segments = 0
	}
	p := patch{wasm: r.wasm, copied: r.pos}
	for i := 0; i < n && !r.failed(); i++ {
		s.item(m, r, &p)
	}
	m.begin(s.id, n, p.upTo(r.pos))
}

// finish makes the checks that need the whole module.
func (m *module) finish(r *reader) {
	if !r.failed() && !m.broken {
		switch {
		case m.bodies != len(m.functions)-len(m.imports):
			r.fail(r.end, "there are functions without code")
		case m.segments > 0:
			r.fail(r.end, "there is less data than announced")
		}
	}
	if r.failed() {
		m.broken = true
		m.refuseAt(r.fault, -1, r.where)
	}
	m.checkTables()
}

func (m *module) checkTables() {
	var total uint64
	for i, t := range m.tables {
		switch {
		case t.grows && !t.bounded:
			m.refuse(fmt.Sprintf("table %d grows without a maximum: give it one", i))
		case t.grows:
			total += uint64(t.max)
		default:
			total += uint64(t.min)
		}
	}
	if total > uint64(maxTableElements) {
		m.refuse(fmt.Sprintf("it has tables that may have %d elements, and %d are allowed", total, maxTableElements))
	}
}

func (m *module) readDataCount(r *reader) {
	m.segments = int(r.u32())
	m.begin(sectionDataCount, m.segments, nil)
}

// atMost reads the length of a vector, and fails if it is more than limit.
func (r *reader) atMost(limit int, things string) int {
	where := r.pos
	n := r.count()
	if n > limit {
		r.fail(where, fmt.Sprintf("there are %d %s, and %d are allowed", n, things, limit))
		return 0
	}
	return n
}

// index reads an index into a space of n things, and fails if it is out of range.
func (r *reader) index(n int, thing string) uint32 {
	where := r.pos
	i := r.u32()
	if uint64(i) >= uint64(n) {
		r.fail(where, fmt.Sprintf("there is no %s %d", thing, i))
		return 0
	}
	return i
}

func (r *reader) valueType() byte {
	where := r.pos
	t := r.byte()
	switch t {
	case i32, i64, f32, f64, funcref, externref:
	case vector:
		r.fail(where, "it uses vector instructions (SIMD), which a plugin does not need")
	default:
		r.fail(where, fmt.Sprintf("%#x is no type of WebAssembly 2.0", t))
	}
	return t
}

func (r *reader) refType() byte {
	where := r.pos
	t := r.valueType()
	if t != funcref && t != externref {
		r.fail(where, "a reference is of a type that is none")
	}
	return t
}
