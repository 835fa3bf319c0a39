package docs

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

const (
	maxMethods = 40
	maxFields  = 40
)

var (
	// particles are participles, prepositions and pronouns, which name nothing by themselves.
	particles = strings.Fields("given wanted known kept held taken made asked seen left told sent tried said shown meant written named " +
		"passed gone begun ended opened stored drawn looked counted joined folded chosen granted allowed refused settled leased holds has " +
		"may most least before after further other others another again ahead apart somebody everybody whole instead beside within " +
		"without of at on by than as")
	// clause matches the words that make a sentence of the name of a test.
	clause = regexp.MustCompile(`[a-z0-9](That|Which|What|Whose|Nobody|Another|Is|Are|CannotBe)([A-Z]|$)`)
	// wordless matches a format that has no word for the values it shows.
	wordless = regexp.MustCompile(`^(%[-+#0-9.]*[a-zA-Z]|[^\pL])*$`)
	// failureFuncs are the methods of testing.T that take a format.
	failureFuncs = []string{"Errorf", "Fatalf"}
	// matchers are the functions of package strings that search a text.
	matchers = []string{"Contains", "HasPrefix", "HasSuffix", "Cut", "CutPrefix", "CutSuffix", "EqualFold", "Index"}
)

// A declared name is a noun or a verb phrase, the name of a test is no clause, a failure has a word, a type has bounds, and
// no code but tests matches the text of an error. testdata/house.txt lists the exceptions; -update writes it if it grows no longer.
func TestHouseRules(t *testing.T) {
	const list = "testdata/house.txt"
	var found []string
	methods := map[string]int{}
	for _, path := range texts(t) {
		if strings.HasSuffix(path, ".go") {
			found = append(found, exceptions(t, path, methods)...)
		}
	}
	for typ, n := range methods {
		if n > maxMethods {
			found = append(found, typ+": more than "+strconv.Itoa(maxMethods)+" methods")
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	text := testworld.Must(os.ReadFile(list))(t)
	allowed := strings.Split(string(bytes.TrimSpace(text)), "\n")
	if *update && len(found) <= len(allowed) {
		allowed = found
		testworld.Check(t, os.WriteFile(list, []byte(strings.Join(found, "\n")+"\n"), 0o600))
	}
	for _, exception := range found {
		if !slices.Contains(allowed, exception) {
			t.Errorf("%s: write it another way, since %s may not grow", exception, list)
		}
	}
	for _, exception := range allowed {
		if exception != "" && !slices.Contains(found, exception) {
			t.Errorf("%s: this is mended: remove its line from %s, with -update", exception, list)
		}
	}
}

// exceptions returns a line for each exception to the rules in a file. It counts the methods of types by package and type.
func exceptions(t *testing.T, path string, methods map[string]int) (lines []string) {
	t.Helper()
	file := testworld.Must(parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.SkipObjectResolution))(t)
	test := strings.HasSuffix(path, "_test.go")
	report := func(what string) { lines = append(lines, path+": "+what) }
	name := func(ids ...*ast.Ident) {
		for _, id := range ids {
			if id != nil && slices.Contains(particles, strings.ToLower(id.Name)) {
				report("name " + id.Name)
			}
		}
	}
	if base := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(path), ".go"), "_test"); slices.Contains(particles, base) {
		report("file name")
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			name(n.Name)
			if clause.MatchString(n.Name.Name) && test && strings.HasPrefix(n.Name.Name, "Test") {
				report("test " + n.Name.Name)
			}
			if receiver := receiverOf(n); receiver != "" && !test {
				methods[filepath.Dir(path)+"."+receiver]++
			}
		case *ast.TypeSpec:
			name(n.Name)
			if s, ok := n.Type.(*ast.StructType); ok && s.Fields.NumFields() > maxFields && !test {
				report(n.Name.Name + " has more than " + strconv.Itoa(maxFields) + " fields")
			}
		case *ast.ValueSpec:
			name(n.Names...)
		case *ast.Field:
			name(n.Names...)
		case *ast.AssignStmt:
			if n.Tok == token.DEFINE {
				name(identifiers(n.Lhs)...)
			}
		case *ast.RangeStmt:
			if n.Tok == token.DEFINE {
				name(identifiers([]ast.Expr{n.Key, n.Value})...)
			}
		case *ast.CallExpr:
			fun, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || len(n.Args) == 0 {
				break
			}
			if test && slices.Contains(failureFuncs, fun.Sel.Name) && types.ExprString(fun.X) != "fmt" {
				if format, ok := n.Args[0].(*ast.BasicLit); ok && wordless.MatchString(testworld.Must(strconv.Unquote(format.Value))(t)) {
					report("failure " + format.Value)
				}
			} else if !test && slices.Contains(matchers, fun.Sel.Name) && strings.HasSuffix(types.ExprString(n.Args[0]), ".Error()") {
				report("matches the text of an error")
			}
		}
		return true
	})
	return lines
}

