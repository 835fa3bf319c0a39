package admission

import (
	"fmt"

	"github.com/keywright/keywright/abi"
)

// pristine finds out whether an instance can be put back to what it was after its initialisation. Two things stand
// against it: what a host cannot put back, which is the contents of tables, whether segments were dropped, and whether
// stderr is still open; and an initialisation that draws random bytes or reads the clock, which has to do so for each
// call anew.
type pristine struct {
	module    *module
	notPooled string // why an instance cannot be put back
	draws     []uint32
	roots     []uint32 // that run before a call

	// What calls what, known only when there is something to draw from.
	calls    []uint32
	from     []int  // where the calls of each function that has code begin
	indirect []bool // whether it calls through tables
	last     []int  // one more than the last caller that was noted, by callee
}

func (p *pristine) setNotPooled(why string) {
	if p.notPooled == "" {
		p.notPooled = why
	}
}

func (p *pristine) imported(i Import) {
	switch {
	case i.Module != abi.ModuleWASI:
	case i.Name == wasiRandom || i.Name == wasiClock:
		p.draws = append(p.draws, uint32(len(p.module.imports)-1))
	case i.Name == wasiClose:
		p.setNotPooled("it imports fd_close, which cannot be undone")
	}
}

func (p *pristine) exported(name string, function uint32) {
	if name == initialize {
		p.roots = append(p.roots, function)
	}
}

// enter begins with the code of the next function.
func (p *pristine) enter() {
	if len(p.draws) == 0 {
		return
	}
	if p.last == nil {
		p.last = make([]int, len(p.module.functions))
	}
	p.from = append(p.from, len(p.calls))
	p.indirect = append(p.indirect, false)
}

func (p *pristine) call(function uint32) {
	if len(p.draws) > 0 && p.last[function] != len(p.from) {
		p.last[function] = len(p.from)
		p.calls = append(p.calls, function)
	}
}

func (p *pristine) callIndirect() {
	if len(p.draws) > 0 {
		p.indirect[len(p.indirect)-1] = true
	}
}

// reason is why an instance cannot be put back, or "".
func (p *pristine) reason() string {
	if p.notPooled != "" || len(p.draws) == 0 {
		return p.notPooled
	}
	reached := p.reach()
	for _, draw := range p.draws {
		if reached[draw] {
			return fmt.Sprintf("its initialisation may call %s", p.module.imports[draw].Name)
		}
	}
	return ""
}

// reach returns the functions that may run before a call. One that calls through a table may call whatever is referred
// to anywhere.
func (p *pristine) reach() []bool {
	m := p.module
	reached := make([]bool, len(m.functions))
	var todo []uint32
	visit := func(function uint32) {
		if !reached[function] {
			reached[function] = true
			todo = append(todo, function)
		}
	}
	for _, root := range p.roots {
		visit(root)
	}
	if m.start >= 0 {
		visit(uint32(m.start))
	}
	for tables := false; len(todo) > 0; {
		function := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		code := int(function) - len(m.imports)
		if code < 0 {
			continue
		}
		end := len(p.calls)
		if code+1 < len(p.from) {
			end = p.from[code+1]
		}
		for _, callee := range p.calls[p.from[code]:end] {
			visit(callee)
		}
		if p.indirect[code] && !tables {
			tables = true
			for i, declared := range m.declared {
				if declared {
					visit(uint32(i))
				}
			}
		}
	}
	return reached
}
