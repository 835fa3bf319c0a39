package expr

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

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
