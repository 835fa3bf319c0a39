package admission

import "fmt"

// edit is a change that metering makes in a function's code.
type edit struct {
	// pos is the offset of the change, and skip the number of bytes that it replaces.
	pos, skip int
	kind      editKind
	value     uint64
	length    units
}

type editKind byte

const (
	// editCharge takes value units from the fuel and traps if it runs out.
	editCharge editKind = iota
	// editNumber replaces a number by value.
	editNumber
	// editLength charges for the length on top of the stack.
	editLength
)

// units converts a length to units of fuel: shift is the instruction that shifts it by bits. If limit is not 0, lengths
// above it are charged as limit: to grow by more fails.
type units struct {
	limit       uint32
	shift, bits byte
}

var (
	ofBytes    = units{0, opI64ShrU, 2} // of memory.fill, copy and init; 16 MiB take 1.6 ms the first time
	ofElements = units{0, opI64Shl, 1}  // of table.fill, copy and init
)

// edit adds an edit. Calls must come in the order of the offsets.
func (b *body) edit(e edit) { b.edits = append(b.edits, e) }

// setCost changes the cost of the current instruction from 1 to weight.
func (b *body) setCost(weight uint64) { b.edits[b.blocks[len(b.blocks)-1].charge].value += weight - 1 }

// byLength sets the cost of the instruction at where, and adds a charge for the length on top of the stack.
func (b *body) byLength(where int, length units, weight uint64) {
	b.setCost(weight)
	b.lengths = true
	b.branch(bulkBranches)
	b.edit(edit{pos: where, kind: editLength, length: length})
}

// meter appends the function with its edits to out. begin and code are the offsets of its locals and its instructions.
func (b *body) meter(begin, code int, out []byte) []byte {
	m := b.m
	fresh := m.scratch[:0]
	length := uint32(len(b.locals)) // index of the additional local
	if b.lengths {                  // the declarations have one more local, of type i32
		r := reader{wasm: b.wasm, pos: begin, end: code}
		fresh = appendNumber(fresh, r.u32()+1)
		fresh = append(append(fresh, b.wasm[r.pos:code]...), 1, i32)
	} else {
		fresh = append(fresh, b.wasm[begin:code]...)
	}
	copied := code
	for _, e := range b.edits {
		fresh = append(fresh, b.wasm[copied:e.pos]...)
		copied = e.pos + e.skip
		switch e.kind {
		case editCharge:
			fresh = m.appendCharge(fresh, e.value)
		case editNumber:
			fresh = appendNumber(fresh, uint32(e.value))
		case editLength:
			fresh = appendNumber(append(fresh, opLocalTee), length)
			fresh = m.appendUnits(fresh, length, e.length)
		}
	}
	fresh = append(fresh, b.wasm[copied:b.end]...)
	m.scratch = fresh
	return append(appendNumber(out, uint32(len(fresh))), fresh...)
}

// appendCharge appends code that takes units from the fuel and traps if the fuel runs out.
func (m *module) appendCharge(out []byte, units uint64) []byte {
	out = appendNumber(append(out, opGlobalGet), m.fuel())
	out = appendSigned(append(out, opI64Const), units)
	return m.appendDeduct(out)
}

// appendDeduct appends code that sets the fuel to that on the stack less the units on top, and traps below zero.
func (m *module) appendDeduct(out []byte) []byte {
	out = appendNumber(append(out, opI64Sub, opGlobalSet), m.fuel())
	out = appendNumber(append(out, opGlobalGet), m.fuel())
	return append(out, opI64Const, 0, opI64LtS, opIf, emptyBlock, opUnreachable, opEnd)
}

// appendUnits appends code that charges for the length in a local.
func (m *module) appendUnits(out []byte, local uint32, u units) []byte {
	out = appendNumber(append(out, opLocalGet), local)
	if u.limit > 0 {
		out = appendSigned(append(out, opI32Const), uint64(u.limit))
		out = appendNumber(append(out, opLocalGet), local)
		out = appendSigned(append(out, opI32Const), uint64(u.limit))
		out = append(out, opI32LtU, opSelect)
	}
	out = append(out, opI64ExtendU, opI64Const, u.bits, u.shift, opCall)
	return appendNumber(out, m.chargeFunction())
}

// chargeFunction returns the index of an added function of type (i64) → () that charges its argument in units.
func (m *module) chargeFunction() uint32 {
	if m.chargeIndex == 0 {
		code := appendNumber([]byte{0, opGlobalGet}, m.fuel())
		code = m.appendDeduct(append(code, opLocalGet, 0))
		m.chargeIndex = m.add(Signature{Params: ofI64}, append(code, opEnd))
	}
	return m.chargeIndex
}

// meteredRef returns the index to use where function is referred to: function itself, or for an import that of a wrapper
// that charges and then calls it. A call through a reference to the import itself would not be charged.
func (m *module) meteredRef(function uint32) uint32 {
	if int(function) >= len(m.imports) {
		return function
	}
	if wrapper, ok := m.wrappers[function]; ok {
		return wrapper
	}
	t := m.typeOf(function)
	cost := m.rules.imports[m.imports[function]].meter
	code := []byte{0}
	if cost.unit == byVectors {
		code = []byte{1, 1, i32} // a local: the index of a pair
	}
	code = m.appendCharge(code, weightHost)
	switch cost.unit {
	case byLength:
		code = m.appendUnits(code, cost.param, units{0, opI64Shl, cost.shift})
	case byVectors:
		code = m.appendVectors(code, cost, byte(len(t.Params)))
	}
	for i := range t.Params {
		code = append(code, opLocalGet, byte(i))
	}
	code = append(appendNumber(append(code, opCall), function), opEnd)
	m.wrappers[function] = m.add(t, code)
	return m.wrappers[function]
}

