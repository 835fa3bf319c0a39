package docs

import (
	"cmp"
	"flag"
	"go/ast"
	"go/printer"
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// public lists the packages that other programs import.
var public = []string{
	"abi", "sdk", "plugins", "host", "host/hosttest", "host/hosttest/cases", "host/hosttest/conform", "host/view", "server/gateway", "server/identity", "server/connectors",
	"server/content", "server/content/client", "server/content/embed", "server/content/httpapi", "server/content/importer", "server/content/postgres", "server/content/sqlite",
}

// The output of go doc is complete: no exported name refers to an internal package or is an alias of another package's type, whose fields
// go doc would not show. The comment of an alias of a type of host/view names the command that shows them.
func TestExportedTypesShowThemselves(t *testing.T) {
	for _, dir := range public {
		for _, d := range declarations(t, dir) {
			if spec, ok := d.node.(*ast.TypeSpec); ok && spec.Assign.IsValid() {
				command := "go doc github.com/keywright/keywright/host/" + types.ExprString(spec.Type)
				if _, ok := spec.Type.(*ast.SelectorExpr); ok && !strings.Contains(strings.Join(strings.Fields(spec.Doc.Text()), " "), command) {
					t.Errorf("%s.%s is an alias of another package's type, so go doc does not show its fields: use that type, make one, or write that %s has them", dir, d.name, command)
				}
			}
			for _, s := range selectors(d.node) {
				if path := importsOf(d.file)[types.ExprString(s.X)]; strings.Contains(path+"/", "/internal/") {
					t.Errorf("%s.%s has %s, which readers cannot look up: it is of %s", dir, d.name, types.ExprString(s), path)
				}
			}
		}
	}
}

// The public API of host, hosttest and sdk uses types of the standard library, abi, host, host/hosttest, host/state, host/view and sdk only.
func TestExportedNamesShowNoTypesOfDependencies(t *testing.T) {
	ours := []string{"abi", "host", "host/hosttest", "host/state", "host/view", "sdk"}
	for _, dir := range []string{"host", "host/hosttest", "host/hosttest/cases", "host/hosttest/conform", "host/view", "sdk"} {
		for _, d := range declarations(t, dir) {
			for _, s := range selectors(d.node) {
				path := importsOf(d.file)[types.ExprString(s.X)]
				first, _, _ := strings.Cut(path, "/")
				if strings.Contains(first, ".") && !slices.Contains(ours, strings.TrimPrefix(path, module)) {
					t.Errorf("%s.%s shows %s of %s", dir, d.name, types.ExprString(s), path)
				}
			}
		}
	}
}

// Every exported name has a doc comment, except methods that implement an interface of the standard library.
func TestExportedNamesHaveComments(t *testing.T) {
	for _, dir := range public {
		all := declarations(t, dir)
		for _, d := range all {
			_, method, _ := strings.Cut(d.name, ".")
			if !slices.Contains([]string{"Error", "Unwrap", "String", "Is"}, method) && !documented(d.node) {
				t.Errorf("%s.%s has no doc comment", dir, d.name)
			}
		}
		if len(all) < 1 {
			t.Errorf("%s has %d exported names: the test does not find them", dir, len(all))
		}
	}
}

// selectors returns the names of other packages that go doc shows of a declaration.
func selectors(shown ast.Node) (all []*ast.SelectorExpr) {
	private := map[*ast.Field]bool{}
	var look func(n ast.Node) bool
	look = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BlockStmt, *ast.CompositeLit: // go doc does not show these
			return false
		case *ast.StructType:
			for _, field := range n.Fields.List {
				private[field] = len(field.Names) > 0 && !slices.ContainsFunc(field.Names, (*ast.Ident).IsExported)
			}
		case *ast.Field:
			return !private[n]
		case *ast.ValueSpec: // a value says nothing that its type does not
			if n.Type != nil {
				ast.Inspect(n.Type, look)
				return false
			}
		case *ast.SelectorExpr:
			all = append(all, n)
		}
		return true
	}
	ast.Inspect(shown, look)
	return all
}

// importsOf returns the paths of a file's imports, by name.
func importsOf(file *ast.File) map[string]string {
	imports := map[string]string{}
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		name := filepath.Base(path)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = path
	}
	return imports
}

// declared is an exported constant, variable, type or function, a method of an exported type, or a member of an exported interface.
type declared struct {
	file       *ast.File
	kind, name string
	node       ast.Node
}

// declarations returns what a package exports.
func declarations(t *testing.T, dir string) (all []declared) {
	t.Helper()
	for _, file := range parse(t, dir) {
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				switch receiver := receiverOf(d); {
				case !d.Name.IsExported():
				case d.Recv == nil:
					all = append(all, declared{file, "func", d.Name.Name, d})
				case ast.IsExported(receiver):
					all = append(all, declared{file, "method", receiver + "." + d.Name.Name, d})
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					all = append(all, inGroup(file, d, spec)...)
				}
			}
		}
	}
	return all
}

// inGroup returns constants, variables and types. The comment of a group applies to all its members.
func inGroup(file *ast.File, group *ast.GenDecl, spec ast.Spec) (all []declared) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return nil
		}
		s.Doc = cmp.Or(s.Doc, group.Doc)
		all = append(all, declared{file, "type", s.Name.Name, s})
		if methods, ok := s.Type.(*ast.InterfaceType); ok {
			for _, m := range methods.Methods.List {
				for _, name := range m.Names {
					all = append(all, declared{file, "member", s.Name.Name + "." + name.Name, m})
				}
			}
		}
	case *ast.ValueSpec:
		s.Doc = cmp.Or(s.Doc, group.Doc)
		for _, name := range s.Names {
			if name.IsExported() {
				all = append(all, declared{file, group.Tok.String(), name.Name, s})
			}
		}
	}
	return all
}

func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	receiver := d.Recv.List[0].Type
	if star, ok := receiver.(*ast.StarExpr); ok {
		receiver = star.X
	}
	if generic, ok := receiver.(*ast.IndexExpr); ok {
		receiver = generic.X
	}
	if name, ok := receiver.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

func documented(shown ast.Node) bool {
	switch s := shown.(type) {
	case *ast.FuncDecl:
		return s.Doc != nil
	case *ast.TypeSpec:
		return s.Doc != nil
	case *ast.ValueSpec:
		return s.Doc != nil || s.Comment != nil
	case *ast.Field:
		return s.Doc != nil || s.Comment != nil
	}
	return false
}

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
	add := func(kind, name string, node any) {
		var text strings.Builder
		if node != nil {
			testworld.Check(t, printer.Fprint(&text, fileSet, node))
		}
		lines = append(lines, strings.Join(strings.Fields(dir+": "+kind+" "+name+" "+text.String()), " "))
	}
	for _, d := range declarations(t, dir) {
		switch n := d.node.(type) {
		case *ast.FuncDecl:
			add(d.kind, d.name, n.Type)
		case *ast.ValueSpec:
			add(d.kind, d.name, n.Type)
		case *ast.TypeSpec:
			addType(add, n)
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines) // files of several platforms have the same
}

func addType(add func(kind, name string, node any), s *ast.TypeSpec) {
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
