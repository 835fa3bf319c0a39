package admission

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/keywright/keywright/internal/contract"
)

// rewriting is the metered module. New items go to the end of their index spaces, so existing indices stay. Only
// references to imported functions change.
type rewriting struct {
	sections [sectionDataCount + 1]section
	added    []added
	// wrappers has the index of the wrapper of an imported function, which charges and calls it.
	wrappers map[uint32]uint32
	// chargeIndex is the index of the function that chargeFunction returns, or 0 before its first call.
	chargeIndex uint32
	// scratch is reused for each function.
	scratch []byte
}

// section is a section of the metered module: the number of its items, and their bytes.
type section struct {
	items int
	bytes []byte
}

type added struct {
	signature Signature
	// code has the locals and the instructions.
	code []byte
}

// begin sets a section that append may extend.
func (m *module) begin(id byte, items int, bytes []byte) {
	m.sections[id] = section{items, bytes[:len(bytes):len(bytes)]}
}

func (m *module) append(id byte, item []byte) {
	s := &m.sections[id]
	s.items++
	s.bytes = append(s.bytes, item...)
}

func appendNumber(out []byte, v uint32) []byte { return binary.AppendUvarint(out, uint64(v)) }

// appendSigned appends a number below 1<<63 as a signed number in LEB128.
func appendSigned(out []byte, v uint64) []byte {
	for {
		b := byte(v) & 0x7f
		v >>= 7
		if v == 0 && b&0x40 == 0 {
			return append(out, b)
		}
		out = append(out, b|0x80)
	}
}

func appendText(out []byte, text string) []byte {
	return append(appendNumber(out, uint32(len(text))), text...)
}

// patch copies a part of a module and replaces some of its numbers.
type patch struct {
	wasm []byte
	out  []byte
	// copied is the offset up to which wasm has been copied.
	copied int
}

func (p *patch) replace(begin, end int, text []byte) {
	p.out = append(append(p.out, p.wasm[p.copied:begin]...), text...)
	p.copied = end
}

func (p *patch) upTo(end int) []byte {
	if p.out == nil {
		return p.wasm[min(p.copied, end):end]
	}
	return append(p.out, p.wasm[p.copied:end]...)
}

// addExport adds an export. It refuses a name that occurs twice or is reserved for the host.
func (m *module) addExport(name string, e exported, r *reader, where int) {
	if r.failed() {
		return
	}
	if _, twice := m.exports[name]; twice {
		r.fail(where, fmt.Sprintf("there are two exports %q", cut(name)))
		return
	}
	if strings.HasPrefix(name, contract.ExportReserved) {
		m.refuseAt(fmt.Sprintf("its export %q has a name that begins with %q, which is the host's: rename it",
			cut(name), contract.ExportReserved), -1, where)
	}
	m.exports[name] = e
	if e.kind == kindFunction {
		m.names = append(m.names, name)
	}
}

// fuel returns the index of the global that holds the fuel.
func (m *module) fuel() uint32 { return uint32(len(m.globals)) }

func (m *module) add(s Signature, code []byte) uint32 {
	m.added = append(m.added, added{s, code})
	return uint32(len(m.functions) + len(m.added) - 1)
}

func (m *module) admitted() *Module {
	out := &Module{Exports: m.names, NotPooled: m.notPooled}
	for _, i := range m.imports {
		if !slices.Contains(out.Imports, i) { // which has no more than the ruleset
			out.Imports = append(out.Imports, i)
		}
	}
	for i, g := range m.globals {
		if g.mutable && g.value != funcref && g.value != externref {
			name := fmt.Sprintf("%s%d", globalExport, i)
			out.Globals = append(out.Globals, name)
			m.append(sectionExport, appendNumber(append(appendText(nil, name), kindGlobal), uint32(i)))
		}
	}
	if m.start >= 0 {
		out.Start = startExport
		m.append(sectionExport, appendNumber(append(appendText(nil, startExport), kindFunction), m.meteredRef(uint32(m.start))))
	}

	m.append(sectionGlobal, append(appendSigned([]byte{i64, 1, opI64Const}, uint64(m.limits.Fuel)), opEnd))
	m.append(sectionExport, appendNumber(append(appendText(nil, FuelExport), kindGlobal), m.fuel()))
	for _, f := range m.added {
		m.append(sectionFunction, appendNumber(nil, uint32(m.sections[sectionType].items)))
		t := append([]byte{0x60}, appendText(nil, f.signature.Params)...)
		m.append(sectionType, appendText(t, f.signature.Results))
		m.append(sectionCode, appendText(nil, string(f.code)))
	}
	out.Wasm = m.write()
	return out
}

func (m *module) write() []byte {
	size := len(magic)
	for _, s := range m.sections {
		size += len(s.bytes) + 12
	}
	out := append(make([]byte, 0, size), magic...)
	for _, l := range layout {
		if s := m.sections[l.id]; s.items > 0 {
			count := appendNumber(nil, uint32(s.items))
			out = appendNumber(append(out, l.id), uint32(len(count)+len(s.bytes)))
			out = append(append(out, count...), s.bytes...)
		}
	}
	return out
}
