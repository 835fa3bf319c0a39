package docs

import (
	"go/ast"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// public lists the packages that other programs import.
var public = []string{
	"abi", "sdk", "plugins", "host", "host/hosttest", "host/hosttest/cases", "host/hosttest/conform", "server/gateway", "server/identity", "server/connectors",
	"server/content", "server/content/client", "server/content/embed", "server/content/httpapi", "server/content/importer", "server/content/postgres", "server/content/sqlite",
}

// The output of go doc is complete: no exported name refers to an internal package or is an alias of another package's type,
// whose fields go doc would not show.
func TestExportedTypesShowThemselves(t *testing.T) {
	for _, dir := range public {
		declarations(t, dir, func(file *ast.File, name string, shown ast.Node) {
			if spec, ok := shown.(*ast.TypeSpec); ok && spec.Assign.IsValid() {
				if _, ok := spec.Type.(*ast.SelectorExpr); ok {
					t.Errorf("%s.%s is an alias of another package's type, so go doc does not show its fields: use that type, or make one", dir, name)
				}
			}
			hidden := internals(file)
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
					if from, ok := n.X.(*ast.Ident); ok && hidden[from.Name] != "" {
						t.Errorf("%s.%s has %s.%s, which readers cannot look up: it is of %s", dir, name, from.Name, n.Sel.Name, hidden[from.Name])
					}
				}
				return true
			}
			ast.Inspect(shown, look)
		})
	}
}

// Every exported name has a doc comment, except methods that implement an interface of the standard library.
func TestExportedNamesHaveComments(t *testing.T) {
	for _, dir := range public {
		count := 0
		declarations(t, dir, func(_ *ast.File, name string, shown ast.Node) {
			count++
			_, method, _ := strings.Cut(name, ".")
			if !slices.Contains([]string{"Error", "Unwrap", "String", "Is"}, method) && !documented(shown) {
				t.Errorf("%s.%s has no doc comment", dir, name)
			}
		})
		if count < 1 {
			t.Errorf("%s has %d exported names: the test does not find them", dir, count)
		}
	}
}

// internals returns a file's imports of internal packages, by name.
func internals(file *ast.File) map[string]string {
	hidden := map[string]string{}
	for _, spec := range file.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		if strings.Contains(path+"/", "/internal/") {
			hidden[filepath.Base(path)] = path
		}
	}
	return hidden
}

// declarations calls f with the exported constants, variables, types and functions, the methods of exported types, and those
// of exported interfaces.
func declarations(t *testing.T, dir string, f func(file *ast.File, name string, shown ast.Node)) {
	t.Helper()
	for _, file := range parse(t, dir) {
		for _, declaration := range file.Decls {
			switch d := declaration.(type) {
			case *ast.FuncDecl:
				if name := d.Name.Name; d.Recv == nil && d.Name.IsExported() {
					f(file, name, d)
				} else if receiver := receiverOf(d); d.Name.IsExported() && ast.IsExported(receiver) {
					f(file, receiver+"."+name, d)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					inGroup(file, d, spec, f)
				}
			}
		}
	}
}

// inGroup calls f for constants, variables and types. The comment of a group applies to all its members.
func inGroup(file *ast.File, group *ast.GenDecl, spec ast.Spec, f func(file *ast.File, name string, shown ast.Node)) {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		if !s.Name.IsExported() {
			return
		}
		if s.Doc == nil {
			s.Doc = group.Doc
		}
		f(file, s.Name.Name, s)
		if methods, ok := s.Type.(*ast.InterfaceType); ok {
			for _, m := range methods.Methods.List {
				for _, name := range m.Names {
					f(file, s.Name.Name+"."+name.Name, m)
				}
			}
		}
	case *ast.ValueSpec:
		if s.Doc == nil {
			s.Doc = group.Doc
		}
		for _, name := range s.Names {
			if name.IsExported() {
				f(file, name.Name, s)
			}
		}
	}
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
