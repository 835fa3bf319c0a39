package admission

import (
	"cmp"
	"fmt"

	"github.com/keywright/keywright/internal/contract"
)

// pristine determines whether the host can reset an instance to its state after initialisation. There are two
// obstacles. One is state that the host cannot reset: the contents of tables, dropped segments, and a closed stderr.
// The other is an initialisation that draws random bytes or reads the clock: it has to do so for each call anew.
type pristine struct {
	module *module
	// notPooled is the reason why an instance cannot be reset, or "".
	notPooled string
	// draws are the imported functions that draw random bytes or read the clock.
	draws []uint32
	// roots are the functions that run before a call.
	roots []uint32

	// The fields below stay empty if draws is.

	// calls are the callees of all functions, in the order of the callers. Those of function i, imports not counted, begin
	// at from[i], and indirect[i] is set if it also calls through tables.
	calls    []uint32
	from     []int
	indirect []bool
	// last is len(from) when the callee was last added to calls, by callee. It keeps a caller from adding it twice.
	last []int
}

func (p *pristine) setNotPooled(why string) { p.notPooled = cmp.Or(p.notPooled, why) }

func (p *pristine) imported(i Import) {
	switch {
	case i.Module != contract.ModuleWASI:
	case i.Name == wasiRandom || i.Name == wasiClock:
		p.draws = append(p.draws, uint32(len(p.module.imports)-1))
	case i.Name == wasiClose:
		p.setNotPooled("it imports fd_close, which cannot be undone")
	}
}

// enter is called at the beginning of each function's code.
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

// reach returns, for each function, whether it may run before a call. A function that calls through a table may call
// every function that the module refers to.
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
			for declared := range m.declared {
				visit(declared)
			}
		}
	}
	return reached
}
