package admission

// Value types. https://www.w3.org/TR/wasm-core-2/#binary-types
const (
	i32       = 0x7f
	i64       = 0x7e
	f32       = 0x7d
	f64       = 0x7c
	vector    = 0x7b // v128, refused
	funcref   = 0x70
	externref = 0x6f
	unknown   = 0 // type of a value in unreachable code
)

// Lists of one value type.
const (
	ofI32 = "\x7f"
	ofI64 = "\x7e"
	ofF32 = "\x7d"
	ofF64 = "\x7c"
)

// Instructions that validation handles one by one, or that metering writes. https://www.w3.org/TR/wasm-core-2/#binary-instructions
const (
	opUnreachable  = 0x00
	opNop          = 0x01
	opBlock        = 0x02
	opLoop         = 0x03
	opIf           = 0x04
	opElse         = 0x05
	opEnd          = 0x0b
	opBr           = 0x0c
	opBrIf         = 0x0d
	opBrTable      = 0x0e
	opReturn       = 0x0f
	opCall         = 0x10
	opCallIndirect = 0x11
	opDrop         = 0x1a
	opSelect       = 0x1b
	opSelectTyped  = 0x1c
	opLocalGet     = 0x20
	opLocalSet     = 0x21
	opLocalTee     = 0x22
	opGlobalGet    = 0x23
	opGlobalSet    = 0x24
	opTableGet     = 0x25
	opTableSet     = 0x26
	opI32Load      = 0x28
	opMemorySize   = 0x3f
	opMemoryGrow   = 0x40
	opI32Const     = 0x41
	opI64Const     = 0x42
	opF32Const     = 0x43
	opF64Const     = 0x44
	opI32LtU       = 0x49
	opI32GeU       = 0x4f
	opI64LtS       = 0x53
	opI32Add       = 0x6a
	opI32Shl       = 0x74
	opI64Sub       = 0x7d
	opI64Shl       = 0x86
	opI64ShrU      = 0x88
	opI64ExtendU   = 0xad
	opRefNull      = 0xd0
	opRefIsNull    = 0xd1
	opRefFunc      = 0xd2
	opMore         = 0xfc // prefix of a second opcode, below

	moreMemoryInit = 8
	moreDataDrop   = 9
	moreMemoryCopy = 10
	moreMemoryFill = 11
	moreTableInit  = 12
	moreElemDrop   = 13
	moreTableCopy  = 14
	moreTableGrow  = 15
	moreTableSize  = 16
	moreTableFill  = 17

	emptyBlock = 0x40
)

// Costs of instructions, where they are not 1. A unit is about 0.27 ns on a current machine.
const (
	weightDivide   = 8
	weightCall     = 8
	weightIndirect = 12
	weightBulk     = 12
	// weightPassed is the cost of each parameter and result of a call. They take room on the stack, so this also keeps the stack small.
	weightPassed = 2
	// weightHost is the cost of a call of a host function, and of what wazero does in Go: ref.func, memory.grow and table.grow.
	weightHost = 170
	// weightFrame is the cost of each value that a function's frame has room for beyond freeFrame values. The first
	// freeFrame values are paid for with the call.
	weightFrame = 2
	freeFrame   = 32
)

// plain is an instruction that pops its operands, pushes at most one result, and else only accesses memory.
type plain struct {
	operands, result string
	// align is one more than the greatest alignment of a memory access (log₂), or 0 if the instruction makes none.
	align  byte
	weight byte
	// work is the amount that the instruction adds to effort.work, or 0 if it counts in effort.plain.
	work byte
}

// plains holds the plain instructions by opcode. Entries without a weight are not plain instructions.
var plains = makePlains()

// saturating holds the instructions 0 to 7 behind opMore, two of each: conversions of floats to integers that saturate, signed and not.
var saturating = [4]Signature{{ofF32, ofI32}, {ofF64, ofI32}, {ofF32, ofI64}, {ofF64, ofI64}}

