package admission

// Value types. https://www.w3.org/TR/wasm-core-2/#binary-types
const (
	i32       = 0x7f
	i64       = 0x7e
	f32       = 0x7d
	f64       = 0x7c
	vector    = 0x7b // not admitted
	funcref   = 0x70
	externref = 0x6f
	unknown   = 0 // of what is on the stack where nothing can come to
)

// The same as lists of one.
const (
	ofI32 = "\x7f"
	ofI64 = "\x7e"
	ofF32 = "\x7d"
	ofF64 = "\x7c"
)

// Instructions that have a case of their own, or that metering writes.
// https://www.w3.org/TR/wasm-core-2/#binary-instructions
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
	opMore         = 0xfc // and a second byte

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

// What instructions cost, where it is not 1: about what they take on a machine of today, in units of 0.27 ns.
const (
	weightDivide   = 8
	weightCall     = 8
	weightIndirect = 12
	weightPassed   = 2 // a parameter or result of a call: it also takes room on the stack, which so stays small
	weightBulk     = 12
	weightHost     = 170 // also of what wazero does in Go: ref.func, and to grow
	weightFrame    = 2   // of a value that a function's frame has room for, beyond the first freeFrame
	freeFrame      = 32  // values that are paid for with the call
)

// plain is an instruction that takes values off the stack, leaves one or none, and does nothing else but reach for
// memory. align is one more than the greatest alignment of an access, and 0 where there is none.
type plain struct {
	takes, gives string
	align        byte
	weight       byte
	work         byte // to compile it, beyond what is plain: see effort
}

// plains has the plain instructions by their byte. Those without weight are none.
var plains = makePlains()

// saturating has those that come after opMore, 0 to 7.
var saturating = [8]plain{
	{takes: ofF32, gives: ofI32, weight: 1},
	{takes: ofF32, gives: ofI32, weight: 1},
	{takes: ofF64, gives: ofI32, weight: 1},
	{takes: ofF64, gives: ofI32, weight: 1},
	{takes: ofF32, gives: ofI64, weight: 1},
	{takes: ofF32, gives: ofI64, weight: 1},
	{takes: ofF64, gives: ofI64, weight: 1},
	{takes: ofF64, gives: ofI64, weight: 1},
}

func makePlains() (table [256]plain) {
	fill := func(first, last int, takes, gives string) {
		for op := first; op <= last; op++ {
			table[op] = plain{takes: takes, gives: gives, weight: 1}
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

// addAccesses adds loads, from 0x28, and stores, from 0x36.
func addAccesses(table *[256]plain) {
	for i, a := range []struct {
		value string
		bytes byte // log₂
	}{
		{ofI32, 2},
		{ofI64, 3},
		{ofF32, 2},
		{ofF64, 3},
		{ofI32, 0},
		{ofI32, 0},
		{ofI32, 1},
		{ofI32, 1},
		{ofI64, 0},
		{ofI64, 0},
		{ofI64, 1},
		{ofI64, 1},
		{ofI64, 2},
		{ofI64, 2},
	} {
		table[0x28+i] = plain{takes: ofI32, gives: a.value, align: a.bytes + 1, weight: 1, work: 1}
	}
	for i, a := range []struct {
		value string
		bytes byte
	}{
		{ofI32, 2},
		{ofI64, 3},
		{ofF32, 2},
		{ofF64, 3},
		{ofI32, 0},
		{ofI32, 1},
		{ofI64, 0},
		{ofI64, 1},
		{ofI64, 2},
	} {
		table[0x36+i] = plain{takes: ofI32 + a.value, align: a.bytes + 1, weight: 1, work: 1}
	}
}

// proposal names what an instruction belongs to that is not admitted, or "" for one that nobody knows.
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
