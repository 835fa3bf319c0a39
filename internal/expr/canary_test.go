package expr

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// No error quotes a value, whatever operator or function it comes from (threats.md 18).
func TestErrorsQuoteNoValue(t *testing.T) {
	const (
		canary = "kJ8canary"
		number = "7391648205"
		body   = `{"text":"` + canary + `","other":"` + canary + `!","list":["` + canary + `",` + number + `,null],"object":{"` + canary + `":"` + canary + `"},` +
			`"integer":` + number + `,"decimal":` + number + `.5,"huge":` + number + number + number + `,"yes":true,"none":null,"odd":"\u0000"}`
	)
	operands := []string{"body.text", "body.other", "body.list", "body.object", "body.integer", "body.decimal", "body.huge", "body.yes", "body.none", "body.odd"}
	var sources []string
	for _, x := range operands {
		sources = append(sources, "-"+x, "!"+x, x+" ? 1 : 2", x+"[1:]", "body.text["+x+":]", x+" matches 'a'", x+".a", x+"[9]", "let v = "+x+"; v.a.b")
		for _, y := range operands {
			for name := range operators {
				sources = append(sources, x+" "+name+" "+y)
			}
			sources = append(sources, x+"["+y+"]", x+" && "+y, "from_json("+x+" + "+y+")", "int("+x+" + "+y+")", "base64_decode("+x+" + "+y+")")
			for name := range rounds {
				sources = append(sources, name+"("+x+", "+y+")", name+"("+y+", #["+x+"])")
			}
		}
		for name, f := range functions {
			if name != "get_secret" && name != "get_variable" {
				most := min(f.maxArgs, len(arguments{}))
				sources = append(sources, name+"("+strings.TrimSuffix(strings.Repeat(x+", ", max(f.minArgs, 1)), ", ")+")", name+"("+strings.TrimSuffix(strings.Repeat(x+", ", most), ", ")+")")
			}
		}
	}
	slices.Sort(sources)
	failed := 0
	for _, source := range slices.Compact(sources) {
		w := &lookups{body: []byte(body)}
		e, problems := compileWhole(source, w.language())
		if len(problems) > 0 { // uuid takes no argument
			continue
		}
		r := NewBodyRun(t.Context(), w, bodyLimits)
		value, err := r.Evaluate(e)
		if err == nil {
			_, err = r.AppendText(nil, value)
		}
		if err == nil {
			continue
		}
		failed++
		if text := fmt.Sprintf("%v %+v", err, err.Err); strings.Contains(text, canary) || strings.Contains(text, number) {
			t.Errorf("the error of %s quotes a value: %v", source, err)
		}
	}
	if failed < 1000 {
		t.Errorf("only %d expressions failed", failed)
	}
}
