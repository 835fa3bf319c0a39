package expr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// within evaluates an expression over a body, within limits that are otherwise those of bodies.
func within(t *testing.T, source, body string, change func(*Limits)) (*Run, *Error) {
	t.Helper()
	l := *bodyLimits
	change(&l)
	w := &lookups{body: []byte(body)}
	r := NewBodyRun(t.Context(), w, &l)
	_, err := r.Evaluate(mustCompile(t, source, w.language()))
	return &r, err
}

// Values that an expression makes count against Limits.Made: texts with their bytes, a list with 48 and 48 for each element,
// an object with 512 and 32 for each member (threats.md 57).
func TestMemoryOfValues(t *testing.T) {
	const body = `{"ten":"xxxxxxxxxx","quoted":"\"\"\"\"","list":["aa","bb","cc"],"spaces":"a  b"}`
	for source, bytes := range map[string]int{
		"body.ten":                         0,
		"body.ten[1:4]":                    0,
		"body.ten + 'abc'":                 13,
		"body.ten + body.ten + 'a'":        20 + 21,
		"upper(body.ten)":                  10,
		"trim(body.ten)":                   10,
		"url_encode(body.spaces)":          4, // each space becomes one +
		"url_encode('äö')":                 12,
		"base64_encode(body.ten)":          16,
		"base64_decode('YWJj')":            4, // counted before it is known to become shorter
		"json_encode(body.ten)":            12,
		"json_encode(body.quoted)":         10,
		"string(body.ten)":                 10,
		"string(12)":                       2,
		"from_json('[1]')":                 3,
		"replace(body.ten, 'x', 'yy')":     30,
		"replace(body.ten, 'y', 'zzz')":    10,
		"join(body.list, '-')":             9,
		"join(body.list)":                  6,
		"[]":                               48,
		"[1, 2]":                           48 + 2*48,
		"{}":                               512,
		"{a: 1, b: 2}":                     512 + 2*32,
		"split('a-b-c', '-')":              48 + 3*48,
		"map(body.list, 1)":                48 + 3*48,
		"filter(body.list, false)":         48 + 3*48,
		"sortBy(body.list, #)":             48 + 3*48 + 3*16,
		"count(body.list, true)":           0,
		"[body.ten + 'a']":                 48 + 48 + 11,
		"body.list[1:]":                    0,
		"uuid() == get_variable('region')": 0,
	} {
		if r, err := within(t, source, body, func(l *Limits) { l.Made = bytes }); err != nil || r.size != bytes {
			t.Errorf("%s makes %d bytes, want %d: %v", source, r.size, bytes, err)
		}
		if bytes == 0 {
			continue
		}
		if _, err := within(t, source, body, func(l *Limits) { l.Made = bytes - 1 }); err == nil || err.Message != "texts, objects and lists of more than 0 MiB in all" || err.Column == 0 {
			t.Errorf("%s within %d bytes: %v", source, bytes-1, err)
		}
	}
}

// A text of just the limit is made, and one of a byte more is refused. So are texts from outside.
func TestTextLengthBound(t *testing.T) {
	for source, length := range map[string]int{
		"'abc' + 'defg'": 7, "base64_encode('abc')": 4, "base64_decode('YWJj')": 3, "url_encode('ä')": 6, "user.email": 15, "tenant_id": 2,
		"get_variable('region')": 2, "default(user.email, '')": 15,
	} {
		if _, err := within(t, source, "null", func(l *Limits) { l.Text = length }); err != nil {
			t.Errorf("%s within %d: %v", source, length, err)
		}
		if _, err := within(t, source, "null", func(l *Limits) { l.Text = length - 1 }); err == nil || err.Message != bodyLimits.TooLong || err.Column == 0 {
			t.Errorf("%s within %d: %v", source, length-1, err)
		}
	}
	for source, length := range map[string]int{"json_encode('abc')": 5, "json_encode(['abc'])": 7, "string([1])": 3} {
		if _, err := within(t, source, "null", func(l *Limits) { l.JSON = length }); err != nil {
			t.Errorf("%s within %d: %v", source, length, err)
		}
		if _, err := within(t, source, "null", func(l *Limits) { l.JSON = length - 1 }); err == nil || err.Message != bodyLimits.TooLong || err.Column == 0 {
			t.Errorf("%s within %d: %v", source, length-1, err)
		}
	}
}

