package admission

import "fmt"

// body is the code of one function while it is validated: the algorithm of the appendix of the specification, with a
// stack of types and a stack of blocks. On the way it notes what metering has to write where.
// https://www.w3.org/TR/wasm-core-2/#validation-algorithm
type body struct {
	reader
	m        *module
	function uint32
	locals   []byte // type of each, parameters first
	values   []byte // types on the stack
	blocks   []block
	edits    []edit
	lengths  bool // some edit needs a local for a length
	effort
}

type block struct {
	op           byte
	start, end   string // what is on the stack at its beginning and after its end
	height       int    // of the stack below it
	nothingComes bool   // the rest of it cannot be reached
	copies       int    // of locals that came before it
	charge       int    // the edit that pays for what is in it
}

// readCode reads the code section. A function that is refused does not keep the others from being looked at.
func (m *module) readCode(r *reader) {
	n := r.atMost(maxFunctions, "functions with code")
	if n != len(m.functions)-len(m.imports) {
		r.fail(r.at, "there is more or less code than functions")
		return
	}
	if m.declared == nil {
		m.declared = make([]bool, len(m.functions))
	}
	out := make([]byte, 0, r.left()+r.left()/8)
	for ; m.bodies < n && !m.broken; m.bodies++ {
		code := r.sub(r.u32())
		if r.failed() {
			return
		}
		function := uint32(len(m.imports) + m.bodies)
		if out = m.readBody(code, function, out); m.code.failed() {
			m.refuseAt(m.code.fault, int(function), m.code.where)
		}
	}
	m.begin(sectionCode, n, out)
}

func (m *module) readBody(r reader, function uint32, out []byte) []byte {
	b := &m.code
	*b = body{reader: r, m: m, function: function, locals: b.locals[:0], values: b.values[:0], blocks: b.blocks[:0], edits: b.edits[:0]}
	if r.left() > maxBodyBytes {
		b.fail(r.at, fmt.Sprintf("its code has %d bytes, and %d are allowed: split it", r.left(), maxBodyBytes))
		return out
	}
	m.pristine.enter()
	begin := b.at
	b.readLocals()
	code := b.at
	t := m.typeOf(function)
	b.blocks = append(b.blocks, block{op: opCall, end: t.Results})
	b.edit(edit{at: b.at, kind: editCharge})
	peak := 0 // of the values on the stack
	for len(b.blocks) > 0 && !b.failed() {
		b.instruction()
		peak = max(peak, len(b.values))
	}
	if b.left() > 0 {
		b.fail(b.at, "its code goes on after its end")
	}
	b.checkEffort()
	if b.failed() {
		return out
	}
	// The frame has room for all of them, also for those of code that is never reached.
	b.edits[0].value += weightFrame * uint64(max(0, len(b.locals)+peak-freeFrame))
	return b.meter(begin, code, out)
}

func (b *body) readLocals() {
	b.locals = append(b.locals, b.m.typeOf(b.function).Params...)
	params := len(b.locals)
	for n := b.count(); n > 0 && !b.failed(); n-- {
		where, many := b.at, b.u32()
		t := b.valueType()
		if uint64(len(b.locals)-params)+uint64(many) > uint64(maxLocals) {
			b.fail(where, fmt.Sprintf("it has more than %d locals: split it", maxLocals))
			return
		}
		for range many {
			b.locals = append(b.locals, t)
		}
	}
	if b.m.locals += len(b.locals) - params; b.m.locals > maxAllLocals {
		b.fail(b.at, fmt.Sprintf("with it, all functions have more than %d locals: split the largest", maxAllLocals))
	}
}

// Stack of types.

func (b *body) push(types string) { b.values = append(b.values, types...) }

// pop takes a value of a type off the stack; unknown is any. It gives the type that was there.
func (b *body) pop(want byte) byte {
	in := &b.blocks[len(b.blocks)-1]
	if len(b.values) == in.height {
		if !in.nothingComes {
			b.fail(b.at, "an instruction lacks an operand")
		}
		return want
	}
	got := b.values[len(b.values)-1]
	b.values = b.values[:len(b.values)-1]
	if got != want && got != unknown && want != unknown {
		b.fail(b.at, "an instruction has an operand of the wrong type")
	}
	if got == unknown {
		return want
	}
	return got
}

func (b *body) popAll(types string) {
	for i := len(types) - 1; i >= 0; i-- {
		if in := &b.blocks[len(b.blocks)-1]; in.nothingComes && len(b.values) == in.height {
			return // the rest is there, whatever it is
		}
		b.pop(types[i])
	}
}

