package expr

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Limits limits the work and the memory of all expressions of a run together.
type Limits struct {
	// Steps is the maximum number of steps. In templates a step is one byte that is read or written. In bodies a step is 64
	// bytes, or a call, among others. TooManySteps is the error message for exceeding it.
	Steps        int
	TooManySteps string
	// Text is the maximum length of a text in bytes, and JSON that of a JSON text. TooLong is the error message for longer ones.
	Text, JSON int
	TooLong    string
	// Made is the maximum number of bytes of texts, objects and lists that expressions of bodies make.
	Made int
	// Values is the maximum number of values of a JSON document. An object or list counts as four, and a number kept as text as five.
	Values int
	// Depth is the maximum nesting of a JSON document.
	Depth int
}

const (
	stepBytes = 64   // bytes read or written in one step of bodies, which takes some 100 ns
	stepNodes = 16   // nodes of a round's expression in one step, not counting its calls
	stepLook  = 1024 // steps between two checks of the context
)

// Run evaluates expressions over the same values, and counts their use of the limits. It is not safe for concurrent use.
//
// In this package, evaluation fails with a panic of *Error. The exported methods recover it.
type Run struct {
	Values Values
	limits *Limits
	// column is the column of the node that is being evaluated.
	column int
	steps  int
	// inBodies is nil in templates.
	*inBodies
}

// inBodies is the state of a run of expressions in bodies.
type inBodies struct {
	// ctx is a field because the functions of expressions cannot get it in another way.
	ctx context.Context
	// next is the number of steps at which to check ctx again.
	next int
	size int
	// values is the size of the document that is read, counted as for Limits.Values. reads is the number of all values that have been read.
	values, reads int
	// slots holds the values of let, and the elements and indexes of rounds.
	slots []any
}

// NewRun returns a Run for expressions in templates.
func NewRun(values Values, limits *Limits) Run { return Run{Values: values, limits: limits} }

// NewBodyRun returns a Run for expressions in bodies. It checks the context about every 1024 steps.
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

// Read takes the steps for reading a number of bytes.
func (r *Run) Read(bytes int) (err *Error) {
	defer catch(&err)
	r.column = 0
	r.read(bytes)
	return nil
}

// catch recovers a panic of *Error and stores it in err.
func catch(err **Error) {
	switch thrown := recover().(type) {
	case nil:
	case *Error:
		*err = thrown
	default:
		panic(thrown)
	}
}

// failure returns an error at the current column.
func (r *Run) failure(format string, arguments ...any) *Error {
	return &Error{Column: r.column, Message: fmt.Sprintf(format, arguments...)}
}

func (r *Run) misfit() *Error {
	return r.failure("a value is missing, or of a kind that does not go here")
}

func (r *Run) unfit(operator string, x, y any) *Error {
	return r.failure("%s does not take %s and %s", operator, kindName(x), kindName(y))
}

// enter sets the current column and takes a step for a call. Without that step, expressions over lists could run for hours.
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

// must ends the evaluation with an error at the current column, unless err is nil.
func (r *Run) must(err *Error) {
	if err != nil {
		err.Column = r.column
		panic(err)
	}
}

// count takes steps. It returns an error if the steps are used up or the context has ended.
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

// make counts the bytes of a new value, so that no expression repeats a long text for each element of a list.
func (r *Run) make(bytes int) {
	if r.inBodies != nil {
		if r.size += bytes; r.size > r.limits.Made {
			panic(r.failure("texts, objects and lists of more than %d MiB in all", r.limits.Made>>20))
		}
	}
	r.read(bytes)
}

// makeList counts the bytes of a list, including a text or number for each element.
func (r *Run) makeList(elements int) {
	const list, element = 48, 48 // approximate bytes
	r.make(list + element*elements)
}

// bound returns the length of a text. It panics if the length exceeds limit.
func (r *Run) bound(bytes, limit int) int {
	if bytes > limit {
		panic(r.failure("%s", r.limits.TooLong))
	}
	return bytes
}

// Error is an error in an expression, or in its evaluation. It goes to logs, so it never holds a value. It quotes names and
// operators of the source, and no literals, which may be passwords.
type Error struct {
	// Path is the path of the source in an object of templates ("exp", "roles[0].name"). It is empty for a single template.
	Path string
	// Column is the column in the source, in runes from 1. It is 0 if the error concerns the whole source.
	Column  int
	Message string
	// Err is the cause, such as the error of the context. It may be nil.
	Err error

	// near is the name or operator at which the parser failed.
	near string
}

func (e *Error) Error() string {
	column, cause := "", ""
	if e.Column > 0 {
		column = "column " + strconv.Itoa(e.Column)
	}
	if e.Err != nil {
		cause = e.Err.Error()
	}
	parts := []string{e.Path, column, e.Message, cause}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
}

func (e *Error) Unwrap() error { return e.Err }

// Sorted sorts errors by column, in place, and returns them.
func Sorted(errs []*Error) []*Error {
	slices.SortStableFunc(errs, func(a, b *Error) int { return cmp.Compare(a.Column, b.Column) })
	return errs
}
