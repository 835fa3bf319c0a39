package expr

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// bodyLimits are similar to the limits of the gateway, and templateLimits to those of the host.
var (
	bodyLimits = &Limits{
		Steps: 8 << 20, TooManySteps: "too many steps", Made: 64 << 20, Text: math.MaxInt, JSON: 8 << 20, TooLong: "the result is longer than 8 MiB",
		Values: 1 << 19, Depth: 100,
	}
	templateLimits = &Limits{Steps: 8 << 20, TooManySteps: "too many steps", Text: 1 << 20, JSON: 1 << 20, TooLong: "the text is longer than 1 MiB"}
)

var (
	errNoSecret   = errors.New("no such secret")
	errNoIssuer   = errors.New("no such issuer")
	errNoIdentity = errors.New("no such identity")
	errNoUUID     = errors.New("no random bytes")
)

// lookups provides the values of expressions, and the languages of bodies and templates.
//
// In bodies, body and response.body are the JSON body, and response.headers is a group of texts. elsewhere is a name of
// another place. In both languages, there is a user without a last name.
type lookups struct {
	body []byte
	read any
	// nobody removes the user and the tenant.
	nobody bool
	// noUUID makes UUID fail.
	noUUID bool
	// now is the number of seconds since 1700000000.
	now int64
}

func (w *lookups) Secret(name string) (string, error) {
	value, ok := map[string]string{"crm": "s3cr3t", "empty": "", "blank": " \n\t"}[name]
	if !ok {
		return "", errNoSecret
	}
	return value, nil
}

func (w *lookups) Discovered(d Discovery) (string, error) {
	if d.Issuer != "https://login.test" {
		return "", errNoIssuer
	}
	return "https://login.test/" + d.Member, nil
}

func (w *lookups) Identity(i Identity) (string, error) {
	if i.Name != "pod" {
		return "", errNoIdentity
	}
	return "token for " + i.Audience, nil
}

func (w *lookups) Variable(name string) (string, bool) {
	value, ok := map[string]string{"region": "eu", "nothing": ""}[name]
	return value, ok
}

func (w *lookups) User() *User {
	if w.nobody {
		return nil
	}
	return &User{Email: "ada@example.com", ID: "u1", Username: "ada", FirstName: "{{ now() }}"}
}

func (w *lookups) TenantID() string {
	if w.nobody {
		return ""
	}
	return "t1"
}

func (w *lookups) Now() int64 { return 1_700_000_000 + w.now }

func (w *lookups) UUID() (string, error) {
	if w.noUUID {
		return "", errNoUUID
	}
	return "0190a5b2-0000-7000-8000-000000000000", nil
}

func (w *lookups) language() *Language {
	groups := []string{"response", "response.headers", "user"}
	return &Language{
		Bodies: true, UnknownFunction: func(string) string { return "there are others" },
		Group: func(path string) bool { return slices.Contains(groups, path) },
		Name: func(group, name string) (*Name, string) {
			switch path := strings.TrimPrefix(group+"."+name, "."); {
			case path == "body" || path == "response.body":
				return &Name{Kind: Any, Get: w.decoded}, ""
			case group == "response.headers":
				return &Name{Kind: Text, Get: func(*Run) (any, *Error) { return "the header " + name, nil }}, ""
			case path == "elsewhere":
				return &Name{}, "elsewhere is not available here"
			default:
				return nil, "unknown name " + path
			}
		},
	}
}

func (w *lookups) decoded(r *Run) (_ any, err *Error) {
	if w.read == nil {
		w.read, err = r.Decode(w.body)
	}
	return w.read, err
}

// ofTemplates is the language of templates.
var ofTemplates = &Language{
	UnknownFunction: func(string) string { return "there are others" },
	Group:           func(path string) bool { return path == "user" },
	Name: func(group, name string) (*Name, string) {
		return nil, "unknown name " + strings.TrimPrefix(group+"."+name, ".")
	},
}

func compileWhole(source string, l *Language) (*Expression, []*Error) {
	p, problem := Whole(source, 4096)
	if problem != nil {
		return nil, []*Error{problem}
	}
	return l.Compile(p, new(Patterns).Source())
}

// mustCompile compiles an expression that has no problem.
func mustCompile(t *testing.T, source string, l *Language) *Expression {
	t.Helper()
	e, problems := compileWhole(source, l)
	if len(problems) > 0 {
		t.Fatalf("%s: problems = %v", source, problems)
	}
	return e
}

// evaluate evaluates an expression over a body. The run begins with used steps. evaluate returns it after the evaluation.
func evaluate(ctx context.Context, t *testing.T, used int, source, body string) (*Run, any, *Error) {
	t.Helper()
	w := &lookups{body: []byte(body)}
	e := mustCompile(t, source, w.language())
	r := NewBodyRun(ctx, w, bodyLimits)
	r.steps = used
	if w, ok := ctx.(*watched); ok {
		w.run = &r
	}
	value, err := r.Evaluate(e)
	return &r, value, err
}