// identifiers returns the identifiers among expressions.
func identifiers(all []ast.Expr) (ids []*ast.Ident) {
	for _, e := range all {
		if id, ok := e.(*ast.Ident); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

var (
	// dialect matches words that the comments of the standard library do not use.
	dialect = regexp.MustCompile(`(?i)\b(gives|tells|is told|is what|are what|is how|is where|is for what|whoever|has none|have none|has (it|them) \w+|what it has of|comes of)\b`)
	// opening matches a name and its verb. An article may precede the name, and an aside or an adverb may follow it.
	opening = regexp.MustCompile(`^(?:A |An |The )?([\w.]+)(?:,[^,]*,|, (?:if|when)\b[^,]*,| also| never)? (\w*s|are)\b`)
)

// Comments are written as in the standard library: the doc comment of a function or type begins with its name and a verb.
func TestCommentWords(t *testing.T) {
	for _, name := range texts(t) {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		for _, wrong := range idiom(t, name) {
			t.Error(wrong)
		}
	}
}

// idiom returns an error message for each comment of a file that is not written as in the standard library.
func idiom(t *testing.T, name string) (wrong []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, filepath.Join(root, name), nil, parser.ParseComments|parser.SkipObjectResolution)
	testworld.Check(t, err)
	report := func(c *ast.CommentGroup, why string) {
		first, _, _ := strings.Cut(c.Text(), "\n")
		wrong = append(wrong, set.Position(c.Pos()).String()+": "+first+"\n\t"+why)
	}
	for _, c := range file.Comments {
		text := strings.Join(strings.Fields(c.Text()), " ")
		if found := dialect.FindString(text); found != "" {
			report(c, "has \""+found+"\": name what is meant, and say what it returns, reports, sets or is")
		}
	}
	for _, d := range file.Decls {
		declaration(d, report)
	}
	if !strings.HasSuffix(name, "_test.go") {
		fields(file, report)
	}
	return wrong
}

// declaration reports doc comments of functions and types that do not begin with the declared name and a verb.
func declaration(d ast.Decl, report func(c *ast.CommentGroup, why string)) {
	named := func(c *ast.CommentGroup, name string) {
		if c == nil || c.Text() == "" || strings.HasPrefix(c.Text(), "Deprecated:") { // Text omits directives such as go:noinline
			return
		}
		match := opening.FindStringSubmatch(strings.ReplaceAll(c.Text(), "\n", " "))
		if match == nil || match[1] != name {
			report(c, "begin with "+name+" and a verb")
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !strings.HasPrefix(d.Name.Name, "Test") && !strings.HasPrefix(d.Name.Name, "Fuzz") && !strings.HasPrefix(d.Name.Name, "Benchmark") && !strings.HasPrefix(d.Name.Name, "Example") {
			named(d.Doc, d.Name.Name)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if s, ok := s.(*ast.TypeSpec); ok {
				doc := s.Doc
				if doc == nil && !d.Lparen.IsValid() { // the comment of a group is that of all its types
					doc = d.Doc
				}
				named(doc, s.Name.Name)
			}
		}
	}
}

// fields reports comments behind fields. A sentence above the field has more room for units and defaults.
func fields(file *ast.File, report func(c *ast.CommentGroup, why string)) {
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.StructType); ok {
			for _, f := range s.Fields.List {
				if f.Comment != nil {
					report(f.Comment, "write a sentence above the field")
				}
			}
		}
		return true
	})
}
