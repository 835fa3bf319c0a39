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
	noPrinting   = "writes errors into the host's log, or nothing, depending on the TinyGo: use Call.Debug, Call.Info or Call.Warn"
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

// printing lists functions that may not be called by the plugin itself. In packages of others, they may be in functions that it does not call.
var printing = map[string][]string{"fmt": {"Print", "Printf", "Println"}, "log": {"Print", "Printf", "Println"}}

// An escape is a place where a plugin needs the bytes of a configuration field. Of a sealed field, the plugin has a reference.
type escape struct{ place, code, field, why string }

// Reasons for refusing escapes. %q is the name of the field.
const (
	noEscape = "does nothing to the field %q, whose value is a reference here: leave it out, the host percent-encodes queries and forms itself"
	noBytes  = "gets a reference in place of the value of the field %q: have users configure the value as it is sent, and use Base64, Hex, Digest and MAC of Call for what is made of it"
)

// escaping lists functions, by package, that do not work on a sealed value because they need the bytes of their argument.
var escaping = map[string][]string{"net/url": {"QueryEscape", "PathEscape"}}

// cutting lists functions of the package strings that look at the bytes of their first argument, or change them.
var cutting = []string{
	"Contains", "Count", "Cut", "CutPrefix", "CutSuffix", "Fields", "HasPrefix", "HasSuffix", "Index", "IndexByte", "LastIndex", "LastIndexByte", "Replace",
	"ReplaceAll", "Split", "SplitN", "Title", "ToLower", "ToTitle", "ToUpper", "Trim", "TrimFunc", "TrimLeft", "TrimPrefix", "TrimRight", "TrimSpace", "TrimSuffix",
}

// library lists the packages that every plugin is linked with. They are not checked.
var library = []string{
	"github.com/keywright/keywright/sdk", "github.com/keywright/keywright/abi", "github.com/keywright/keywright/internal/contract", "github.com/extism/go-pdk",
}

// lint checks all packages but those of the standard library and the SDK for code that compiles but does not work in a
// guest. It also returns the places where the plugin escapes configuration fields, which is wrong for sealed ones.
func lint(packages []goPackage) ([]escape, error) {
	l := linter{findings: findings{fset: token.NewFileSet()}}
	for _, p := range packages {
		l.own = strings.HasPrefix(p.ImportPath+"/", packages[len(packages)-1].ImportPath+"/")
		if p.Standard || slices.ContainsFunc(library, func(above string) bool { return strings.HasPrefix(p.ImportPath+"/", above+"/") }) {
			continue
		}
		var parsed []*ast.File
		for _, name := range slices.Concat(p.GoFiles, p.CgoFiles) {
			file, err := parser.ParseFile(l.fset, filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				return nil, fmt.Errorf("sources of the plugin: %w", err)
			}
			l.file(file)
			parsed = append(parsed, file)
		}
		if l.own {
			l.problems = append(l.problems, lintOwn(l.fset, parsed)...)
		}
	}
	return l.escapes, errors.Join(l.problems...)
}

type findings struct {
	fset     *token.FileSet
	problems []error
}

func (f *findings) refuse(n ast.Node, what, why string) {
	f.problems = append(f.problems, fmt.Errorf("%s: %s %s", f.fset.Position(n.Pos()), what, why))
}

type linter struct {
	findings
	// imports are the import paths of the current file, by the names that the file uses.
	imports map[string]string
	// own means that the file is one of the plugin itself, and not of a package of others.
	own     bool
	escapes []escape
}

func (l *linter) file(file *ast.File) {
	l.imports = map[string]string{}
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
			if l.own && slices.Contains(printing[pkg], name) {
				l.refuse(n, pkg+"."+name, noPrinting)
			}
		case *ast.CallExpr:
			l.call(n)
		case *ast.SliceExpr:
			l.escape(n, "a slice", fields(n.X, true, 0), noBytes)
		case *ast.IndexExpr:
			l.escape(n, "an index", fields(n.X, true, 0), noBytes)
		}
		return true
	})
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

// selected returns the import path and the name that n selects from a package.
func (l *linter) selected(n *ast.SelectorExpr) (pkg, name string) {
	if x, ok := n.X.(*ast.Ident); ok && x.Obj == nil { // names that the file declares have an object
		return l.imports[x.Name], n.Sel.Name
	}
	return "", ""
}

func (l *linter) call(n *ast.CallExpr) {
	selector, ok := n.Fun.(*ast.SelectorExpr)
	if !ok || len(n.Args) == 0 {
		return
	}
	pkg, name := l.selected(selector)
	if slices.Contains(escaping[pkg], name) {
		l.escape(n, pkg+"."+name, fields(n.Args[0], false, 0), noEscape)
	}
	if pkg == "strings" && slices.Contains(cutting, name) {
		l.escape(n, pkg+"."+name, fields(n.Args[0], true, 0), noBytes)
	}
}

