package docs

import (
	"flag"
	"go/ast"
	"go/printer"
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
