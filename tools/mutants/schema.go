package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// activeName is the environment variable with the number of the mutation that a test binary with all mutations has.
const activeName = "KEYWRIGHT_MUTANTS_ACTIVE"

// schema is a package with all of its mutations, each of which has a number and is active if the environment says so. So all of
// them are compiled once (Untch, Offutt and Harrold: Mutation Analysis Using Mutant Schemata, 1993). It lacks those of constants
// and texts, and those that need a type it cannot name.
type schema struct {
	fset  *token.FileSet
	types *types.Info
	// numbers has the number of each mutation by its name. The first is 1.
	numbers map[string]int

	// These are of the current file.
	source []byte
	name   string
	// places has the place of each token by its offset, as tokens counts it.
	places map[int]int
}

// replacements has what gremlins makes of each operator.
var replacements = map[token.Token][]token.Token{
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL}, token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS}, token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL},
	token.INC: {token.DEC}, token.DEC: {token.INC},
}

// helpers is a further file of the package. It needs the number of mutations.
const helpers = `
import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
)

var (
	mutantsActive  = func() int { n, _ := strconv.Atoi(os.Getenv("` + activeName + `")); return n }()
	mutantsReached = func() *os.File {
		file, _ := os.OpenFile(os.Getenv("` + reachedName + `"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		return file
	}()
	mutantsTest atomic.Pointer[string]
	mutantsLast [1 + %d]atomic.Pointer[string]
)

// MutantsTest is called when a test begins.
func MutantsTest(name string) { mutantsTest.Store(&name) }

func mutantsIn(first, last int) bool {
	if mutantsReached != nil {
		if test := mutantsTest.Load(); test != nil && mutantsLast[first].Swap(test) != test {
			fmt.Fprintln(mutantsReached, first, last, *test)
		}
	}
	return first <= mutantsActive && mutantsActive <= last
}

type mutantsInteger interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

type mutantsNumber interface{ mutantsInteger | ~float32 | ~float64 }

func mutantsAdd[T mutantsNumber](n int, x, y T) T { if mutantsIn(n, n) { return x - y }; return x + y }
func mutantsSub[T mutantsNumber](n int, x, y T) T { if mutantsIn(n, n) { return x + y }; return x - y }
func mutantsMul[T mutantsNumber](n int, x, y T) T { if mutantsIn(n, n) { return x / y }; return x * y }
func mutantsQuo[T mutantsNumber](n int, x, y T) T { if mutantsIn(n, n) { return x * y }; return x / y }
func mutantsRem[T mutantsInteger](n int, x, y T) T { if mutantsIn(n, n) { return x * y }; return x %% y }
func mutantsNegative[T mutantsNumber](n int, x T) T { if mutantsIn(n, n) { return x }; return -x }
func mutantsInc[T mutantsNumber](n int, x *T) { if mutantsIn(n, n) { *x-- } else { *x++ } }
func mutantsDec[T mutantsNumber](n int, x *T) { if mutantsIn(n, n) { *x++ } else { *x-- } }
`

// helper has the functions of helpers that stand for operators.
var helper = map[token.Token]string{
	token.ADD: "mutantsAdd", token.SUB: "mutantsSub", token.MUL: "mutantsMul", token.QUO: "mutantsQuo", token.REM: "mutantsRem",
	token.INC: "mutantsInc", token.DEC: "mutantsDec",
}

