package admission

import "fmt"

func (b *body) instruction() {
	where := b.pos
	op := b.byte()
	b.instructions++
	if p := &plains[op]; p.weight > 0 {
		b.simple(p)
		b.previous = op
		return
	}
	weight := uint64(1)
	charge := b.blocks[len(b.blocks)-1].charge
	switch op {
	case opUnreachable:
		b.setUnreachable()
	case opNop:
	case opBlock, opLoop, opIf:
		b.open(op)
	case opElse:
		b.elseBranch()
	case opEnd:
		b.endBlock()
	case opBr:
		b.popAll(b.label())
		b.setUnreachable()
	case opBrIf:
		types := b.label()
		b.pop(i32)
		b.branch(1)
		b.carry(len(types))
		b.popAll(types)
		b.push(types)
	case opBrTable:
		b.branchTable()
	case opReturn:
		b.popAll(b.blocks[0].end)
		b.setUnreachable()
	case opCall:
		weight = b.call()
	case opCallIndirect:
		weight = b.callIndirect()
	default:
		b.data(op, where)
	}
	b.edits[charge].value += weight
	if op != opLocalTee {
		b.previous = op
	}
}

func (b *body) simple(p *plain) {
	b.edits[b.blocks[len(b.blocks)-1].charge].value += uint64(p.weight)
	if p.work > 0 {
		b.work += int(p.work)
	} else {
		b.plain++
	}
	if p.align > 0 {
		b.needMemory()
		where := b.pos
		if b.u32() >= uint32(p.align) {
			b.fail(where, "an access to memory is aligned more than its size")
		}
		b.u32() // offset
	}
	b.popAll(p.operands)
	b.push(p.result)
}

func (b *body) needMemory() {
	if len(b.m.memories) == 0 {
		b.fail(b.pos, "it uses memory, but there is none")
	}
}

// call validates a call and returns its weight. A host function that is metered by a length is replaced by its wrapper.
func (b *body) call() uint64 {
	where := b.pos
	function := b.index(len(b.m.functions), "function")
	if b.failed() {
		return 0
	}
	t := b.m.typeOf(function)
	b.carry(len(t.Params) + len(t.Results))
	b.popAll(t.Params)
	b.push(t.Results)
	switch {
	case int(function) >= len(b.m.imports):
		return weightCall + passing(t)
	case b.m.rules.imports[b.m.imports[function]].meter.unit == byNothing:
		return weightHost
	}
	b.edit(edit{pos: where, skip: b.pos - where, kind: editNumber, value: uint64(b.m.meteredRef(function))})
	return weightCall + passing(t)
}

func passing(t Signature) uint64 { return weightPassed * uint64(len(t.Params)+len(t.Results)) }

func (b *body) callIndirect() uint64 {
	index := b.index(len(b.m.types), "type")
	where := b.pos
	in := b.index(len(b.m.tables), "table")
	if b.failed() {
		return 0
	}
	if b.m.tables[in].element != funcref {
		b.fail(where, "a call goes through a table that has no functions")
	}
	t := b.m.types[index]
	b.work += 4
	b.carry(len(t.Params) + len(t.Results))
	b.pop(i32)
	b.popAll(t.Params)
	b.push(t.Results)
	return weightIndirect + passing(t)
}

// data validates instructions that are neither plain nor control instructions.
func (b *body) data(op byte, where int) {
	switch op {
	case opDrop:
		b.pop(unknown)
	case opSelect:
		b.pop(i32)
		one := b.pop(unknown)
		if kind := b.pop(one); kind != unknown {
			one = kind
		}
		if one == funcref || one == externref {
			b.fail(where, "a select of references does not say so")
		}
		b.values = append(b.values, one)
	case opSelectTyped:
		if b.u32() != 1 {
			b.fail(where, "a select is of more or less than one type")
		}
		t := b.valueType()
		b.pop(i32)
		b.pop(t)
		b.pop(t)
		b.values = append(b.values, t)
	case opLocalGet, opLocalSet, opLocalTee, opGlobalGet, opGlobalSet:
		b.variable(op, where)
	case opMemorySize, opMemoryGrow:
		b.needMemory()
		if b.byte() != 0 {
			b.fail(where, "there is only memory 0")
		}
		if op == opMemoryGrow {
			b.pop(i32)
			b.byLength(where, units{b.m.limits.pages(), opI64Shl, 13}, weightHost) // pages are cleared, or copied
		}
		b.push(ofI32)
	case opI32Const:
		b.signed(32)
		b.push(ofI32)
	case opI64Const:
		b.signed(64)
		b.push(ofI64)
	case opF32Const:
		b.bytes(4)
		b.push(ofF32)
	case opF64Const:
		b.bytes(8)
		b.push(ofF64)
	default:
		b.references(op, where)
	}
}

func (b *body) variable(op byte, where int) {
	if op == opGlobalGet || op == opGlobalSet {
		index := b.index(len(b.m.globals), "global")
		if b.failed() {
			return
		}
		g := b.m.globals[index]
		if op == opGlobalGet {
			b.values = append(b.values, g.value)
			return
		}
		if !g.mutable {
			b.fail(where, "it sets a global that is not mutable")
		}
		b.pop(g.value)
		return
	}
	index := b.index(len(b.locals), "local")
	if b.failed() {
		return
	}
	t := b.locals[index]
	if op != opLocalGet {
		b.pop(t)
		b.set()
	}
	if op != opLocalSet {
		b.values = append(b.values, t)
	}
}

