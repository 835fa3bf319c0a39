package expr

import (
	"context"
	"fmt"
)

// Limits bound what the expressions of a run take and make, all together.
type Limits struct {
	// Steps is how many steps they may take. In templates a step is a byte that is read or made; in bodies it is 64 of
	// them, or a call, and so on. TooManySteps is the error of what takes more.
	Steps        int
	TooManySteps string
	// Text is how many bytes one text may have, and JSON those of one that is JSON. TooLong is the error of a longer one.
	Text, JSON int
	TooLong    string
	// Made is how many bytes of texts, objects and lists may be made in bodies. Values and Depth are of JSON that is read:
	// how many values it has, an object or list counting as four and a number that is kept as text as five, and how deep
	// they are nested.
	Made, Values, Depth int
}

const (
	stepBytes = 64   // bytes that are read or written in a step of bodies, which takes some 100 nanoseconds
	stepNodes = 16   // parts of a round that are evaluated in a step, besides its calls
	stepLook  = 1024 // steps after which the context is looked at again, before the next call
)

// Run is a run of expressions over some values, and counts what it has used of its limits. It belongs to one goroutine.
//
// In this package an error of a run is a panic of *Error, which ends at the exported methods.
type Run struct {
	Values Values
	limits *Limits
	column int // of what is evaluated
	steps  int
	*inBodies
}

// inBodies has what only expressions of bodies use. In templates there is none.
type inBodies struct {
	ctx           context.Context // here because the functions of expressions have no other way to it
	next          int             // steps at which to look at it again
	made          int
	values, reads int   // of JSON: as Limits.Values counts them; all in all
	slots         []any // of let and rounds
}

// NewRun returns a run of expressions in templates.
func NewRun(values Values, limits *Limits) Run {
	return Run{Values: values, limits: limits}
}

// NewBodyRun returns a run of expressions in bodies. The end of the context is noticed within 1024 steps.
func NewBodyRun(ctx context.Context, values Values, limits *Limits) Run {
	return Run{values, limits, 0, 0, &inBodies{ctx: ctx, next: stepLook}}
}

// Evaluate returns the value of an expression.
func (r *Run) Evaluate(e *Expression) (value any, err *Error) {
	defer catch(&err)
	if r.inBodies != nil {
		r.column = e.Start
		r.must(r.look())
		if len(r.slots) < e.slots {
			r.slots = make([]any, e.slots)
		}
	}
	return e.run(r), nil
}

// Read takes steps for bytes that are read.
func (r *Run) Read(bytes int) (err *Error) {
	defer catch(&err)
	r.column = 0
	r.read(bytes)
	return nil
}

// catch makes an error of a panic.
func catch(err **Error) {
	switch thrown := recover().(type) {
	case nil:
	case *Error:
		*err = thrown
	default:
		panic(thrown)
	}
}

// failure returns an error of what is evaluated.
func (r *Run) failure(format string, arguments ...any) *Error {
	return &Error{Column: r.column, Message: fmt.Sprintf(format, arguments...)}
}

// misfit is the error of a value whose kind no operator names.
func (r *Run) misfit() *Error {
	return r.failure("a value is missing, or of a kind that does not go here")
}

// unfit is the error of an operator that does not take two values.
func (r *Run) unfit(operator string, x, y any) *Error {
	return r.failure("%s does not take %s and %s", operator, kindName(x), kindName(y))
}

// enter begins a call at a column, which is a step: without it, lists could keep an expression busy for hours.
func (r *Run) enter(column int) {
	r.column = column
	r.call()
}

func (r *Run) call() {
	if r.inBodies != nil {
		r.take(1)
	}
}

func (r *Run) take(steps int) { r.must(r.count(steps)) }

func (r *Run) must(err *Error) {
	if err != nil {
		panic(err)
	}
}

// count takes steps. It returns an error when they are used up, or the context has ended.
func (r *Run) count(steps int) *Error {
	if r.steps += steps; r.steps > r.limits.Steps || r.inBodies != nil && r.steps >= r.next {
		return r.look()
	}
	return nil
}

func (r *Run) look() *Error {
	if r.steps > r.limits.Steps {
		return r.failure("%s", r.limits.TooManySteps)
	}
	if r.next = r.steps + stepLook; r.ctx.Err() != nil {
		return &Error{Column: r.column, Message: "stopped", Err: r.ctx.Err()}
	}
	return nil
}

func (r *Run) read(bytes int) {
	if r.inBodies != nil {
		bytes /= stepBytes
	}
	r.take(bytes)
}

// make counts the bytes of what is made: without it, lists in an answer could have long texts repeated.
func (r *Run) make(bytes int) {
	if r.inBodies != nil {
		if r.made += bytes; r.made > r.limits.Made {
			panic(r.failure("texts, objects and lists of more than %d MiB in all", r.limits.Made>>20))
		}
	}
	r.read(bytes)
}

// makeList counts the bytes of a list, with what making it takes and a text or number for each element.
func (r *Run) makeList(elements int) {
	const list, element = 48, 48 // bytes, about
	r.make(list + element*elements)
}

// makeObject counts the bytes of an object.
func (r *Run) makeObject(members int) {
	const object, member = 512, 32 // bytes, about
	r.make(object + member*members)
}

// bound returns a length of a text, unless that is too long.
func (r *Run) bound(bytes, most int) int {
	if bytes > most {
		panic(r.failure("%s", r.limits.TooLong))
	}
	return bytes
}