// writeSchema writes the schema of the package in a directory to files in scratch, and the files of its tests, which are in more
// directories. It returns the path of an overlay for the go command, and the numbers of the mutations.
func writeSchema(ctx context.Context, dir string, tests []string, scratch string) (overlay string, numbers map[string]int, err error) {
	s := &schema{fset: token.NewFileSet(), numbers: map[string]int{}}
	path, files, err := s.load(ctx, dir)
	if err != nil {
		return "", nil, err
	}
	replace := map[string]string{}
	write := func(name, text string) error {
		to := filepath.Join(scratch, fmt.Sprintf("source-%d.go", len(replace)))
		replace[name] = to
		return os.WriteFile(to, []byte(text), 0o600)
	}
	for name, file := range files {
		if s.source, err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return "", nil, err
		}
		s.name, s.places = name, map[int]int{}
		for i, t := range tokens(s.source) {
			s.places[t.offset] = i
		}
		if err := write(filepath.Join(dir, name), s.text(file, 0, len(s.source), true)); err != nil {
			return "", nil, err
		}
	}
	name := ""
	for _, file := range files {
		name = file.Name.Name
	}
	if err := write(filepath.Join(dir, "mutants_helpers.go"), "package "+name+"\n"+fmt.Sprintf(helpers, len(s.numbers))); err != nil {
		return "", nil, err
	}
	for _, place := range tests {
		names, err := filepath.Glob(filepath.Join(place, "*_test.go"))
		if err != nil {
			return "", nil, err
		}
		own := name // the tests of another package may have a package of the same name
		if place != dir {
			own = ""
		}
		for _, file := range names {
			source, err := os.ReadFile(file)
			if err != nil {
				return "", nil, err
			}
			if err := write(file, announceTests(string(source), path, own)); err != nil {
				return "", nil, err
			}
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", nil, err
	}
	overlay = filepath.Join(scratch, "overlay.json")
	return overlay, s.numbers, os.WriteFile(overlay, text, 0o600)
}

