package docs

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

var update = flag.Bool("update", false, "write docs/packages.md and the lists in testdata")

// surfaces are the packages that programs and plugins of others import.
var surfaces = []string{"abi", "host", "host/hosttest", "host/hosttest/cases", "host/hosttest/conform", "host/state", "host/view", "sdk", "server/gateway"}

// What packages export changes only together with testdata/surface.txt, so that a reader of the change sees it.
func TestSurface(t *testing.T) {
	var lines []string
	for _, dir := range surfaces {
		lines = append(lines, surface(t, dir)...)
	}
	golden(t, "server/internal/docs/testdata/surface.txt", strings.Join(lines, "\n")+"\n")
}

// golden compares a text with a file of the repository. With -update it writes the file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join(root, name)
	if *update {
		testworld.Check(t, os.WriteFile(path, []byte(got), 0o600))
	}
	if want, err := os.ReadFile(path); err != nil || got != string(want) {
		t.Errorf("%s is not what the code says, %v: look at the difference after go -C server test ./internal/docs -run %s -update", name, err, t.Name())
	}
}

// surface returns a line for each exported identifier of a package: constants, variables, functions, types, and their fields and methods.
func surface(t *testing.T, dir string) (lines []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s has no files: %v", dir, err)
	}
	seen := token.NewFileSet()
	add := func(kind, name string, node any) {
		var text strings.Builder
		if node != nil {
			testworld.Check(t, printer.Fprint(&text, seen, node))
		}
		line := strings.Join(strings.Fields(dir+": "+kind+" "+name+" "+text.String()), " ")
		if !slices.Contains(lines, line) { // files of several platforms have the same
			lines = append(lines, line)
		}
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file := testworld.Must(parser.ParseFile(seen, path, nil, parser.SkipObjectResolution))(t)
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(receiver(d))) {
					kind, name := "func", d.Name.Name
					if d.Recv != nil {
						kind, name = "method", receiver(d)+"."+name
					}
					add(kind, name, d.Type)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					addSpec(add, d.Tok, spec)
				}
			}
		}
	}
	slices.Sort(lines)
	return lines
}

func addSpec(add func(kind, name string, node any), tok token.Token, spec ast.Spec) {
	switch s := spec.(type) {
	case *ast.ValueSpec:
		for _, name := range s.Names {
			if name.IsExported() && s.Type != nil {
				add(tok.String(), name.Name, s.Type)
			} else if name.IsExported() {
				add(tok.String(), name.Name, nil)
			}
		}
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return
		}
		members := &ast.FieldList{}
		switch of := s.Type.(type) {
		case *ast.StructType:
			members = of.Fields
			add("type", s.Name.Name+" struct", nil)
		case *ast.InterfaceType:
			members = of.Methods
			add("type", s.Name.Name+" interface", nil)
		default:
			add("type", s.Name.Name, s.Type)
		}
		for _, member := range members.List {
			for _, name := range member.Names {
				if name.IsExported() {
					add("member", s.Name.Name+"."+name.Name, member.Type)
				}
			}
			if len(member.Names) == 0 {
				add("member", s.Name.Name+" embeds", member.Type)
			}
		}
	}
}

// receiver returns the name of the type that a method has.
func receiver(d *ast.FuncDecl) string {
	of := d.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if index, ok := of.(*ast.IndexExpr); ok {
		of = index.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}
