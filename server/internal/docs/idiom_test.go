package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

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
