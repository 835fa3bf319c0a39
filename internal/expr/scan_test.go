package expr

import (
	"strconv"
	"strings"
	"testing"
)

// Quotes and braces of the language determine where an expression ends, and columns count runes.
func TestCut(t *testing.T) {
	for source, want := range map[string]string{
		"":                             "",
		"text":                         "1 text",
		"a{{ b }}c":                    "1 a|2 { b }|9 c",
		"é{{ 'ü' }}é":                  "1 é|2 { 'ü' }|11 é",
		"{{ '}}' }}":                   "1 { '}}' }",
		"{{ {a: {b: 1}} }}":            "1 { {a: {b: 1}} }",
		"{{ {a: {b: 1}}}}":             "1 { {a: {b: 1}}}",
		"{{a}}{{b}}":                   "1 {a}|6 {b}",
		"}} and { and } are text":      "1 }} and { and } are text",
		"\xff\xfe{{ a }}\xff":          "1 \xff\xfe|3 { a }|10 \xff",
		"{{ \"\xff\" }}x":              "1 { \"\xff\" }|10 x",
		"{{}}x":                        "1 {}|5 x",
		"{{a} }}x":                     "1 {a} }|8 x",
		"{{ a} }}x":                    "1 { a} }|9 x",
		"{{ {a: 1} } }}":               "1 { {a: 1} } }",
		"{{1,1,1,1,1,}}":               "1 {1,1,1,1,1,}",
		"{{{1:1,1:1,}}}":               "1 {{1:1,1:1,}}",
		"{{1,1,1,1,1,1}}":              "1: the expression has more than 10 tokens",
		"a {{ b":                       "1 a |3: there is no }} that ends this {{",
		"a {{ 'b }}":                   "1 a |6: literal not terminated",
		strings.Repeat("{{1}}", 257):   strings.TrimPrefix(many(256), "|") + "|1281: more than 256 expressions",
		"{{" + strings.Repeat("1,", 6): "1: the expression has more than 10 tokens",
	} {
		if got := cutText(source); got != want {
			t.Errorf("%q is cut into\n%q, want\n%q", source, got, want)
		}
	}
}

func many(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("|" + shown(Piece{Text: "1", Expression: true, Start: 1 + 5*i}))
	}
	return b.String()
}

func shown(p Piece) string {
	if p.Expression {
		return strconv.Itoa(p.Start) + " {" + p.Text + "}"
	}
	return strconv.Itoa(p.Start) + " " + p.Text
}

func cutText(source string) string {
	pieces, problem := Cut(source, 10)
	var all []string
	for _, p := range pieces {
		all = append(all, shown(p))
	}
	if problem != nil {
		all = append(all, strconv.Itoa(problem.Column)+": "+problem.Message)
	}
	return strings.Join(all, "|")
}

// A syntax error has the place at which the parser failed, and never quotes a literal, which may be a password.
func TestParse(t *testing.T) {
	for source, want := range map[string]string{
		"a + ":               "4: syntax error near the end",
		"a 'hunter2'":        "3: syntax error near a text",
		"a 12":               "3: syntax error near a number",
		"a b":                `3: syntax error near "b"`,
		"a + * b":            `5: syntax error near "*"`,
		" ":                  "1: empty expression",
		"a + b":              "",
		"'hunter2":           "1: literal not terminated",
		"a + \t 'hunter2":    "7: literal not terminated",
		"a + '\\q'":          "5: invalid char escape",
		"ä + §":              "5: unrecognized character",
		"a }} b":             `3: syntax error near "}"`,
		"b'hunter2' b":       `12: syntax error near "b"`,
		"a b'hunter2'":       "3: syntax error near a text",
		long[:40] + " 'b'":   "42: syntax error near a text",
		"a " + long[:40]:     `3: syntax error near "` + long[:40] + `"`,
		"a " + long[:41]:     `3: syntax error near "` + long[:40] + `"…`,
		"a " + long + " 'b'": `3: syntax error near "` + long[:40] + `"…`,
	} {
		p, problem := Whole(source, 100)
		if problem == nil {
			_, problem = p.parse(nil)
		}
		got := ""
		if problem != nil {
			got = strconv.Itoa(problem.Column) + ": " + problem.Message
		}
		if got != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
}

var long = strings.Repeat("x", 50)

// A source that is one expression may have as many tokens as are allowed, and not one more.
func TestTokenBound(t *testing.T) {
	for source, want := range map[string]string{"1,1,1,1,1,": "", "1,1,1,1,1,1": "1: the expression has more than 10 tokens"} {
		got := ""
		if _, problem := Whole(source, 10); problem != nil {
			got = strconv.Itoa(problem.Column) + ": " + problem.Message
		}
		if got != want {
			t.Errorf("%s: %q, want %q", source, got, want)
		}
	}
}