// appendVectors appends code that charges for the lengths in a list of pairs (address, length) of eight bytes each. The
// code traps if the list is outside of memory. index is that of a local that is 0.
func (m *module) appendVectors(out []byte, cost meter, index byte) []byte {
	list, count := byte(cost.param-1), byte(cost.param)
	out = append(out, opBlock, emptyBlock, opLoop, emptyBlock)
	out = append(out, opLocalGet, index, opLocalGet, count, opI32GeU, opBrIf, 1)
	out = m.appendCharge(out, 20)
	out = appendNumber(append(out, opGlobalGet), m.fuel())
	out = append(out, opLocalGet, list, opLocalGet, index, opI32Const, 3, opI32Shl, opI32Add, opI32Load, 2, 4)
	out = append(out, opI64ExtendU, opI64Const, cost.shift, opI64Shl)
	out = m.appendDeduct(out)
	out = append(out, opLocalGet, index, opI32Const, 1, opI32Add, opLocalTee, index, opDrop, opBr, 0)
	return append(out, opEnd, opEnd)
}

// Limits of the work of compiling. A function of a real program needs at most two thirds of maxWork, and a program of
// 2 MB from the Go compiler two thirds of maxAllWork.
const (
	// maxWork is the limit of one function, maxAllWork that of all functions together, in units of about 3 µs.
	maxWork    = 25_000
	maxAllWork = 600_000

	// maxJoins and maxAllJoins limit how often the compiler examines a value where blocks join, for one function and for all together.
	maxJoins    = 0.8e9
	maxAllJoins = 1.6e9

	// loopBranches is the number of branches that a loop counts as, with the one that metering adds.
	loopBranches = 4
	// bulkBranches is the number of branches that a bulk operation counts as: the compiler makes a loop of it.
	bulkBranches = 10
)

// effort estimates the work of compiling a function. The length of its code is a poor measure: an instruction that may
// trap costs ten times as much as an addition, and some work grows with products of the numbers below.
type effort struct {
	instructions int
	// plain is the number of instructions that only calculate.
	plain int
	// work counts memory accesses, calls, branches, targets of br_tables, and other instructions that compile to a branch.
	work int
	// branches is the number of branches and blocks. The compiler orders each among all others.
	branches int
	// live is the sum of the stack's height and the number of locals at each branch and block, where each of these values is passed on.
	live int

	// Where blocks join, the compiler makes a value for each local. It then looks for values that are always equal to
	// another one, and repeats the search over all of them when it has found some: once for each level of loops, and at
	// worst once for each copy from local to local that a loop makes.

	// joins is the number of branches, blocks, and targets of br_tables.
	joins int
	// previous is the opcode of the preceding instruction, not counting local.tee.
	previous byte
	// copies is the number of times that a local is set to what may be the value of another local.
	copies int
	// looped is the sum, over all loops, of the copies within the loop and its parameters.
	looped int
	// depth is the current depth of loops, and deepest the greatest so far.
	depth, deepest int
}

// branch counts n branches or blocks at the current instruction.
func (b *body) branch(n int) {
	b.work += n
	b.branches += n
	b.joins += n
	b.live += n * (len(b.locals) + len(b.values))
}

// carry counts a call or a target of a branch that passes this many values.
func (b *body) carry(values int) { b.work += 1 + values/4 }

// set counts an instruction that sets a local. It is not a copy if the preceding instruction has computed the value.
func (b *body) set() {
	switch b.previous {
	case opCall, opCallIndirect, opGlobalGet, opI32Const, opI64Const, opF32Const, opF64Const, opMemorySize, opMemoryGrow:
		return
	}
	if plains[b.previous].result == "" {
		b.copies++
	}
}

// units returns the estimated work in units of about 3 µs, without that of the joins.
func (e *effort) units() int {
	return 4 + e.instructions/8 + e.plain/3 + e.work + e.work*e.work/12_000 + e.branches*e.branches/300 + e.live/12
}

// checkEffort refuses a function that would take too long to compile. If the functions up to this one together would
// take too long, it also stops reading.
func (b *body) checkEffort() {
	m := b.m
	units := b.units()
	m.work += units
	locals := float64(len(b.locals))
	joins := float64(1+b.deepest+b.looped) * float64(b.joins) * locals * locals
	m.joins += joins
	for _, c := range []struct {
		value, limit float64
		name         string
		all          bool
	}{
		{float64(units), maxWork, "units of work", false},
		{joins, maxJoins, "looks at what its locals are in loops", false},
		{float64(m.work), maxAllWork, "units of work with the functions before it", true},
		{m.joins, maxAllJoins, "looks at what locals are in loops with the functions before it", true},
	} {
		if c.value <= c.limit {
			continue
		}
		advice := "split it or leave some out"
		if !c.all {
			advice += "; in Go, //go:noinline keeps a function out of another"
		}
		b.fail(b.end, fmt.Sprintf("it takes too long to compile: %.0f %s, and %.0f are allowed: %s", c.value, c.name, c.limit, advice))
		m.broken = m.broken || c.all
	}
}
