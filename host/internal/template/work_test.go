package template

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// threats.md 57: expressions that make long texts over and over end, in one template or in all of an object; none of
// what they make need be in the result.
func TestWorkIsBounded(t *testing.T) {
	const long = "get_secret('long')" // of 1 MiB
	doubled := strings.Repeat("json_encode(", 17) + `'"'` + strings.Repeat(")", 17)
	for name, one := range map[string]string{
		"contains":    long + " contains 'y'",
		"comparison":  long + " == " + long,
		"order":       long + " < " + long,
		"encoding":    "json_encode(" + doubled + ") == ''",
		"structures":  "json_encode(" + strings.Repeat("[", 200) + doubled + strings.Repeat("]", 200) + ") == ''",
		"choice":      "(" + long + " endsWith 'y') ? 1 : 2",
		"default":     "default('', json_encode(" + doubled + ")) == ''",
		"base64":      "base64_decode(base64_encode(" + doubled + ")) == ''",
		"short terms": "json_encode([" + doubled + ", 1]) == ''",
	} {
		t.Run(name, func(t *testing.T) {
			source := strings.Repeat("{{ "+one+" }}", 64<<10/len("{{ "+one+" }}"))
			if n := strings.Count(source, "{{"); n > MaxExpressions {
				source = strings.Repeat("{{ "+one+" }}", MaxExpressions)
			}
			wantError(t, source, values(), "more than 8 MiB of text in all")

			members := map[string]any{}
			for i := range 300 {
				members[fmt.Sprint(i)] = "{{ " + one + " }}"
			}
			object, err := compileObject(map[string]any{"list": []any{members}})
			if err != nil {
				t.Fatal(err)
			}
			_, err = renderObject(object, values(), func(parts []Part) (string, error) { return Join(parts), nil })
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(e.Message, "8 MiB") || e.Path == "" || e.Column == 0 {
				t.Errorf("the object gives %v", err)
			}
		})
	}
}

// What the expressions of a template may take in all, they may take.
func TestWorkOfJustTheLimit(t *testing.T) {
	source := strings.Repeat("{{ get_secret('long') contains '' }}", MaxWork/MaxText)
	if _, err := renderText(t, source, values()); err != nil {
		t.Error(err)
	}
	wantError(t, source+"{{ '' contains 'x' }}", values(), "more than 8 MiB of text in all")
}