// nothingComes says that what follows in this block cannot be reached.
func (b *body) nothingComes() {
	in := &b.blocks[len(b.blocks)-1]
	b.values = b.values[:in.height]
	in.nothingComes = true
}

// Blocks.

func (b *body) open(op byte) {
	where := b.at
	start, end := b.blockType()
	if op == opIf {
		b.pop(i32)
	}
	b.popAll(start)
	if op == opLoop {
		b.beginLoop()
	} else {
		b.branch(1)
	}
	b.carry(len(start) + len(end))
	if len(b.blocks) > maxNesting {
		b.fail(where, fmt.Sprintf("its blocks are nested more than %d deep: split it", maxNesting))
		return
	}
	charge := b.blocks[len(b.blocks)-1].charge
	if op == opLoop {
		charge = len(b.edits)
		b.edit(edit{at: b.at, kind: editCharge, value: 1})
	}
	b.blocks = append(b.blocks, block{op: op, start: start, end: end, height: len(b.values), copies: b.copies, charge: charge})
	b.push(start)
}

// singles are lists of one value type, without making a string for each.
var singles = map[byte]string{i32: ofI32, i64: ofI64, f32: ofF32, f64: ofF64, funcref: "\x70", externref: "\x6f"}

func (b *body) blockType() (start, end string) {
	where := b.at
	switch first := b.wasm[min(b.at, len(b.wasm)-1)]; {
	case first == emptyBlock:
		b.byte()
		return "", ""
	case first < emptyBlock || first >= 0x80: // the index of a type, as a signed number
		index := b.signed(33)
		if index < 0 || index >= int64(len(b.m.types)) {
			b.fail(where, "a block is of a type that is none")
			return "", ""
		}
		t := b.m.types[index]
		if len(t.Params) > maxResults {
			b.fail(where, fmt.Sprintf("a block has more than %d parameters", maxResults))
		}
		return t.Params, t.Results
	}
	return "", singles[b.valueType()]
}

// close checks what a block leaves on the stack, and gives the block.
func (b *body) close() block {
	in := b.blocks[len(b.blocks)-1]
	b.popAll(in.end)
	if len(b.values) != in.height {
		b.fail(b.at, "a block leaves more than its results")
	}
	b.blocks = b.blocks[:len(b.blocks)-1]
	return in
}

func (b *body) endBlock() {
	in := b.close()
	if in.op == opLoop {
		b.endLoop(in.copies, len(in.start))
	}
	if in.op == opIf && in.start != in.end {
		b.fail(b.at, "an if without an else has results")
	}
	if len(b.blocks) > 0 {
		b.push(in.end)
	}
}

func (b *body) otherwise() {
	in := b.close()
	if in.op != opIf {
		b.fail(b.at, "there is an else without an if")
		return
	}
	in.op, in.nothingComes = opElse, false
	b.blocks = append(b.blocks, in)
	b.push(in.start)
}

// label returns the types that a branch to the block so many out has to bring.
func (b *body) label() string {
	depth := b.index(len(b.blocks), "block to branch to, so many out:")
	if b.failed() {
		return ""
	}
	to := b.blocks[len(b.blocks)-1-int(depth)]
	if to.op == opLoop {
		return to.start
	}
	return to.end
}

func (b *body) branchTable() {
	b.pop(i32)
	where := b.at
	n := b.count()
	if n > b.m.rules.targets {
		b.fail(where, fmt.Sprintf("a br_table has %d targets, and %d are allowed", n, b.m.rules.targets))
		return
	}
	previous, first := "", true
	for i := 0; i <= n && !b.failed(); i++ {
		types := b.label()
		if !first && len(types) != len(previous) {
			b.fail(where, "the targets of a br_table take different things")
		}
		if first || types != previous {
			b.peek(types)
		}
		b.carry(len(types))
		b.joins++
		previous, first = types, false
	}
	b.nothingComes()
}

// peek checks that what is on the stack could be popped.
func (b *body) peek(types string) {
	in := b.blocks[len(b.blocks)-1]
	for i := 1; i <= len(types); i++ {
		at := len(b.values) - i
		if at < in.height {
			if !in.nothingComes {
				b.fail(b.at, "a branch lacks a value")
			}
			return
		}
		if got := b.values[at]; got != types[len(types)-i] && got != unknown {
			b.fail(b.at, "a branch has a value of the wrong type")
			return
		}
	}
}