// escape records that the code at n does something to fields, and why it may not if they are sealed.
func (l *linter) escape(n ast.Node, code string, fields []string, why string) {
	for _, field := range fields {
		l.escapes = append(l.escapes, escape{l.fset.Position(n.Pos()).String(), code, field, why})
	}
}

// deepest bounds how many variables are followed, because they may be assigned from each other in a circle.
const deepest = 5

// configField returns the name of the field if a call is that of a method named Config with a literal.
func configField(n *ast.CallExpr) []string {
	selector, ok := n.Fun.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "Config" || len(n.Args) != 1 {
		return nil
	}
	literal, ok := n.Args[0].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return nil
	}
	name, _ := strconv.Unquote(literal.Value) // the parser has checked it
	return []string{name}
}

func assigned(n *ast.Ident) (values []ast.Expr) {
	if n.Obj == nil {
		return nil
	}
	if statement, ok := n.Obj.Decl.(*ast.AssignStmt); ok && len(statement.Lhs) == len(statement.Rhs) {
		for i, target := range statement.Lhs {
			if target, ok := target.(*ast.Ident); ok && target.Obj == n.Obj {
				values = append(values, statement.Rhs[i])
			}
		}
	}
	return values
}

// fields returns the configuration fields that an expression uses, also through variables. If direct is set, they are those that it is made
// of by +, without calls.
func fields(n ast.Expr, direct bool, depth int) (names []string) {
	if depth > deepest {
		return nil
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			names = append(names, configField(n)...)
		case *ast.Ident:
			for _, value := range assigned(n) {
				names = append(names, fields(value, direct, depth+1)...)
			}
		case *ast.ParenExpr:
			return true
		case *ast.BinaryExpr:
			return !direct || n.Op == token.ADD
		}
		return !direct
	})
	return names
}

// Reasons for refusing code of the plugin itself. Packages of others may have it in functions that a plugin does not call.
const (
	noRecovery = "does not stop a panic in the sandbox, where it ends the call: return an error in place of the panic"
	noKeeping  = "is a package variable, and every call begins with its first value in the sandbox: use a variable of the function, or Call.Cache for what later calls need"
)

var refusedBuiltins = map[string]string{"recover": noRecovery, "print": noPrinting, "println": noPrinting}

type ownLinter struct {
	findings
	// names has the declarations of those at the top of the package.
	names map[string]any
	// first are the functions that run while the module is initialised. They may set package variables.
	first map[string]bool
}

// lintOwn returns the problems of a package of the plugin that are none in packages of others.
func lintOwn(fset *token.FileSet, parsed []*ast.File) []error {
	l := ownLinter{findings: findings{fset: fset}, names: map[string]any{}, first: map[string]bool{"init": true, "main": true}}
	runsFirst := func(decl ast.Decl) bool {
		function, ok := decl.(*ast.FuncDecl)
		return !ok || function.Recv == nil && l.first[function.Name.Name]
	}
	var decls []ast.Decl
	for _, file := range parsed {
		for name, object := range file.Scope.Objects {
			l.names[name] = object.Decl
		}
		decls = append(decls, file.Decls...)
	}
	for _, decl := range decls {
		if runsFirst(decl) {
			l.reach(decl)
		}
	}
	for _, decl := range decls {
		l.check(decl, runsFirst(decl))
	}
	return l.problems
}

// reach records the functions that a declaration names, and those that these name.
func (l *ownLinter) reach(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok && !l.first[name.Name] {
			if function, ok := l.names[name.Name].(*ast.FuncDecl); ok {
				l.first[name.Name] = true
				l.reach(function)
			}
		}
		return true
	})
}

// check refuses what a declaration may not do. Code that runs first may change package variables.
func (l *ownLinter) check(decl ast.Decl, first bool) {
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); ok && name.Obj == nil && l.names[name.Name] == nil {
				if why := refusedBuiltins[name.Name]; why != "" {
					l.refuse(n, name.Name, why)
				}
			}
		case *ast.IncDecStmt:
			l.change(n.X, first)
		case *ast.AssignStmt:
			for _, target := range n.Lhs {
				l.change(target, first || n.Tok == token.DEFINE)
			}
		}
		return true
	})
}

// change refuses a change of n if that is a package variable, or a part of one.
func (l *ownLinter) change(n ast.Expr, permit bool) {
	place := n
	for !permit {
		switch x := n.(type) {
		case *ast.ParenExpr:
			n = x.X
		case *ast.IndexExpr:
			n = x.X
		case *ast.SelectorExpr:
			n = x.X
		case *ast.StarExpr:
			n = x.X
		case *ast.Ident:
			if l.isPackageVariable(x) {
				l.refuse(place, x.Name, noKeeping)
			}
			return
		default:
			return
		}
	}
}

// isPackageVariable reports whether a name is that of a package variable. A name that another file declares has no object.
func (l *ownLinter) isPackageVariable(n *ast.Ident) bool {
	spec, ok := l.names[n.Name].(*ast.ValueSpec)
	return ok && (n.Obj == nil || n.Obj.Decl == any(spec))
}
