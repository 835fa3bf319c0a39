package template

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/host/internal/strictjson"
	"github.com/keywright/keywright/internal/expr"
	"github.com/keywright/keywright/internal/testworld"
)

// seal replaces secrets in the object by other text, as the host does.
func seal(parts []Part) (string, error) {
	var b strings.Builder
	for _, p := range parts {
		if p.Secret {
			b.WriteString("<sealed>")
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String(), nil
}

func decode(t *testing.T, source string) any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(source))
	decoder.UseNumber()
	var v any
	testworld.Check(t, decoder.Decode(&v))
	return v
}

// Strings are templates at any depth, and other values stay as they are. specification.md "keys of objects are plain"
func TestKeysOfObjects(t *testing.T) {
	object := testworld.Must(compileObject(decode(t, `{
		"sub": "{{ user.email }}", "exp": "{{ now(300) }}", "{{ now() }}": "plain name", "admin": true, "none": null, "big": 12345678901234567890,
		"ratio": 1.50, "roles": [{"name": "r-{{ tenant_id }}"}, 7, ["{{ get_secret('crm') }}!"]], "empty": {}, "list": []
	}`)))(t)
	want := map[string]any{
		"sub": "ada@example.com", "exp": "1700000300", "{{ now() }}": "plain name", "admin": true, "none": nil, "big": json.Number("12345678901234567890"),
		"ratio": json.Number("1.50"), "roles": []any{map[string]any{"name": "r-t1"}, json.Number("7"), []any{"<sealed>!"}},
		"empty": map[string]any{}, "list": []any{},
	}
	for range 2 { // the second round shows that the result is the caller's own
		got := testworld.Must(renderObject(object, values(), seal))(t)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
		got["roles"].([]any)[0].(map[string]any)["name"] = "changed"
		delete(got, "sub")
	}
	names := Names{Secrets: []string{"crm"}, User: []string{"email"}, Tenant: true}
	if diff := cmp.Diff(names, object.Names()); diff != "" {
		t.Error(diff)
	}
}

func TestLiteralObject(t *testing.T) {
	object := testworld.Must(compileObject(map[string]any{"kid": "k1", "n": []any{json.Number("1"), json.Number("-2"), json.Number("18446744073709551615"), json.Number("0.5"), json.Number("1e6")}}))(t)
	got, err := renderObject(object, nil, seal)
	want := map[string]any{"kid": "k1", "n": []any{
		json.Number("1"), json.Number("-2"), json.Number("18446744073709551615"), json.Number("0.5"), json.Number("1e6"),
	}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
}

func TestObjectErrors(t *testing.T) {
	deep := any("x")
	for range maxDepth + 1 {
		deep = []any{deep}
	}
	_, errs := CompileObject(map[string]any{
		"exp":            "{{ nope() }} {{ }}",
		"roles":          []any{map[string]any{"name": "a{{ b }}"}, json.Number("1x"), json.Number(" 1"), math.NaN(), struct{}{}},
		"https://x/\nid": map[string]any{"y": "{{"},
		"deep":           deep,
	}, "")
	want := []string{
		`deep` + strings.Repeat("[0]", maxDepth) + `: nested deeper than 64`,
		`exp: column 4: unknown function "nope": ` + knownFunctions,
		`exp: column 14: empty expression`,
		`["https://x/\nid"].y: column 1: there is no }} that ends this {{`,
		`roles[0].name: column 5: unknown variable "b": ` + knownVariables + "; a secret, also one of the environment, is get_secret('NAME')",
		`roles[1]: not a JSON value (json.Number)`,
		`roles[2]: not a JSON value (json.Number)`,
		`roles[3]: not a JSON value (float64)`,
		`roles[4]: not a JSON value (struct {})`,
	}
	var got []string
	for _, e := range errs {
		got = append(got, e.Error())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, v := range []any{nil, "x", []any{}, 1} {
		if _, err := compileObject(v); err == nil {
			t.Errorf("%v is no object", v)
		}
	}
}

func TestObjectRenderErrors(t *testing.T) {
	object := testworld.Must(compileObject(map[string]any{"a": []any{"{{ tenant_id }}", map[string]any{"b": "x{{ get_secret('none') }}"}}}))(t)
	_, err := renderObject(object, values(), seal)
	if err == nil || err.Error() != "a[1].b: column 5: get_secret('none'): no such secret" || !errors.Is(err, errNoSecret) {
		t.Errorf("got %v", err)
	}
	full := errors.New("full")
	_, err = renderObject(object, values(), func([]Part) (string, error) { return "", full })
	if err == nil || err.Error() != "a[0]: full" || !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

// The names that errors list are those of the language.
func TestKnownNames(t *testing.T) {
	listed := strings.Split(strings.TrimPrefix(knownFunctions, "there are "), ", ")
	if slices.Sort(listed); !slices.Equal(listed, language.FunctionNames()) {
		t.Errorf("listed are %v, there are %v", listed, language.FunctionNames())
	}
	if want := "there are tenant_id and user." + strings.Join(expr.UserFields, ", user."); knownVariables != want {
		t.Errorf("got %s, want %s", knownVariables, want)
	}
}

// renderObject decodes what AppendJSON appends.
func renderObject(o *Object, v Values, text func([]Part) (string, error)) (map[string]any, error) {
	document, err := o.AppendJSON(nil, v, text)
	if err != nil {
		return nil, err
	}
	var object strictjson.Tree
	err = strictjson.Unmarshal(document, &object)
	return object, err
}

// A text that JSON cannot have is reported with its place, and not quoted.
func TestNonUTF8Object(t *testing.T) {
	object := testworld.Must(compileObject(map[string]any{"roles": []any{map[string]any{"name": "{{ base64_decode('/w==') }}"}}}))(t)
	_, err := renderObject(object, nil, func([]Part) (string, error) { return "s\xff", nil })
	if err == nil || err.Error() != "roles[0].name: a string is not UTF-8" {
		t.Errorf("the error is %v", err)
	}
}

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
			if n := strings.Count(source, "{{"); n > expr.MaxExpressions {
				source = strings.Repeat("{{ "+one+" }}", expr.MaxExpressions)
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
				t.Errorf("the object results in %v", err)
			}
		})
	}
}

// A template may use exactly maxWork.
func TestWorkOfJustTheLimit(t *testing.T) {
	source := strings.Repeat("{{ get_secret('long') contains '' }}", maxWork/maxText)
	if _, err := renderText(t, source, values()); err != nil {
		t.Error(err)
	}
	wantError(t, source+"{{ '' contains 'x' }}", values(), "more than 8 MiB of text in all")
}
