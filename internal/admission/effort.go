package admission

import "fmt"

// What compiling may take. A function of a real program takes at most two thirds of a function's share, and a program
// of 2 MB that Go itself compiles two thirds of what all functions together may.
const (
	maxWork    = 25_000 // units of about 3 µs, of a function
	maxAllWork = 600_000

	maxJoins    = 0.8e9 // looks at a value where blocks join, of a function
	maxAllJoins = 1.6e9

	loopBranches = 4  // that a loop counts as, with the branch that metering adds
	bulkBranches = 10 // that a bulk operation counts as: it is a loop, when compiled
)

// effort estimates the work of compiling a function. Its length alone says little of it: an instruction that may trap
// costs ten times what an addition does, and some of it grows with the product of several things.
type effort struct {
	instructions int
	plain        int // those that calculate
	work         int // for each access to memory, call, branch, target of a br_table, and what else compiles to a branch
	branches     int // and blocks: each has to be put into the order of all others
	live         int // values on the stack and locals, at each of the branches and blocks: each has to be passed on

	// Where blocks join, the compiler makes a value for each local. It then looks for those that are but another's, and
	// begins again with all of them when it has found some: once for each level of loops, and at worst once for each
	// copy from local to local that a loop makes.
	joins    int  // branches, blocks, and targets of br_tables
	previous byte // the instruction before, but for local.tee
	copies   int  // to a local of what may be another's value
	looped   int  // copies, of each loop
	depth    int  // of loops at this place
	deepest  int
}

// branch counts n branches or blocks at this place.
func (b *body) branch(n int) {
	b.work += n
	b.branches += n
	b.joins += n
	b.live += n * (len(b.locals) + len(b.values))
}

// carry counts a call, or one more way that a branch may go, with so many values.
func (b *body) carry(values int) { b.work += 1 + values/4 }

// beginLoop counts a loop. endLoop is told how many copies there had been at its beginning, and how many parameters it has.
func (b *body) beginLoop() {
	b.branch(loopBranches)
	b.depth++
	b.deepest = max(b.deepest, b.depth)
}

func (b *body) endLoop(copies, params int) {
	b.depth--
	b.looped += min(b.copies-copies, len(b.locals)) + params
}

// set counts a local that is set. It is no copy when the instruction before has just made the value.
func (b *body) set() {
	switch b.previous {
	case opCall, opCallIndirect, opGlobalGet, opI32Const, opI64Const, opF32Const, opF64Const, opMemorySize, opMemoryGrow:
		return
	}
	if plains[b.previous].gives == "" {
		b.copies++
	}
}

// units returns the effort without that of the joins.
func (e *effort) units() int {
	return 4 + e.instructions/8 + e.plain/3 + e.work + e.work*e.work/12_000 + e.branches*e.branches/300 + e.live/12
}

// checkEffort refuses what would take too long to compile. When all that has been read would, nothing more is read.
func (b *body) checkEffort() {
	m := b.m
	units := b.units()
	m.work += units
	locals := float64(len(b.locals))
	joins := float64(1+b.deepest+b.looped) * float64(b.joins) * locals * locals
	m.joins += joins
	for _, c := range []struct {
		has, most float64
		of        string
		all       bool
	}{
		{float64(units), maxWork, "units of work", false},
		{joins, maxJoins, "looks at what its locals are in loops", false},
		{float64(m.work), maxAllWork, "units of work with the functions before it", true},
		{m.joins, maxAllJoins, "looks at what locals are in loops with the functions before it", true},
	} {
		if c.has <= c.most {
			continue
		}
		advice := "split it or leave some out"
		if !c.all {
			advice += "; in Go, //go:noinline keeps a function out of another"
		}
		b.fail(b.end, fmt.Sprintf("it takes too long to compile: %.0f %s, and %.0f are allowed: %s", c.has, c.of, c.most, advice))
		m.broken = m.broken || c.all
	}
}
