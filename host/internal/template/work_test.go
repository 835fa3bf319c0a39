package template

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// Expressions that make long texts over and over fail, in a template and in an object as a whole, even if the texts are
// not in the result. threats.md 57
func TestWorkBound(t *testing.T) {
	const long = "get_secret('long')" // its value has 1 MiB
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
		"json_get":    "json_get('{\"a\":' + json_encode(" + doubled + ") + '}', 'a') == ''",
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
			object := testworld.Must(compileObject(map[string]any{"list": []any{members}}))(t)
			_, err := renderObject(object, values(), func(parts []Part) (string, error) { return Join(parts), nil })
			var e *Error
			if !errors.As(err, &e) || !strings.Contains(e.Message, "8 MiB") || e.Path == "" || e.Column == 0 {
				t.Errorf("the object gives %v", err)
			}
		})
	}
}

// A template may use exactly MaxWork.
func TestWorkOfJustTheLimit(t *testing.T) {
	source := strings.Repeat("{{ get_secret('long') contains '' }}", MaxWork/MaxText)
	if _, err := renderText(t, source, values()); err != nil {
		t.Error(err)
	}
	wantError(t, source+"{{ '' contains 'x' }}", values(), "more than 8 MiB of text in all")
}