func makePlains() (table [256]plain) {
	fill := func(first, last int, operands, result string) {
		for op := first; op <= last; op++ {
			table[op] = plain{operands: operands, result: result, weight: 1}
		}
	}
	fill(0x45, 0x45, ofI32, ofI32)       // eqz
	fill(0x46, 0x4f, ofI32+ofI32, ofI32) // comparisons
	fill(0x50, 0x50, ofI64, ofI32)
	fill(0x51, 0x5a, ofI64+ofI64, ofI32)
	fill(0x5b, 0x60, ofF32+ofF32, ofI32)
	fill(0x61, 0x66, ofF64+ofF64, ofI32)
	fill(0x67, 0x69, ofI32, ofI32) // clz, ctz, popcnt
	fill(0x6a, 0x78, ofI32+ofI32, ofI32)
	fill(0x79, 0x7b, ofI64, ofI64)
	fill(0x7c, 0x8a, ofI64+ofI64, ofI64)
	fill(0x8b, 0x91, ofF32, ofF32) // abs to sqrt
	fill(0x92, 0x98, ofF32+ofF32, ofF32)
	fill(0x99, 0x9f, ofF64, ofF64)
	fill(0xa0, 0xa6, ofF64+ofF64, ofF64)
	fill(0xa7, 0xa7, ofI64, ofI32) // conversions
	fill(0xa8, 0xa9, ofF32, ofI32)
	fill(0xaa, 0xab, ofF64, ofI32)
	fill(0xac, 0xad, ofI32, ofI64)
	fill(0xae, 0xaf, ofF32, ofI64)
	fill(0xb0, 0xb1, ofF64, ofI64)
	fill(0xb2, 0xb3, ofI32, ofF32)
	fill(0xb4, 0xb5, ofI64, ofF32)
	fill(0xb6, 0xb6, ofF64, ofF32)
	fill(0xb7, 0xb8, ofI32, ofF64)
	fill(0xb9, 0xba, ofI64, ofF64)
	fill(0xbb, 0xbb, ofF32, ofF64)
	fill(0xbc, 0xbc, ofF32, ofI32) // reinterpretations
	fill(0xbd, 0xbd, ofF64, ofI64)
	fill(0xbe, 0xbe, ofI32, ofF32)
	fill(0xbf, 0xbf, ofI64, ofF64)
	fill(0xc0, 0xc1, ofI32, ofI32) // sign extensions
	fill(0xc2, 0xc4, ofI64, ofI64)
	for _, op := range []byte{
		0x6d, 0x6e, 0x6f, 0x70, 0x7f, 0x80, 0x81, 0x82, // div and rem of integers
		0x91, 0x95, 0x9f, 0xa3, // div and sqrt of floats
	} {
		table[op].weight = weightDivide
	}
	for _, r := range []struct{ first, last int }{
		{0x6d, 0x70}, {0x7f, 0x82}, // div and rem, which trap
		{0x96, 0x97}, {0xa4, 0xa5}, // min and max
		{0xa8, 0xab}, {0xae, 0xb1}, // trunc, which traps
		{0x98, 0x98}, {0xa6, 0xa6}, // copysign
		{0xb5, 0xb5}, {0xba, 0xba}, // convert of an unsigned i64
	} {
		for op := r.first; op <= r.last; op++ {
			table[op].work = 1
		}
	}
	addAccesses(&table)
	return table
}

// addAccesses adds loads, from opcode 0x28, and stores, from 0x36. Values narrower than their type have a signed load, too.
func addAccesses(table *[256]plain) {
	load := 0x28
	for i, a := range []struct {
		value string
		log2  byte
		loads int
	}{
		{ofI32, 2, 1}, {ofI64, 3, 1}, {ofF32, 2, 1}, {ofF64, 3, 1}, {ofI32, 0, 2}, {ofI32, 1, 2}, {ofI64, 0, 2}, {ofI64, 1, 2}, {ofI64, 2, 2},
	} {
		table[0x36+i] = plain{operands: ofI32 + a.value, align: a.log2 + 1, weight: 1, work: 1}
		for range a.loads {
			table[load] = plain{operands: ofI32, result: a.value, align: a.log2 + 1, weight: 1, work: 1}
			load++
		}
	}
}

// proposal returns the name of the proposal that an instruction belongs to, or "" for an unknown opcode.
func proposal(op byte) string {
	switch op {
	case 0xfd:
		return "vector instructions (SIMD)"
	case 0xfe:
		return "threads"
	case 0x12, 0x13, 0x15:
		return "tail calls"
	case 0x06, 0x07, 0x08, 0x09, 0x0a, 0x18, 0x19, 0x1f:
		return "exceptions"
	case 0x14, 0xd3, 0xd4, 0xd5, 0xd6, 0xfb:
		return "typed references and garbage collection"
	}
	return ""
}