// A step is an operator that compares or calculates, a call, the use of a value, and each 64 bytes of a text (threats.md 57).
func TestStepsOfBodies(t *testing.T) {
	x := strings.Repeat("x", 640)
	body := `{"a":"` + x + `","b":"` + x + `","short":"x","object":{"` + x + `":1}}`
	names := "let a = body.a; let b = body.b; let short = body.short; let object = body.object; let made = {"
	for i := range 640 { // members of objects that an expression makes are looked up one by one
		names += fmt.Sprintf("m%d: %d, ", i, i)
	}
	names += "}; "
	before, err := within(t, names+"1", body, func(*Limits) {})
	if err != nil {
		t.Fatalf("%s: %v", names, err)
	}
	for source, steps := range map[string]int{
		"1 + 1": 1, "1 + 2 * 3": 2, "true ? 1 : 2": 0, "a": 0, "now()": 1, "[1]": 1 + 1, "[]": 1, "{}": 1 + 8, "user.id": 1, "tenant_id == ''": 3,
		"a == b": 2 + 10, "a == short": 2, "a < b": 1 + 10, "a < short": 1, "short < a": 1, "a contains short": 1 + 10, "a startsWith b": 1 + 20,
		"a + b": 1 + 20, "a[1:2]": 1 + 10, "len(a)": 1 + 10, "upper(a)": 1 + 10, "upper(short)": 1, "object[a]": 1 + 10, "{a: 1}[a]": 1 + 8 + 1 + 10,
		"a in object": 1 + 10, "a in {b: 1}": 1 + 8 + 1 + 10, "object == object": 3 + 10, "split(a, '-')": 1 + 10 + 1, "replace(a, 'y', 'z')": 1 + 10 + 10,
		"made.m7": 1 + 10, "'m7' in made": 1 + 10, "made == {}": 2 + 1 + 8, "made == made": 2 + 640*(1+10),
		"default(a, b)": 1, "int('7')": 1, "1 == 1": 2, "[1] == [1]": 2*2 + 1 + 1 + 1, "a ?? b": 0,
	} {
		r, err := within(t, names+source, body, func(l *Limits) { l.Steps = before.steps + steps })
		if err != nil || r.steps-before.steps != steps {
			t.Errorf("%s takes %d steps, want %d: %v", source, r.steps-before.steps, steps, err)
		}
		if steps == 0 {
			continue
		}
		if _, err := within(t, names+source, body, func(l *Limits) { l.Steps = before.steps + steps - 1 }); err == nil || err.Message != bodyLimits.TooManySteps || err.Column == 0 {
			t.Errorf("%s within %d steps: %v", source, steps-1, err)
		}
	}
}

// In templates, a step is one byte that is read or written.
func TestStepsOfTemplates(t *testing.T) {
	for source, steps := range map[string]int{
		"1 + 1": 0, "'abc' + 'de'": 5, "'abc' == 'abd'": 3, "'abc' == 'ab'": 0, "'abc' < 'ab'": 2, "'abc' contains 'b'": 4, "base64_encode('abc')": 4,
		"base64_decode('YWJj')": 4, "json_encode('abc')": 5, "json_encode([1])": 48 + 48 + 3, "json_encode({a: 1})": 512 + 32 + 7, "user.email": 0,
	} {
		l := *templateLimits
		l.Steps = steps
		r := NewRun(new(lookups), &l)
		if _, err := r.Evaluate(mustCompile(t, source, ofTemplates)); err != nil || r.steps != steps {
			t.Errorf("%s takes %d steps, want %d: %v", source, r.steps, steps, err)
		}
		if steps == 0 {
			continue
		}
		l.Steps--
		r = NewRun(new(lookups), &l)
		if _, err := r.Evaluate(mustCompile(t, source, ofTemplates)); err == nil || err.Message != l.TooManySteps || err.Column == 0 {
			t.Errorf("%s within %d steps: %v", source, l.Steps, err)
		}
	}
}

