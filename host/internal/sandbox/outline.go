package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Sections of a module, and kinds of what is imported and exported.
// https://www.w3.org/TR/wasm-core-2/#binary-modules
const (
	headerBytes = 8 // magic number and version

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

	kindFunction = 0
	kindTable    = 1
	kindMemory   = 2
	kindGlobal   = 3
)

// What a few bytes of a module can ask a lot of memory for.
const (
	maxLocals    = 5_000   // of a function
	maxAllLocals = 200_000 // of a module
	maxElements  = 10_000  // that a table begins with
)

var kindNames = map[byte]string{kindFunction: "function", kindTable: "table", kindMemory: "memory", kindGlobal: "global"}

// outline is what the host reads of a module before anyone compiles it. It is no validation, which is wazero's, but
// what makes that safe: wazero makes room for as many things as a module says it has before it looks for them, and Go
// cannot recover from running out of memory.
type outline struct {
	imports []imported
	exports []string
	locals  uint64
	widest  uint32 // elements that the largest table begins with
	bare    []byte // the module without its custom sections: names, sources, debug information
}

type imported struct {
	module, name string
	kind         byte
}

var (
	errNoModule = errors.New("it is no WebAssembly module, or a damaged one")
	errLocals   = fmt.Errorf("it has a function of more than %d locals, or more than %d in all: split its largest functions",
		maxLocals, maxAllLocals)
	errElements = fmt.Errorf("it has a table that begins with more than %d elements", maxElements)
)

// readOutline goes through all of a module but its instructions. No count in it is greater than the bytes that are
// there to hold what is counted.
func readOutline(wasm []byte) (outline, error) {
	r := reader{rest: wasm}
	o := outline{bare: append([]byte(nil), r.bytes(headerBytes)...)}
	for !r.bad && len(r.rest) > 0 {
		whole := r.rest
		id := r.byte()
		section := reader{rest: r.bytes(r.u32())}
		if id == sectionCustom {
			continue
		}
		o.readSection(id, &section)
		r.bad = r.bad || section.bad || len(section.rest) > 0
		o.bare = append(o.bare, whole[:len(whole)-len(r.rest)]...)
	}
	switch {
	case r.bad || len(wasm) < headerBytes:
		return outline{}, errNoModule
	case o.locals > maxAllLocals:
		return outline{}, errLocals
	case o.widest > maxElements:
		return outline{}, errElements
	}
	return o, nil
}

func (o *outline) readSection(id byte, r *reader) {
	switch id {
	case sectionType:
		r.vector(func() { r.byte(); r.names(); r.names() }) // form, parameters, results: a byte each
	case sectionImport:
		r.vector(func() { o.readImport(r) })
	case sectionFunction:
		r.vector(func() { r.u32() }) // type
	case sectionTable:
		r.vector(func() { o.widest = max(o.widest, r.table()) })
	case sectionMemory:
		r.vector(func() { r.limits() })
	case sectionGlobal:
		r.vector(func() { r.bytes(2); r.constant() }) // type, mutability
	case sectionExport:
		r.vector(func() { o.exports = append(o.exports, r.name()); r.byte(); r.u32() }) // kind, index
	case sectionStart, sectionDataCount:
		r.u32()
	case sectionElement:
		r.vector(r.element)
	case sectionCode:
		r.vector(func() { o.readLocals(&reader{rest: r.bytes(r.u32())}, r) })
	case sectionData:
		r.vector(r.data)
	default:
		r.fail()
	}
}

func (o *outline) readImport(r *reader) {
	i := imported{module: r.name(), name: r.name(), kind: r.byte()}
	switch i.kind {
	case kindFunction:
		r.u32() // type
	case kindTable:
		r.table()
	case kindMemory:
		r.limits()
	case kindGlobal:
		r.bytes(2) // type, mutability
	default:
		r.fail()
	}
	o.imports = append(o.imports, i)
}

// readLocals counts the locals of a function body. A body with too many is made to count as too many for a module.
func (o *outline) readLocals(body, section *reader) {
	var locals uint64
	body.vector(func() { locals += uint64(body.u32()); body.byte() }) // how many, type
	if body.bad {
		section.fail()
	}
	if locals > maxLocals {
		locals = maxAllLocals + 1
	}
	o.locals += locals
}

// reader takes a module apart. Once it has met something that it cannot read it is bad, and gives zeros.
type reader struct {
	rest []byte
	bad  bool
}

func (r *reader) fail() { r.bad, r.rest = true, nil }

func (r *reader) bytes(n uint32) []byte {
	if r.bad || uint64(n) > uint64(len(r.rest)) {
		r.fail()
		return nil
	}
	taken := r.rest[:n]
	r.rest = r.rest[n:]
	return taken
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

// u32 reads a number in LEB128.
func (r *reader) u32() uint32 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > 1<<32-1 {
		r.fail()
		return 0
	}
	r.rest = r.rest[n:]
	return uint32(v)
}

// signed passes over a signed number in LEB128, of at most 64 bits.
func (r *reader) signed() {
	for range binary.MaxVarintLen64 {
		if r.byte() < 0x80 {
			return
		}
	}
	r.fail()
}

func (r *reader) name() string { return string(r.names()) }

// names gives a vector of single bytes.
func (r *reader) names() []byte { return r.bytes(r.u32()) }

// vector reads a count, which the bytes that follow have to be able to hold, and then each item.
func (r *reader) vector(item func()) {
	n := r.u32()
	if uint64(n) > uint64(len(r.rest)) {
		r.fail()
	}
	for range n {
		if r.bad {
			return
		}
		item()
	}
}

// table passes over the type of a table, and gives the number of elements that it begins with.
func (r *reader) table() uint32 {
	r.byte() // type of the elements
	return r.limits()
}

// limits passes over a minimum and, where there is one, a maximum, and gives the minimum.
func (r *reader) limits() uint32 {
	flags := r.byte()
	minimum := r.u32()
	if flags&1 != 0 {
		r.u32()
	}
	return minimum
}

// constant passes over an expression that gives a constant: an offset, or the first value of a global.
func (r *reader) constant() {
	for !r.bad {
		switch r.byte() {
		case 0x41, 0x42: // i32.const, i64.const
			r.signed()
		case 0x43: // f32.const
			r.bytes(4)
		case 0x44: // f64.const
			r.bytes(8)
		case 0x23, 0xd2: // global.get, ref.func
			r.u32()
		case 0xd0: // ref.null
			r.byte()
		case 0x0b: // end
			return
		default:
			r.fail()
		}
	}
}

// element passes over an element segment. The bits of its flags: 1, not active; 2, with a table index when active;
// 4, expressions instead of function indices.
func (r *reader) element() {
	flags := r.u32()
	if flags > 7 {
		r.fail()
	}
	if active := flags&1 == 0; active {
		if flags&2 != 0 {
			r.u32() // table
		}
		r.constant() // offset
	}
	if flags&3 != 0 {
		r.byte() // kind or type of the elements
	}
	if flags&4 != 0 {
		r.vector(r.constant)
	} else {
		r.vector(func() { r.u32() })
	}
}

// data passes over a data segment.
func (r *reader) data() {
	switch r.u32() {
	case 0: // active
		r.constant()
	case 1: // passive
	case 2: // active, with a memory index
		r.u32()
		r.constant()
	default:
		r.fail()
	}
	r.names()
}