// inBody returns the value of an expression over a body, or its error.
func inBody(t *testing.T, source, body string) string {
	t.Helper()
	_, value, err := evaluate(t.Context(), t, 0, source, body)
	return outcome(value, err)
}

// inTemplate returns the value of an expression of a template, or its error.
func (w *lookups) inTemplate(t *testing.T, source string) string {
	t.Helper()
	r := NewRun(w, templateLimits)
	return outcome(r.Evaluate(mustCompile(t, source, ofTemplates)))
}

func outcome(value any, err *Error) string {
	if err != nil {
		return err.Error()
	}
	return literal(value)
}

// literal writes a value as an expression would. Decimals have a point or an exponent, and members of decoded objects are
// sorted.
func literal(value any) string {
	switch value := value.(type) {
	case nil:
		return "nil"
	case bool, int64:
		return fmt.Sprint(value)
	case float64:
		if s := strconv.FormatFloat(value, 'g', -1, 64); strings.ContainsAny(s, ".eIN") {
			return s
		}
		return fmt.Sprintf("%.1f", value)
	case Number:
		return "Number " + string(value)
	case string:
		return "'" + value + "'"
	case *List:
		var elements []string
		for _, element := range value.elements {
			elements = append(elements, literal(element))
		}
		return "[" + strings.Join(elements, ", ") + "]"
	case *Object:
		var members []string
		for name, member := range value.all {
			members = append(members, name+": "+literal(member))
		}
		if value.order == nil {
			slices.Sort(members)
		}
		return "{" + strings.Join(members, ", ") + "}"
	}
	return fmt.Sprintf("%T", value)
}

// table is a list of expressions, each with its value or the beginning of its error.
type table []struct{ source, want string }

// holds reports whether an outcome is as wanted. Of an error, the text that is wanted may be the beginning.
func holds(got, want string) bool {
	return got == want || strings.HasPrefix(want, "column ") && strings.HasPrefix(got, want)
}

// inBodies checks the table with expressions over a body.
func (rows table) inBodies(t *testing.T, body string) {
	t.Helper()
	for _, row := range rows {
		if got := inBody(t, row.source, body); !holds(got, row.want) {
			t.Errorf("in bodies, %s\n is %s\nnot %s", row.source, got, row.want)
		}
	}
}

// inTemplates checks the table with expressions of templates.
func (rows table) inTemplates(t *testing.T) {
	t.Helper()
	for _, row := range rows {
		if got := new(lookups).inTemplate(t, row.source); !holds(got, row.want) {
			t.Errorf("in templates, %s\n is %s\nnot %s", row.source, got, row.want)
		}
	}
}

// caseFiles have expressions, each with its value, its problems, or the beginning of its error. A line == begins a test. Lines that are
// not indented say where the expressions behind them hold.
//
//go:embed testdata/*.txt
var caseFiles embed.FS

func TestCases(t *testing.T) {
	files := testworld.Must(fs.Glob(caseFiles, "testdata/*.txt"))(t)
	for _, file := range files {
		text := testworld.Must(caseFiles.ReadFile(file))(t)
		for test := range strings.SplitSeq(strings.TrimPrefix(string(text), "== "), "\n== ") {
			name, test, _ := strings.Cut(test, "\n")
			t.Run(name, func(t *testing.T) { checkCases(t, test) })
		}
	}
}

// checkCases checks the expressions of a test.
func checkCases(t *testing.T, test string) {
	t.Helper()
	var places []string
	var rows table
	check := func() {
		for _, place := range places {
			body, overBody := strings.CutPrefix(place, "in bodies over ")
			switch {
			case len(rows) == 0:
				t.Errorf("there is no case %s", place)
			case overBody:
				rows.inBodies(t, body)
			case place == "in templates":
				rows.inTemplates(t)
			case place == "refused in bodies":
				rows.refused(t, new(lookups).language())
			case place == "refused in templates":
				rows.refused(t, ofTemplates)
			default:
				t.Errorf("%s: no such place", place)
			}
		}
		places, rows = nil, nil
	}
	for line := range strings.SplitSeq(test, "\n") {
		source, want, isCase := strings.Cut(strings.TrimSpace(line), "\t=> ")
		switch {
		case source == "" || strings.HasPrefix(source, "# "):
		case isCase:
			rows = append(rows, struct{ source, want string }{source, want})
		default:
			if len(rows) > 0 {
				check()
			}
			places = append(places, source)
		}
	}
	check()
}

// refused checks a table of expressions that do not compile. Each has as many problems as are wanted, with | between them.
func (rows table) refused(t *testing.T, l *Language) {
	t.Helper()
	for _, row := range rows {
		var found []string
		_, problems := compileWhole(row.source, l)
		for _, p := range problems {
			found = append(found, p.Error())
		}
		if got := strings.Join(found, " | "); len(found) != strings.Count(row.want, " | ")+1 || !holds(got, row.want) {
			t.Errorf("%s\nhas %q\nnot %q", row.source, got, row.want)
		}
	}
}
