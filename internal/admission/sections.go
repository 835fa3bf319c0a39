package admission

import (
	"fmt"

	"github.com/keywright/keywright/internal/contract"
)

func (m *module) readType(r *reader, _ *patch) {
	where := r.pos
	if form := r.byte(); form != 0x60 {
		r.fail(where, "a type is not that of a function: garbage collection is nothing that a plugin needs")
	}
	t := Signature{Params: r.typeList(maxParams, "parameters of a type"), Results: r.typeList(maxResults, "results of a type")}
	m.types = append(m.types, t)
	m.work += (len(t.Params) + len(t.Results)) / 8 // wazero makes an entry for each
}

func (r *reader) typeList(limit int, things string) string {
	n := r.atMost(limit, things)
	begin := r.pos
	for range n {
		r.valueType()
	}
	return string(r.wasm[begin:r.pos])
}

func (m *module) readImport(r *reader, p *patch) {
	where := r.pos
	imported := Import{r.name(), r.name()}
	kind := r.byte()
	var t Signature
	switch kind {
	case kindFunction:
		function := r.index(len(m.types), "type")
		if r.failed() {
			return
		}
		t = m.types[function]
		m.imports = append(m.imports, imported)
		m.functions = append(m.functions, function)
	case kindTable:
		m.readTable(r, p)
	case kindMemory:
		m.readMemory(r, p)
	case kindGlobal:
		m.readGlobalType(r)
		m.importedGlobals++
	default:
		r.fail(where, "an import is of a kind that a plugin does not need")
	}
	if r.failed() {
		return
	}
	if reason := m.rules.checkImport(imported, kind, t); reason != "" {
		m.refuseAt(reason, -1, where)
	}
	if imported == (Import{contract.ModuleWASI, wasiClose}) {
		m.setNotPooled("it imports fd_close, which cannot be undone")
	}
}

func (m *module) readFunction(r *reader, _ *patch) {
	m.functions = append(m.functions, r.index(len(m.types), "type"))
}

func (m *module) readTable(r *reader, _ *patch) {
	t := table{element: r.refType()}
	where := r.pos
	flags := r.byte()
	if flags > 1 {
		r.fail(where, "a table is of a kind that a plugin does not need")
	}
	t.min, t.bounded = r.u32(), flags == 1
	if t.bounded {
		where = r.pos
		if t.max = r.u32(); t.max < t.min {
			r.fail(where, "the maximum of a table is less than its minimum")
		}
	}
	m.tables = append(m.tables, t)
}

// readMemory reads a memory, and writes it with a maximum. The limit is not the maximum: the host refuses to grow a memory beyond its
// limit, and so knows that the guest wanted more.
func (m *module) readMemory(r *reader, p *patch) {
	begin, where := r.pos, r.pos
	flags := r.byte()
	switch {
	case flags&2 != 0:
		r.fail(where, "it has shared memory, but threads are nothing that a plugin needs")
	case flags&4 != 0:
		r.fail(where, "it has a 64-bit memory, which a plugin does not need")
	case flags > 1:
		r.fail(where, "a memory is of a kind that a plugin does not need")
	}
	where = r.pos
	pages, limit := r.u32(), uint32(MaxPages)
	if flags == 1 {
		if limit = r.u32(); limit < pages || limit > MaxPages {
			r.fail(where, "the maximum of the memory is less than its minimum, or more than 65536 pages")
		}
	}
	if pages > m.limits.pages() {
		r.fail(where, fmt.Sprintf("its memory begins with %d pages of 64 KiB, which is over the limit of %d pages", pages, m.limits.pages()))
	}
	m.memories = append(m.memories, pages)
	if len(m.memories) > 1 {
		r.fail(where, "it has more than one memory, which a plugin does not need")
	}
	p.replace(begin, r.pos, appendNumber(appendNumber([]byte{1}, pages), limit))
}

func (m *module) readGlobal(r *reader, p *patch) {
	g := m.readGlobalType(r)
	m.readConstant(r, p, g.value)
}

func (m *module) readGlobalType(r *reader) global {
	g := global{value: r.valueType()}
	where := r.pos
	mutable := r.byte()
	if mutable > 1 {
		r.fail(where, "a global is of a kind that a plugin does not need")
	}
	g.mutable = mutable == 1
	if g.mutable && (g.value == funcref || g.value == externref) {
		m.setNotPooled(fmt.Sprintf("global %d is mutable and no number", len(m.globals)))
	}
	m.globals = append(m.globals, g)
	return g
}

func (m *module) readExport(r *reader, p *patch) {
	where := r.pos
	name, kind := r.name(), r.byte()
	var index uint32
	switch kind {
	case kindFunction:
		index = m.reference(r, p)
	case kindTable:
		index = r.index(len(m.tables), "table")
	case kindMemory:
		index = r.index(len(m.memories), "memory")
	case kindGlobal:
		index = r.index(len(m.globals), "global")
	default:
		r.fail(where, "an export is of a kind that a plugin does not need")
	}
	m.addExport(name, exported{kind, index}, r, where)
}