// load parses the package in a directory, and finds its path and the types of its expressions.
func (s *schema) load(ctx context.Context, dir string) (path string, files map[string]*ast.File, err error) {
	list := exec.CommandContext(ctx, os.Getenv(realGo), "list", "-deps", "-export", "-f", "{{.ImportPath}}={{.Export}}{{if not .DepOnly}} {{.GoFiles}}{{end}}", ".")
	list.Dir, list.Env = dir, environment()
	out, err := list.Output()
	if err != nil {
		return "", nil, fmt.Errorf("go list: %w", err)
	}
	exports, names := map[string]string{}, []string(nil)
	for line := range strings.Lines(string(out)) {
		head, goFiles, last := strings.Cut(strings.TrimSpace(line), " ")
		name, export, _ := strings.Cut(head, "=")
		exports[name] = export
		if last {
			path, names = name, strings.Fields(strings.Trim(goFiles, "[]"))
		}
	}
	files = map[string]*ast.File{}
	var all []*ast.File
	for _, name := range names {
		file, err := parser.ParseFile(s.fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return "", nil, err
		}
		files[name] = file
		all = append(all, file)
	}
	s.types = &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	config := types.Config{Importer: importer.ForCompiler(s.fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	_, err = config.Check(path, s.fset, all, s.types)
	return path, files, err
}

// text returns the source of a node from one offset to another. If mutated is set, its mutations are in it.
func (s *schema) text(node ast.Node, from, to int, mutated bool) string {
	if !mutated {
		return string(s.source[from:to])
	}
	var out strings.Builder
	ast.Inspect(node, func(n ast.Node) bool {
		replacement := s.replacement(n)
		if replacement == "" {
			return true
		}
		start, end := s.extent(n)
		out.Write(s.source[from:start])
		out.WriteString(replacement)
		from = end
		return false
	})
	out.Write(s.source[from:to])
	return out.String()
}

func (s *schema) extent(n ast.Node) (from, to int) {
	return s.fset.Position(n.Pos()).Offset, s.fset.Position(n.End()).Offset
}

func (s *schema) expression(e ast.Expr, mutated bool) string {
	from, to := s.extent(e)
	return s.text(e, from, to, mutated)
}

// replacement returns the source that a node is replaced by, or an empty text.
func (s *schema) replacement(n ast.Node) string {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		switch {
		case replacements[n.Op] == nil || s.types.Types[n].Value != nil:
		case helper[n.Op] == "":
			if basic, ok := s.types.Types[n].Type.(*types.Basic); ok && basic.Info()&types.IsBoolean != 0 {
				return s.choice(n)
			}
		case s.isNumber(n) && !isShift(n.X) && !isShift(n.Y):
			return fmt.Sprintf("%s(%d, %s, %s)", helper[n.Op], s.number(n.OpPos, n.Op), s.expression(n.X, true), s.expression(n.Y, true))
		}
	case *ast.UnaryExpr:
		if n.Op == token.SUB && s.types.Types[n].Value == nil && s.isNumber(n) && !isShift(n.X) {
			return fmt.Sprintf("mutantsNegative(%d, %s)", s.number(n.OpPos, n.Op), s.expression(n.X, true))
		}
	case *ast.IncDecStmt:
		if index, ok := n.X.(*ast.IndexExpr); ok {
			if _, ok := s.types.Types[index.X].Type.Underlying().(*types.Map); ok { // it has no address
				return ""
			}
		}
		if s.isNumber(n.X) {
			return fmt.Sprintf("%s(%d, &(%s))", helper[n.Tok], s.number(n.TokPos, n.Tok), s.expression(n.X, true))
		}
	}
	return ""
}

// choice returns an expression with a truth value and its mutations, of which only one is evaluated. If a mutation of it is
// active, none of its operands is.
func (s *schema) choice(n *ast.BinaryExpr) string {
	var out strings.Builder
	first := s.number(n.OpPos, n.Op)
	for i, replacement := range replacements[n.Op] {
		_, _ = fmt.Fprintf(&out, "mutantsActive == %d && ((%s) %s (%s)) || ", first+i, s.expression(n.X, false), replacement, s.expression(n.Y, false))
	}
	return fmt.Sprintf("(%s!mutantsIn(%d, %d) && ((%s) %s (%s)))", &out, first, first+len(replacements[n.Op])-1, s.expression(n.X, true), n.Op, s.expression(n.Y, true))
}

func (s *schema) isNumber(e ast.Expr) bool {
	basic, ok := types.Unalias(s.types.Types[e].Type).Underlying().(*types.Basic)
	return ok && basic.Info()&(types.IsInteger|types.IsFloat) != 0 && basic.Info()&types.IsUntyped == 0
}

// isShift reports whether an expression is a shift, whose type may depend on where it stands.
func isShift(e ast.Expr) bool {
	binary, ok := ast.Unparen(e).(*ast.BinaryExpr)
	return ok && (binary.Op == token.SHL || binary.Op == token.SHR)
}

// number numbers the mutations of an operator, and returns the number of the first.
func (s *schema) number(pos token.Pos, operator token.Token) int {
	first := len(s.numbers) + 1
	place := s.places[s.fset.Position(pos).Offset]
	for i, replacement := range replacements[operator] {
		s.numbers[mutationName(s.name, place, replacement.String())] = first + i
	}
	return first
}

func mutationName(file string, place int, operator string) string {
	return fmt.Sprintf("%s %d %s", file, place, operator)
}

// A sourceToken is a token of a source.
type sourceToken struct {
	offset int
	text   string
}

// tokens returns the tokens of a source. It leaves out parentheses, because gremlins writes those that a mutation needs.
func tokens(source []byte) []sourceToken {
	var all []sourceToken
	var scan scanner.Scanner
	file := token.NewFileSet().AddFile("", -1, len(source))
	scan.Init(file, source, nil, 0)
	for {
		pos, tok, literal := scan.Scan()
		switch tok {
		case token.EOF:
			return all
		case token.LPAREN, token.RPAREN:
		default:
			if literal == "" {
				literal = tok.String()
			}
			all = append(all, sourceToken{file.Offset(pos), literal})
		}
	}
}

// mutationOf returns the name of the mutation in a file of dir. The directory original has the package without a mutation.
func mutationOf(dir, original, file string) (string, error) {
	now, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return "", err
	}
	previous, err := os.ReadFile(filepath.Join(original, file))
	if err != nil {
		return "", err
	}
	olds := tokens(previous)
	for i, t := range tokens(now) {
		if i >= len(olds) || t.text != olds[i].text {
			return mutationName(file, i, t.text), nil
		}
	}
	return "", errors.New("the mutation changes nothing")
}