// references validates the instructions on references and tables with an opcode of one byte.
func (b *body) references(op byte, where int) {
	switch op {
	case opTableGet, opTableSet:
		t := b.table()
		b.work += 2
		if op == opTableSet {
			b.pop(t.element)
			b.stateful("table.set")
		}
		b.pop(i32)
		if op == opTableGet {
			b.values = append(b.values, t.element)
		}
	case opRefNull:
		b.values = append(b.values, b.refType())
	case opRefIsNull:
		if t := b.pop(unknown); t != funcref && t != externref && t != unknown {
			b.fail(where, "a number is taken for a reference")
		}
		b.push(ofI32)
	case opRefFunc:
		operand := b.pos
		function := b.index(len(b.m.functions), "function")
		if b.failed() {
			return
		}
		if !b.m.declared[function] {
			b.fail(where, "it refers to a function without declaring so")
		}
		b.work++
		b.setCost(weightHost)
		if metered := b.m.meteredRef(function); metered != function {
			b.edit(edit{pos: operand, skip: b.pos - operand, kind: editNumber, value: uint64(metered)})
		}
		b.values = append(b.values, funcref)
	case opMore:
		b.more(where)
	default:
		if uses := proposal(op); uses != "" {
			b.fail(where, "it uses "+uses+", which a plugin does not need")
		}
		b.fail(where, fmt.Sprintf("there is no instruction %#x", op))
	}
}

func (b *body) table() table {
	index := b.index(len(b.m.tables), "table")
	if b.failed() {
		return table{element: funcref}
	}
	return b.m.tables[index]
}

// stateful records that the function changes state that the host cannot reset.
func (b *body) stateful(instruction string) {
	b.m.setNotPooled(fmt.Sprintf("function %d uses %s, which cannot be undone", b.function, instruction))
}

// more validates the instructions whose opcode follows the prefix 0xfc.
func (b *body) more(where int) {
	op := b.u32()
	if op/2 < uint32(len(saturating)) {
		b.work++
		b.popAll(saturating[op/2].Params)
		b.push(saturating[op/2].Results)
		return
	}
	switch op {
	case moreMemoryInit, moreDataDrop:
		if b.m.segments < 0 {
			b.fail(where, "it uses data segments, but their number is not announced")
		}
		b.index(b.m.segments, "data segment")
		if op == moreDataDrop {
			b.stateful("data.drop")
			return
		}
		b.memoryOperation(where, 1)
	case moreMemoryCopy:
		b.memoryOperation(where, 2)
	case moreMemoryFill:
		b.memoryOperation(where, 1)
	case moreTableSize:
		b.table()
		b.push(ofI32)
	case moreTableInit, moreElemDrop, moreTableCopy, moreTableGrow, moreTableFill:
		b.stateful(tableOperations[op])
		b.tableOperation(op, where)
	default:
		b.fail(where, fmt.Sprintf("there is no instruction 0xfc %#x", op))
	}
}

// memoryOperation validates a bulk operation on memory. It takes three numbers, the last of which is a length in bytes.
func (b *body) memoryOperation(where, memories int) {
	b.needMemory()
	for range memories {
		if b.byte() != 0 {
			b.fail(where, "there is only memory 0")
		}
	}
	b.popAll(ofI32 + ofI32 + ofI32)
	b.byLength(where, ofBytes, weightBulk)
}

// tableOperations has the names of the instructions that change tables.
var tableOperations = map[uint32]string{
	moreElemDrop: "elem.drop", moreTableInit: "table.init", moreTableCopy: "table.copy", moreTableFill: "table.fill", moreTableGrow: "table.grow",
}

func (b *body) tableOperation(op uint32, where int) {
	switch op {
	case moreElemDrop:
		b.index(len(b.m.elements), "element segment")
		return
	case moreTableInit:
		segment := b.index(len(b.m.elements), "element segment")
		if t := b.table(); !b.failed() && t.element != b.m.elements[segment] {
			b.fail(where, "an element segment is of another type than the table")
		}
		b.popAll(ofI32 + ofI32 + ofI32)
	case moreTableCopy:
		if to, from := b.table(), b.table(); to.element != from.element {
			b.fail(where, "a table is copied to one of another type")
		}
		b.popAll(ofI32 + ofI32 + ofI32)
	case moreTableFill:
		t := b.table()
		b.pop(i32)
		b.pop(t.element)
		b.pop(i32)
	case moreTableGrow:
		index := b.index(len(b.m.tables), "table")
		if b.failed() {
			return
		}
		b.m.tables[index].grows = true
		b.pop(i32)
		b.pop(b.m.tables[index].element)
		b.push(ofI32)
		b.byLength(where, units{maxTableElements, opI64Shl, 1}, weightHost)
		return
	}
	b.byLength(where, ofElements, weightBulk)
}