// All evaluations of a run count together. Values of let and of rounds do not get from one to the next.
func TestRunOfManyExpressions(t *testing.T) {
	w := &lookups{body: []byte("[1,2]")}
	r := NewBodyRun(t.Context(), w, bodyLimits)
	rows := table{
		{"1", "1"}, {"let x = 1; x", "1"}, {"map(body, map(body, #))", "[[1, 2], [1, 2]]"}, {"let a = 1; let b = 2; let c = 3; a + b + c", "6"}, {"let x = 5; x", "5"},
	}
	for _, c := range rows {
		if got := outcome(r.Evaluate(mustCompile(t, c.source, w.language()))); got != c.want {
			t.Errorf("%s is %s, want %s", c.source, got, c.want)
		}
	}

	r = NewBodyRun(t.Context(), w, &Limits{Steps: 9, TooManySteps: "too many"})
	for n, source := range []string{"1 + 1 + 1 + 1", "1 + 1 + 1 + 1", "1 + 1 + 1 + 1", "true ? 1 : 2", "1 + 1"} {
		if _, err := r.Evaluate(mustCompile(t, source, w.language())); (err != nil) != (n == 4) {
			t.Errorf("evaluation %d: %v after %d steps", n+1, err, r.steps)
		}
	}
	if _, err := r.Evaluate(mustCompile(t, " 1", w.language())); err == nil || err.Error() != "column 2: too many" {
		t.Errorf("an evaluation without steps: %v", err)
	}
}

func TestRead(t *testing.T) {
	r := NewBodyRun(t.Context(), nil, &Limits{Steps: 10, TooManySteps: "too many"})
	if err := r.Read(10*stepBytes + stepBytes - 1); err != nil || r.steps != 10 {
		t.Errorf("%d steps, %v", r.steps, err)
	}
	if err := r.Read(stepBytes); err == nil || err.Error() != "too many" {
		t.Errorf("%d steps, %v", r.steps, err)
	}
}

// A run looks at its context when an evaluation begins, and each 1024 steps.
func TestContextEndsARun(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	r := NewBodyRun(ctx, new(lookups), bodyLimits)
	_, err := r.Evaluate(mustCompile(t, "  1 + 1", new(lookups).language()))
	if !errors.Is(err, context.Canceled) || err.Error() != "column 3: stopped: context canceled" {
		t.Errorf("got %v", err)
	}

	looks := 0
	r = NewBodyRun(counting{t.Context(), &looks}, new(lookups), bodyLimits)
	for _, c := range []struct{ steps, looks int }{{stepLook - 1, 0}, {1, 1}, {stepLook - 1, 1}, {1, 2}, {3 * stepLook, 3}, {stepLook - 1, 3}, {1, 4}} {
		if err := r.count(c.steps); err != nil || looks != c.looks {
			t.Errorf("%d looks after %d steps, want %d: %v", looks, r.steps, c.looks, err)
		}
	}

	// JSON that is read takes its steps at once, so its values are counted, too.
	ended, end := context.WithCancel(t.Context())
	end()
	for values, want := range map[int]bool{stepLook - 1: false, stepLook: true} {
		r = NewBodyRun(ended, nil, &Limits{Values: 1 << 20, Depth: 1, Steps: 1 << 20})
		if _, err := r.Decode([]byte("[1" + strings.Repeat(",1", values-2) + "]")); (err != nil) != want || want && !errors.Is(err, context.Canceled) {
			t.Errorf("%d values: %v", values, err)
		}
	}
}

// Only errors of expressions are recovered. Others are mistakes in the program.
func TestOtherPanicsPass(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); got != "broken" {
			t.Errorf("recovered %s", got)
		}
	}()
	e := &Expression{run: func(*Run) any { panic("broken") }}
	r := NewRun(nil, templateLimits)
	value, err := r.Evaluate(e)
	t.Errorf("got %v, %v", value, err)
}