// readStart reads the start section but does not copy it. If a start function failed while wazero makes an instance, there would be no
// instance whose fuel the host could read. So the host calls the function through an export, first of all.
func (m *module) readStart(r *reader) {
	where := r.pos
	start := r.index(len(m.functions), "function")
	if r.failed() {
		return
	}
	if m.typeOf(start) != (Signature{}) {
		r.fail(where, "the function to start with has parameters or results")
		return
	}
	m.start = int(start)
}

// reference reads the index of a function, and replaces it by that of the function's wrapper if there is one. A reference makes the
// function callable through tables and exports.
func (m *module) reference(r *reader, p *patch) uint32 {
	where := r.pos
	function := r.index(len(m.functions), "function")
	if r.failed() {
		return 0
	}
	m.declared[function] = true
	if metered := m.meteredRef(function); metered != function {
		p.replace(where, r.pos, appendNumber(nil, metered))
	}
	return function
}

// readConstant reads a constant expression of type want: an offset, an element, or the initial value of a global. constant
// reports whether it is an i32 literal, and value is that literal.
func (m *module) readConstant(r *reader, p *patch, want byte) (value uint32, constant bool) {
	where := r.pos
	var got byte
	switch op := r.byte(); op {
	case opI32Const:
		value, constant, got = uint32(r.signed(32)), true, i32
	case opI64Const:
		r.signed(64)
		got = i64
	case opF32Const:
		r.bytes(4)
		got = f32
	case opF64Const:
		r.bytes(8)
		got = f64
	case opGlobalGet:
		if g := r.index(m.importedGlobals, "imported global"); !r.failed() {
			got = m.globals[g].value
		}
	case opRefNull:
		got = r.refType()
	case opRefFunc:
		m.reference(r, p)
		got = funcref
	default:
		r.fail(where, "what has to be a constant is none that a plugin needs")
	}
	if got != want {
		r.fail(where, "a constant is of the wrong type")
	}
	where = r.pos
	if r.byte() != opEnd {
		r.fail(where, "a constant goes on after its value")
	}
	return value, constant
}

// readElementSegment reads an element segment, which has flags. 1: the segment is not active. 2: an active segment has the index of a
// table, and a segment that is not active is declarative. 4: the elements are expressions instead of indices of functions.
func (m *module) readElementSegment(r *reader, p *patch) {
	where := r.pos
	flags := r.u32()
	if flags > 7 {
		r.fail(where, "an element segment is of a kind that a plugin does not need")
		return
	}
	var into, offset uint32
	var constant bool
	active := flags&1 == 0
	if active {
		if flags&2 != 0 {
			into = r.index(len(m.tables), "table")
		}
		offset, constant = m.readConstant(r, p, i32)
	}
	element := byte(funcref)
	if flags&3 != 0 {
		if flags&4 != 0 {
			element = r.refType()
		} else if r.byte() != 0 {
			r.fail(where, "an element segment is of a kind that a plugin does not need")
		}
	}
	listed := r.pos
	n := r.count()
	if m.listed += n; m.listed > maxElements {
		r.fail(listed, fmt.Sprintf("there are %d elements, and %d are allowed", m.listed, maxElements))
	}
	for i := 0; i < n && !r.failed(); i++ {
		if flags&4 != 0 {
			m.readConstant(r, p, element)
		} else {
			m.reference(r, p)
		}
	}
	m.elements = append(m.elements, element)
	if active && !r.failed() {
		switch {
		case int(into) >= len(m.tables):
			r.fail(where, "there is no table for an element segment")
		case m.tables[into].element != element:
			r.fail(where, "an element segment is of another type than its table")
		case constant && uint64(offset)+uint64(n) > uint64(m.tables[into].min):
			r.fail(where, "an element segment ends beyond its table, so that the module can never start")
		}
	}
}

func (m *module) readDataSegment(r *reader, p *patch) {
	where := r.pos
	flags := r.u32()
	var offset uint32
	var constant bool
	switch flags {
	case 2:
		r.index(len(m.memories), "memory")
		fallthrough
	case 0:
		if len(m.memories) == 0 {
			r.fail(where, "there is no memory for a data segment")
		}
		offset, constant = m.readConstant(r, p, i32)
	case 1:
	default:
		r.fail(where, "a data segment is of a kind that a plugin does not need")
	}
	n := len(r.bytes(r.u32()))
	if constant && !r.failed() && uint64(offset)+uint64(n) > uint64(m.memories[0])<<16 {
		r.fail(where, "a data segment ends beyond the memory, so that the module can never start")
	}
}
