package transform

import (
	"context"
	"errors"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr/vm"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/exprscan"
)

// run is one run of a Body or Filter: what it is given, and what it has used of its limits.
type run struct {
	ctx     context.Context // here because the functions of expressions have no other way to it
	in      *Input
	user    host.User
	record  any
	body    any  // response.body, once it is decoded
	decoded bool // body is
	machine vm.VM

	asked *string           // body_text, once it is named
	lists map[*string][]any // of families, by their first value, once they are named

	steps, text, values int
	looked, reads       int                // steps at which the context was looked at last; values that were decoded, all in all
	sources             map[uintptr]source // nil when nothing is encoded
}

func newRun(ctx context.Context, in *Input, encodes bool) *run {
	r := &run{ctx: ctx, in: in, machine: vm.VM{MemoryBudget: MaxElements}}
	if in.User != nil {
		r.user = *in.User
	}
	if encodes {
		r.sources = map[uintptr]source{}
	}
	return r
}

// evaluate returns an expression's value.
func (r *run) evaluate(e *expression) (any, error) {
	if err := r.cancelled(); err != nil {
		return nil, at(e.start, err)
	}
	value, err := r.machine.Run(e.program, r)
	if err != nil {
		return nil, explain(e.column, err)
	}
	return value, nil
}

func (r *run) cancelled() error {
	if err := r.ctx.Err(); err != nil {
		return &Error{Message: "stopped", Err: err}
	}
	return nil
}

// Steps are counted, and not seconds, so that an expression ends at the same place on every machine. Each takes some 100
// nanoseconds.
const (
	stepBytes = 64   // bytes that are read or written in a step
	stepWork  = 16   // instructions of a pattern, each over one byte, in a step
	stepNodes = 16   // parts of a round that are evaluated in a step, besides its calls
	stepLook  = 1024 // steps after which the context is looked at again, before the next call
)

// take counts steps: without it, lists and texts in an answer could keep an expression busy for hours.
func (r *run) take(steps int) error {
	if r.steps += steps; r.steps > MaxSteps {
		return fail("more than %d steps: it goes through too long lists or texts", MaxSteps)
	}
	if r.steps-r.looked < stepLook {
		return nil
	}
	r.looked = r.steps
	return r.cancelled()
}

// pass counts bytes that are read.
func (r *run) pass(bytes int) error { return r.take(bytes / stepBytes) }

// spend counts the bytes of what is made: without it, lists in an answer could have long texts repeated.
func (r *run) spend(bytes int) error {
	if r.text += bytes; r.text > MaxText {
		return fail("texts, objects and lists of more than %d MiB in all", MaxText>>20)
	}
	return r.pass(bytes)
}

// bodyText is a copy of the request's body, one for all rounds.
func (r *run) bodyText() (any, error) {
	if r.asked == nil {
		text := string(r.in.Request.Body)
		r.asked = &text
	}
	return *r.asked, nil
}

// list returns texts as a list, the same one in all rounds.
func (r *run) list(texts []string) []any {
	if len(texts) == 0 {
		return []any{}
	}
	list, known := r.lists[&texts[0]]
	if !known {
		for _, text := range texts {
			list = append(list, text)
		}
		if r.lists == nil {
			r.lists = map[*string][]any{}
		}
		r.lists[&texts[0]] = list
	}
	return list
}

func (r *run) responseBody() (any, error) {
	if r.decoded {
		return r.body, nil
	}
	if !isJSON(r.in.Response.Header.Get("Content-Type")) {
		r.body = string(r.in.Response.Body)
	} else if body, err := r.decode(r.in.Response.Body); err == nil {
		r.body = body
	} else {
		var failed *Error
		if errors.As(err, &failed) {
			err = &Error{Message: "response.body: " + failed.Message, Err: failed.Err}
		}
		return nil, err
	}
	r.decoded = true
	return r.body, nil
}

// isJSON reports whether a Content-Type is application/json or one of the +json types (RFC 6839 section 3.1).
func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// made counts the bytes of a list that is made, with what making it takes and a text or number for each element.
func (r *run) made(elements int) error {
	const list, element = 48, 48 // bytes, about
	return r.spend(list + element*elements)
}

// object makes an object of an expression: names, and the values of the members.
func object(r *run, a []any) (any, error) {
	order, values := a[0].([]string), a[1:]
	const object, member = 512, 32 // bytes, about
	if err := r.spend(object + member*len(order)); err != nil {
		return nil, err
	}
	o := make(map[string]any, len(order))
	for i, name := range order {
		o[name] = values[i]
	}
	r.remember(source{value: o, order: order})
	return o, nil
}

// member returns a member of an object or an element of a list: of a[0] the one that a[1] names. a[2] tells that it is
// behind a question mark, and a[3] that it goes straight to the output.
func member(r *run, a []any) (any, error) {
	var value any
	switch of := a[0].(type) {
	case absent:
		return of, nil
	case nil:
		if a[2].(bool) {
			return absent{}, nil
		}
		return nil, fail("null has no members: where it may be null, write ?. for the dot")
	case map[string]any:
		name, ok := a[1].(string)
		if !ok {
			return nil, fail("the members of an object are named by texts")
		}
		if err := r.pass(len(name)); err != nil {
			return nil, err
		}
		value = of[name]
	case []any:
		i, ok := a[1].(int)
		if !ok {
			return nil, fail("the elements of a list are numbered")
		}
		if i < 0 {
			i += len(of)
		}
		if i < 0 || i >= len(of) {
			return nil, fail("the list has no such element")
		}
		a[1], value = i, of[i]
	default:
		return nil, fail("only objects and lists have members")
	}
	if _, isFloat := value.(float64); isFloat && a[3].(bool) {
		if exact := r.sourceOf(a[0]).numbers[a[1]]; exact != "" {
			return exact, nil
		}
	}
	return value, nil
}

// slice returns the part of a list, or of a text in runes, from a[1] to before a[2]; null is the one end or the other,
// and what is negative counts from the end.
func slice(r *run, a []any) (any, error) {
	elements, isList := a[0].([]any)
	s, isText := a[0].(string)
	if err := r.pass(len(s)); err != nil {
		return nil, err
	}
	length := len(elements)
	switch {
	case isText:
		length = utf8.RuneCountInString(s)
	case !isList:
		return nil, fail("only lists and texts have parts")
	}
	bounds := [2]int{0, length}
	for i, bound := range a[1:] {
		if bound == nil {
			continue
		}
		n, ok := bound.(int)
		if !ok {
			return nil, fail("the bounds of a part are whole numbers")
		}
		if n < 0 {
			n += length
		}
		bounds[i] = min(max(n, 0), length)
	}
	from, to := min(bounds[0], bounds[1]), bounds[1]
	if isText {
		return s[exprscan.ByteOffset(s, from):exprscan.ByteOffset(s, to)], nil
	}
	return elements[from:to], nil
}