func TestErrorText(t *testing.T) {
	cause := errors.New("cause")
	for want, e := range map[string]*Error{
		"":                       {},
		"wrong":                  {Message: "wrong"},
		"column 1: wrong":        {Column: 1, Message: "wrong"},
		"a[1].b: wrong":          {Path: "a[1].b", Message: "wrong"},
		"a: column 12: x: cause": {Path: "a", Column: 12, Message: "x", Err: cause},
		"a: cause":               {Path: "a", Err: cause},
		"column 3: cause":        {Column: 3, Err: cause},
	} {
		if e.Error() != want {
			t.Errorf("%q, want %q", e.Error(), want)
		}
		if errors.Is(e, cause) != (e.Err != nil) {
			t.Errorf("%q does not unwrap", want)
		}
	}
	var columns []string
	for _, e := range Sorted([]*Error{{Column: 3}, {Column: 1, Message: "a"}, {Column: 2}, {Column: 1, Message: "b"}}) {
		columns = append(columns, fmt.Sprint(e.Column, e.Message))
	}
	if got := strings.Join(columns, " "); got != "1a 1b 2 3" {
		t.Errorf("sorted: %s", got)
	}
}

// Reading or making a text takes steps for its length (threats.md 57).
func TestTextsTakeStepsForTheirLength(t *testing.T) {
	const length = 1 << 16
	x := strings.Repeat("xxxx", length/4)
	body := `{"s":"` + x + `","t":"` + x + `","zeros":"` + strings.Repeat("0", length) + `7","json":"[\"` + x + `\"]","document":"{\"a\":\"` + x + `\"}",` +
		`"list":["` + x + `"],"other":["` + x + `"],"object":{"` + x + `":1},"same":{"` + x + `":1}}`
	const names = "let b = response.body; let s = b.s; let t = b.t; "
	before, _, err := evaluate(t.Context(), t, 0, names+"1", body)
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range []string{
		"s == t", "s != t", "s < t", "s <= t", "s > t", "s >= t", "s contains 'y'", "s startsWith t", "s endsWith t", "s + t",
		"s in b.list", "s in b.object", "b.object[s]", "b.list == b.other", "b.object == b.same", "sortBy([s, t], #)",
		"s matches 'y'", "s matches '^(x|yy)*$'", "len(s)", "s[1:2]", "upper(s)", "lower(s)", "trim(s)", "split(s, 'y')", "join(b.list)", "replace(s, 'y', '')",
		"json_encode(s)", "json_encode(b.list)", "string(s)", "from_json(b.json)", "base64_encode(s)", "base64_decode(s)", "json_get(b.document, 'a')", "url_encode(s)", "int(b.zeros)",
	} {
		t.Run(source, func(t *testing.T) {
			r, _, err := evaluate(t.Context(), t, 0, names+source, body)
			if err != nil {
				t.Fatal(err)
			}
			if took := r.steps - before.steps; took < length/stepBytes {
				t.Errorf("it takes %d steps, want %d at least", took, length/stepBytes)
			}
		})
	}
}

// Iterating over a list takes a step for each element, and sorting takes one for each comparison (threats.md 57).
func TestListsTakeStepsForTheirElements(t *testing.T) {
	const elements, log = 1 << 12, 12
	list := "[0" + strings.Repeat(",0", elements-1) + "]"
	mixed := "0"
	for i := range elements - 1 {
		mixed += fmt.Sprintf(",%d", (i+1)*2654435761%elements)
	}
	body := `{"list":` + list + `,"other":` + list + `,"lists":[` + list + `],"mixed":[` + mixed + `]}`
	for source, want := range map[string]int{
		"response.body.list == response.body.other": elements, "1 in response.body.list": elements, "[response.body.list] == response.body.lists": elements,
		"sum(response.body.list)": elements, "count(map(response.body.list, true))": 2 * elements,
		"max(response.body.list)": elements, "min(response.body.lists)": elements, "max([[response.body.list]], 1)": elements,
		"sortBy(response.body.mixed, #)": 2*elements + elements*log/2, "join(map(response.body.list, ''))": 2 * elements,
		"string(map(response.body.list, 1))": 2 * elements, "all(response.body.list, # + # + # + # + # + # + # + # == 0)": 9 * elements,
		"all(response.body.list, " + strings.Repeat("!", 10*stepNodes) + "true)": 11 * elements,
	} {
		t.Run(source, func(t *testing.T) {
			r, _, err := evaluate(t.Context(), t, 0, source, body)
			if err != nil {
				t.Fatal(err)
			}
			if r.steps < want {
				t.Errorf("it takes %d steps, want %d at least", r.steps, want)
			}
		})
	}
}

