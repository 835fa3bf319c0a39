package admission

import "fmt"

// Limits of the work of compiling. A function of a real program needs at most two thirds of maxWork, and a program of
// 2 MB from the Go compiler two thirds of maxAllWork.
const (
	// maxWork is the limit of one function, maxAllWork that of all functions together, in units of about 3 µs.
	maxWork    = 25_000
	maxAllWork = 600_000

	// maxJoins and maxAllJoins limit how often the compiler examines a value where blocks join, for one function and for
	// all functions together.
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
	// live is the sum of the stack's height and the number of locals at each branch and block. Each of these values has
	// to be passed on there.
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

func (b *body) beginLoop() {
	b.branch(loopBranches)
	b.depth++
	b.deepest = max(b.deepest, b.depth)
}

// endLoop leaves a loop. copies is the value of b.copies at its beginning, and params the number of its parameters.
func (b *body) endLoop(copies, params int) {
	b.depth--
	b.looped += min(b.copies-copies, len(b.locals)) + params
}

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
