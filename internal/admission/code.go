package admission

import "fmt"

// body validates the code of one function. It follows the algorithm in the specification's appendix, with a stack of types and a stack of
// blocks, and collects the edits of metering on the way. https://www.w3.org/TR/wasm-core-2/#validation-algorithm
type body struct {
	reader
	m        *module
	function uint32
	// locals has the type of each local, parameters first.
	locals []byte
	// values is the stack of types.
	values []byte
	blocks []block
	edits  []edit
	// lengths is set if an edit needs an additional local for a length.
	lengths bool
	effort
}

type block struct {
	op byte
	// start and end are the types of its parameters and results.
	start, end string
	// height is the height of the stack below the block.
	height int
	// unreachable is set if the rest of the block cannot be reached.
	unreachable bool
	// copies is the value of effort.copies at the beginning of the block.
	copies int
	// charge is the index of the edit that charges for the block's instructions.
	charge int
}

// readCode reads the code section. It checks all functions, also when one is refused.
func (m *module) readCode(r *reader) {
	n := r.atMost(maxFunctions, "functions with code")
	if n != len(m.functions)-len(m.imports) {
		r.fail(r.pos, "there is more or less code than functions")
		return
	}
	out := make([]byte, 0, r.remaining()+r.remaining()/8)
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
	if r.remaining() > maxBodyBytes {
		b.fail(r.pos, fmt.Sprintf("its code has %d bytes, and %d are allowed: split it", r.remaining(), maxBodyBytes))
		return out
	}
	begin := b.pos
	b.readLocals()
	code := b.pos
	t := m.typeOf(function)
	b.blocks = append(b.blocks, block{op: opCall, end: t.Results})
	b.edit(edit{pos: b.pos, kind: editCharge})
	peak := 0 // height of the stack
	for len(b.blocks) > 0 && !b.failed() {
		b.instruction()
		peak = max(peak, len(b.values))
	}
	if b.remaining() > 0 {
		b.fail(b.pos, "its code goes on after its end")
	}
	b.checkEffort()
	if b.failed() {
		return out
	}
	// The frame has room for all locals and values, also for values of unreachable code.
	b.edits[0].value += weightFrame * uint64(max(0, len(b.locals)+peak-freeFrame))
	return b.meter(begin, code, out)
}

func (b *body) readLocals() {
	b.locals = append(b.locals, b.m.typeOf(b.function).Params...)
	params := len(b.locals)
	for n := b.count(); n > 0 && !b.failed(); n-- {
		where := b.pos
		many := b.u32()
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
		b.fail(b.pos, fmt.Sprintf("with it, all functions have more than %d locals: split the largest", maxAllLocals))
	}
}

func (b *body) push(types string) { b.values = append(b.values, types...) }

// pop removes a value of type want from the stack, or of any type if want is unknown, and returns its type.
func (b *body) pop(want byte) byte {
	in := &b.blocks[len(b.blocks)-1]
	if len(b.values) == in.height {
		if !in.unreachable {
			b.fail(b.pos, "an instruction lacks an operand")
		}
		return want
	}
	got := b.values[len(b.values)-1]
	b.values = b.values[:len(b.values)-1]
	if got != want && got != unknown && want != unknown {
		b.fail(b.pos, "an instruction has an operand of the wrong type")
	}
	if got == unknown {
		return want
	}
	return got
}

func (b *body) popAll(types string) {
	for i := len(types) - 1; i >= 0; i-- {
		if in := &b.blocks[len(b.blocks)-1]; in.unreachable && len(b.values) == in.height {
			return // unreachable code may take any number of values of any type
		}
		b.pop(types[i])
	}
}

func (b *body) setUnreachable() {
	in := &b.blocks[len(b.blocks)-1]
	b.values = b.values[:in.height]
	in.unreachable = true
}

func (b *body) open(op byte) {
	where := b.pos
	start, end := b.blockType()
	if op == opIf {
		b.pop(i32)
	}
	b.popAll(start)
	if op == opLoop {
		b.branch(loopBranches)
		b.depth++
		b.deepest = max(b.deepest, b.depth)
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
		b.edit(edit{pos: b.pos, kind: editCharge, value: 1})
	}
	b.blocks = append(b.blocks, block{op: op, start: start, end: end, height: len(b.values), copies: b.copies, charge: charge})
	b.push(start)
}

func (b *body) blockType() (start, end string) {
	where := b.pos
	switch first := b.wasm[min(b.pos, len(b.wasm)-1)]; {
	case first == emptyBlock:
		b.byte()
		return "", ""
	case first < emptyBlock || first >= 0x80: // the index of a type, encoded as a signed number
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
	return "", string([]byte{b.valueType()})
}

// close removes the innermost block, checks that exactly its results are on the stack, and returns it.
func (b *body) close() block {
	in := b.blocks[len(b.blocks)-1]
	b.popAll(in.end)
	if len(b.values) != in.height {
		b.fail(b.pos, "a block leaves more than its results")
	}
	b.blocks = b.blocks[:len(b.blocks)-1]
	return in
}

func (b *body) endBlock() {
	in := b.close()
	if in.op == opLoop {
		b.depth--
		b.looped += min(b.copies-in.copies, len(b.locals)) + len(in.start)
	}
	if in.op == opIf && in.start != in.end {
		b.fail(b.pos, "an if without an else has results")
	}
	b.push(in.end)
}

func (b *body) elseBranch() {
	in := b.close()
	if in.op != opIf {
		b.fail(b.pos, "there is an else without an if")
		return
	}
	in.op, in.unreachable = opElse, false
	b.blocks = append(b.blocks, in)
	b.push(in.start)
}

// label reads a label and returns the types of the values that a branch to it takes.
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
	where := b.pos
	n := b.count()
	if n > b.m.rules.maxTargets {
		b.fail(where, fmt.Sprintf("a br_table has %d targets, and %d are allowed", n, b.m.rules.maxTargets))
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
	b.setUnreachable()
}

// peek checks that values of these types are on top of the stack, and leaves them there.
func (b *body) peek(types string) {
	in := b.blocks[len(b.blocks)-1]
	for i := 1; i <= len(types); i++ {
		pos := len(b.values) - i
		if pos < in.height {
			if !in.unreachable {
				b.fail(b.pos, "a branch lacks a value")
			}
			return
		}
		if got := b.values[pos]; got != types[len(types)-i] && got != unknown {
			b.fail(b.pos, "a branch has a value of the wrong type")
			return
		}
	}
}