// An expression that would run for hours ends when its steps are used up (threats.md 57).
func TestStepsEnd(t *testing.T) {
	list := `"l":[1` + strings.Repeat(",1", 1<<12) + `]`
	long := `"s":"` + strings.Repeat("x", 2<<20) + `","t":"` + strings.Repeat("x", 2<<20) + `"`
	for _, source := range []string{
		"all(response.body.l, all(response.body.l, response.body.s == response.body.t))",
		"all(response.body.l, not (response.body.s contains 'y'))",
		"sortBy(map(response.body.l, # == 2 ? response.body.s : response.body.t), upper(#))",
		"sortBy(map(response.body.l, [response.body.s, response.body.t][#index % 2]), #)",
		"max(map(response.body.l, response.body.l))",
		"map(response.body.l, response.body.l) == map(response.body.l, map(response.body.l, #))",
		"all(response.body.l, response.body.s matches '(x?){100}y')",
	} {
		t.Run(source, func(t *testing.T) {
			r, _, err := evaluate(t.Context(), t, bodyLimits.Steps-1<<19, source, "{"+list+","+long+"}")
			if err == nil || err.Column == 0 || !strings.Contains(err.Message, "steps") && !strings.Contains(err.Message, "in all") {
				t.Errorf("got %v after %d steps", err, r.steps)
			}
		})
	}
}

// watched is a context that records how many steps a run takes between two calls of Err, and ends after some steps.
type watched struct {
	context.Context
	run           *Run
	last, longest int
	ends          int // the number of steps after which the context ends, or 0
}

func (w *watched) Err() error {
	if w.run == nil {
		return nil
	}
	w.longest, w.last = max(w.longest, w.run.steps-w.last), w.run.steps
	if w.ends > 0 && w.run.steps >= w.ends {
		return context.DeadlineExceeded
	}
	return nil
}

// A run checks its context often enough to end soon after it (threats.md 57).
func TestContextChecks(t *testing.T) {
	list := `"l":[1` + strings.Repeat(",1", 1<<12) + `]`
	long := `"s":"` + strings.Repeat("x", 1<<20) + `"`
	const once = (1<<20)/stepBytes + 2*stepLook // steps for reading a text of 1 MiB once
	for source, most := range map[string]int{
		"all(response.body.l, all(response.body.l, true))":                                       2 * stepLook,
		"max(map(response.body.l, response.body.l))":                                             2 * stepLook,
		"map(response.body.l, response.body.l) == map(response.body.l, map(response.body.l, #))": 2 * stepLook,
		"all(response.body.l, sortBy(response.body.l, -#)[0] == 1)":                              2 * stepLook,
		"all(response.body.l, not (2 in response.body.l))":                                       2 * stepLook,
		"response.body.s matches '(x?){1000}y'":                                                  2 * stepLook,
		"all(response.body.l, not (response.body.s contains 'y'))":                               once,
		"map(response.body.l, upper(response.body.s))":                                           once,
		strings.Repeat("response.body.s contains 'y' || ", 200) + "false":                        once,
		"sortBy(map(response.body.l, response.body.s + string(# % 7)), #)[0] == ''":              2 * once,
	} {
		t.Run(source[:min(len(source), 60)], func(t *testing.T) {
			ctx := &watched{Context: t.Context(), ends: 1 << 16}
			r, _, err := evaluate(ctx, t, 0, source, "{"+list+","+long+"}")
			if !errors.Is(err, context.DeadlineExceeded) || r.steps > ctx.ends+most {
				t.Errorf("it ended after %d steps instead of %d: %v", r.steps, ctx.ends, err)
			}
			if most = max(most, once); ctx.longest > most { // reading the body takes its steps at once
				t.Errorf("%d steps passed without a look, want %d at most", ctx.longest, most)
			}
		})
	}

	t.Run("while JSON is read", func(t *testing.T) {
		looks := 0
		ctx := counting{t.Context(), &looks}
		if _, _, err := evaluate(ctx, t, 0, "response.body", "["+strings.Repeat("{},", 1<<14)+"1]"); err != nil || looks < 1<<14/stepLook {
			t.Errorf("%d looks, %v", looks, err)
		}
	})
}

// counting is a context that counts the calls of Err.
type counting struct {
	context.Context
	looks *int
}

func (c counting) Err() error { *c.looks++; return nil }
