package pluginbuild

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Reasons for refusing a package or function. Each compiles, but works differently in a guest than in other programs,
// because a guest has no randomness, clock, environment or network.
const (
	noRandomness = "repeats the same values in every call, or fails: take a random value from a field of the configuration, for which a template such as {{ uuid() }} is configured"
	noClock      = "does not see the host's time: use Call.Now"
	noPassing    = "does not wait in the sandbox: leave it out"
	noHashing    = "does not end, for want of randomness: use hash/fnv or crypto/sha256"
	noNetwork    = "has no network behind it in the sandbox: return headers and query parameters, and ask token endpoints with Call.RequestToken"
	noEnviron    = "is empty in the sandbox: take the value from a field of the configuration"
)

var refusedPackages = map[string]string{
	"math/rand": noRandomness, "math/rand/v2": noRandomness, "crypto/rand": noRandomness, "hash/maphash": noHashing,
	"net/http": noNetwork,
}

var refusedFunctions = map[string]map[string]string{
	"time": {
		"Now": noClock, "Since": noClock, "Until": noClock,
		"Sleep": noPassing, "After": noPassing, "AfterFunc": noPassing, "Tick": noPassing, "NewTimer": noPassing, "NewTicker": noPassing,
	},
	"os":      {"Getenv": noEnviron, "LookupEnv": noEnviron, "Environ": noEnviron, "ExpandEnv": noEnviron, "Args": noEnviron},
	"syscall": {"Getenv": noEnviron, "Environ": noEnviron},
}

// escaping lists functions, by package, that do not work on a sealed value because they need the bytes of their argument.
var escaping = map[string][]string{"net/url": {"QueryEscape", "PathEscape"}}

// escape is a call of a function in escaping with the value of a configuration field.
type escape struct{ place, function, field string }

// library lists the packages that every plugin is linked with. They are not checked.
var library = []string{"github.com/keywright/keywright/sdk", "github.com/keywright/keywright/abi", "github.com/extism/go-pdk"}

// lint checks the sources of a plugin for code that compiles but does not work in a guest. It checks all packages except
// those of the standard library and the SDK. It also returns the places where the plugin escapes configuration fields, which
// is wrong for sealed ones.
func lint(packages []goPackage) ([]escape, error) {
	var l linter
	for _, p := range packages {
		if p.Standard || isLibrary(p.ImportPath) {
			continue
		}
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
			if err := l.file(filepath.Join(p.Dir, name)); err != nil {
				return nil, err
			}
		}
	}
	return l.escapes, errors.Join(l.problems...)
}

func isLibrary(path string) bool {
	for _, prefix := range library {
		if path == prefix || strings.HasPrefix(path, prefix+"/") {
			return true
		}
	}
	return false
}

type linter struct {
	fset *token.FileSet
	// imports are the import paths of the current file, by the names that the file uses.
	imports  map[string]string
	problems []error
	escapes  []escape
}

func (l *linter) file(path string) error {
	l.fset, l.imports = token.NewFileSet(), map[string]string{}
	file, err := parser.ParseFile(l.fset, path, nil, 0)
	if err != nil {
		return fmt.Errorf("sources of the plugin: %w", err)
	}
	for _, spec := range file.Imports {
		l.imported(spec)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			pkg, name := l.selected(n)
			if why := refusedFunctions[pkg][name]; why != "" {
				l.refuse(n, pkg+"."+name, why)
			}
		case *ast.CallExpr:
			l.call(n)
		}
		return true
	})
	return nil
}

func (l *linter) imported(spec *ast.ImportSpec) {
	path, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
	name := strings.TrimSuffix(path, "/v2")
	name = name[strings.LastIndexByte(name, '/')+1:]
	if spec.Name != nil {
		name = spec.Name.Name
	}
	why := refusedPackages[path]
	if why == "" && name == "." && refusedFunctions[path] != nil {
		why = "is imported with a dot, so that it does not show what is used of it: import it by its name"
	}
	if why != "" {
		l.refuse(spec, path, why)
	}
	l.imports[name] = path
}

// selected returns the import path and the name if n selects a name from a package.
func (l *linter) selected(n *ast.SelectorExpr) (pkg, name string) {
	if x, ok := n.X.(*ast.Ident); ok && x.Obj == nil { // names that the file declares have an object
		return l.imports[x.Name], n.Sel.Name
	}
	return "", ""
}

// call records the configuration fields in the argument of a function in escaping.
func (l *linter) call(n *ast.CallExpr) {
	selector, ok := n.Fun.(*ast.SelectorExpr)
	if !ok || len(n.Args) != 1 {
		return
	}
	pkg, name := l.selected(selector)
	for _, function := range escaping[pkg] {
		if function != name {
			continue
		}
		for _, field := range fields(n.Args[0], 0) {
			l.escapes = append(l.escapes, escape{l.fset.Position(n.Pos()).String(), pkg + "." + name, field})
		}
	}
}

// fields returns the configuration fields that an expression uses: literal arguments of methods named Config. It follows
// variables to their assignments.
func fields(n ast.Node, depth int) (names []string) {
	const deepest = 5 // variables may be assigned from each other in a circle
	if depth > deepest {
		return nil
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if selector, ok := n.Fun.(*ast.SelectorExpr); ok && selector.Sel.Name == "Config" && len(n.Args) == 1 {
				if literal, ok := n.Args[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
					name, _ := strconv.Unquote(literal.Value)
					names = append(names, name)
				}
			}
		case *ast.Ident:
			if n.Obj == nil {
				break
			}
			if assigned, ok := n.Obj.Decl.(*ast.AssignStmt); ok && len(assigned.Lhs) == len(assigned.Rhs) {
				for i, left := range assigned.Lhs {
					if left, ok := left.(*ast.Ident); ok && left.Obj == n.Obj {
						names = append(names, fields(assigned.Rhs[i], depth+1)...)
					}
				}
			}
		}
		return true
	})
	return names
}

func (l *linter) refuse(n ast.Node, what, why string) {
	l.problems = append(l.problems, fmt.Errorf("%s: %s %s", l.fset.Position(n.Pos()), what, why))
}
