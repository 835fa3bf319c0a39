package pluginbuild

import (
	"go/ast"
	"go/token"
)

// Reasons for refusing code of the plugin itself. Packages of others may have it in functions that a plugin does not call.
const (
	noRecovery = "does not stop a panic in the sandbox, where it ends the call: return an error in place of the panic"
	noKeeping  = "is a package variable, and every call begins with its first value in the sandbox: use a variable of the function, or Call.Cache for what later calls need"
)

var refusedBuiltins = map[string]string{"recover": noRecovery, "print": noPrinting, "println": noPrinting}

type ownLinter struct {
	findings
	// specs are the declarations of package variables, and variables and functions the names at the top of the package.
	specs     map[*ast.ValueSpec]bool
	variables map[string]bool
	functions map[string]*ast.FuncDecl
	// first are the functions that run while the module is initialised. They may set package variables.
	first map[string]bool
}

// lintOwn returns the problems of a package of the plugin that are none in packages of others.
func lintOwn(fset *token.FileSet, decls []ast.Decl) []error {
	l := ownLinter{
		findings: findings{fset: fset}, specs: map[*ast.ValueSpec]bool{}, variables: map[string]bool{}, functions: map[string]*ast.FuncDecl{}, first: map[string]bool{},
	}
	for _, decl := range decls {
		l.declare(decl)
	}
	for _, decl := range decls {
		l.findFirst(decl)
	}
	for _, decl := range decls {
		function, ok := decl.(*ast.FuncDecl)
		l.check(decl, !ok || function.Recv == nil && l.first[function.Name.Name])
	}
	return l.problems
}

// declare records the names of a declaration at the top of a file.
func (l *ownLinter) declare(decl ast.Decl) {
	switch decl := decl.(type) {
	case *ast.FuncDecl:
		if decl.Recv == nil && decl.Name.Name != "init" {
			l.functions[decl.Name.Name] = decl
		}
	case *ast.GenDecl:
		for _, spec := range decl.Specs {
			if spec, ok := spec.(*ast.ValueSpec); ok && decl.Tok == token.VAR {
				l.specs[spec] = true
				for _, name := range spec.Names {
					l.variables[name.Name] = true
				}
			}
		}
	}
}

// findFirst records the functions that functions init, package variables and main name, and those that these name.
func (l *ownLinter) findFirst(decl ast.Decl) {
	function, ok := decl.(*ast.FuncDecl)
	if !ok {
		l.reach(decl)
	} else if name := function.Name.Name; function.Recv == nil && (name == "init" || name == "main") {
		l.first[name] = true
		l.reach(decl)
	}
}

func (l *ownLinter) reach(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		if name, ok := n.(*ast.Ident); ok && l.functions[name.Name] != nil && !l.first[name.Name] {
			l.first[name.Name] = true
			l.reach(l.functions[name.Name])
		}
		return true
	})
}

// check refuses what a declaration may not do. Code that runs first may change package variables.
func (l *ownLinter) check(decl ast.Decl, first bool) {
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if name, ok := n.Fun.(*ast.Ident); ok && name.Obj == nil && l.functions[name.Name] == nil && !l.variables[name.Name] {
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
	if n.Obj == nil {
		return l.variables[n.Name]
	}
	spec, ok := n.Obj.Decl.(*ast.ValueSpec)
	return ok && l.specs[spec]
}
