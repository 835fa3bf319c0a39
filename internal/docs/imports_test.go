package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/keywright/keywright/"

// rule says what a package may import of this repository, and which modules of others. An entry that ends in /... is
// for all packages below.
type rule struct {
	packages string
	ours     []string
	others   []string
}

// rules are the picture in ARCHITECTURE.md. The first that fits counts, and a package that none fits is an error.
var rules = []rule{
	{packages: "internal/abi"},
	{packages: "sdk", ours: []string{"internal/abi"}, others: []string{"github.com/extism/go-pdk"}},
	{packages: "plugins"},
	{packages: "plugins/...", ours: []string{"sdk"}},

	{packages: "host", ours: []string{"internal/abi", "internal/nearest", "plugins", "host/internal/..."}, others: []string{"golang.org/x/net", "github.com/hashicorp/golang-lru/v2"}},
	{packages: "host/hosttest", ours: []string{"host", "plugins", "sdk", "internal/abi", "internal/pluginbuild", "host/internal/..."}},
	{packages: "host/internal/hostfn", ours: []string{
		"internal/abi", "host/internal/echo", "host/internal/egress", "host/internal/seal", "host/internal/signing", "host/internal/strictjson", "host/internal/template", "host/internal/tokencache",
	}, others: []string{"github.com/go-json-experiment/json", "golang.org/x/net"}},
	{packages: "host/internal/sandbox", ours: []string{"internal/abi", "host/internal/admission", "host/internal/kernel"}, others: []string{"github.com/tetratelabs/wazero"}},
	{packages: "host/internal/admission", ours: []string{"internal/abi"}},
	{packages: "host/internal/kernel"},
	{packages: "internal/exprscan", others: []string{"github.com/expr-lang/expr"}},
	{packages: "host/internal/template", ours: []string{"internal/exprscan"}, others: []string{"github.com/expr-lang/expr", "github.com/go-json-experiment/json"}},
	{packages: "host/internal/seal", ours: []string{"internal/abi", "host/internal/tokencache"}},
	{packages: "host/internal/tokencache", others: []string{"github.com/hashicorp/golang-lru/v2"}},
	{packages: "host/internal/signing", ours: []string{"internal/abi", "internal/jws", "host/internal/strictjson"}, others: []string{
		"github.com/golang-jwt/jwt/v5", "github.com/hashicorp/golang-lru/v2", "github.com/go-json-experiment/json",
	}},
	{packages: "host/internal/egress", ours: []string{"internal/tlsfailure"}, others: []string{"golang.org/x/net", "github.com/hashicorp/golang-lru/v2"}},
	{packages: "host/internal/echo"},
	{packages: "host/internal/strictjson", others: []string{"github.com/go-json-experiment/json"}},
	{packages: "host/internal/testhook", ours: []string{"host/internal/sandbox"}},

	{packages: "gateway", ours: []string{"host", "internal/abi", "internal/identity", "internal/places", "internal/urlpath", "gateway/internal/..."}, others: []string{"github.com/hashicorp/golang-lru/v2", "golang.org/x/net", "golang.org/x/time"}},
	{packages: "internal/identity", ours: []string{"host", "internal/jws"}, others: []string{
		"github.com/golang-jwt/jwt/v5", "github.com/MicahParks/jwkset", "github.com/go-json-experiment/json",
	}},
	{packages: "gateway/internal/transform", ours: []string{"host", "internal/exprscan", "internal/nearest"}, others: []string{"github.com/expr-lang/expr", "github.com/go-json-experiment/json"}},

	{packages: "content"},
	{packages: "content/httpapi", ours: []string{"content", "internal/places"}, others: []string{"github.com/klauspost/compress"}},
	{packages: "content/client", ours: []string{"content"}},
	{packages: "content/embed", others: []string{"github.com/hashicorp/golang-lru/v2", "github.com/microcosm-cc/bluemonday", "golang.org/x/net", "golang.org/x/sync"}},
	{packages: "content/internal/sqlstore", ours: []string{"content"}, others: []string{"github.com/pressly/goose/v3", "github.com/go-json-experiment/json"}},
	{packages: "content/sqlite", ours: []string{"content/internal/sqlstore"}, others: []string{"modernc.org/sqlite"}},
	{packages: "content/postgres", ours: []string{"content/internal/sqlstore"}, others: []string{"github.com/jackc/pgx/v5"}},
	{packages: "content/importer", ours: []string{"content", "internal/nearest"}, others: []string{"github.com/go-json-experiment/json"}},
	{packages: "content/sample"},

	{packages: "internal/metrics", others: []string{"github.com/prometheus/client_golang"}},
	{packages: "internal/callers", ours: []string{"content/httpapi", "host", "internal/identity", "internal/secretstore"}},
	{packages: "internal/contentserver", ours: []string{"content", "content/httpapi", "internal/callers", "internal/httpserver", "internal/metrics"}, others: []string{"github.com/prometheus/client_golang"}},
	{packages: "internal/jws", others: []string{"github.com/golang-jwt/jwt/v5"}},
	{packages: "internal/nearest"},
	{packages: "internal/tlsfailure"},
	{packages: "internal/urlpath"},
	{packages: "internal/connectors", ours: []string{"gateway", "host", "internal/abi", "internal/nearest", "internal/secretstore", "internal/urlpath"}, others: []string{"go.yaml.in/yaml/v4", "golang.org/x/text"}},
	{packages: "internal/httpserver"},
	{packages: "internal/places"},
	{packages: "internal/daemon", ours: []string{"gateway", "host", "internal/connectors", "internal/httpserver", "internal/metrics"}, others: []string{"github.com/fsnotify/fsnotify", "github.com/prometheus/client_golang", "go.opentelemetry.io/otel"}},
	{packages: "internal/secretstore", ours: []string{"host", "internal/tlsfailure"}, others: []string{"filippo.io/age", "github.com/go-json-experiment/json"}},
	{packages: "internal/demo", others: []string{"github.com/golang-jwt/jwt/v5"}},
	{packages: "internal/demo/tour", ours: []string{"host", "internal/connectors", "internal/demo", "internal/urlpath"}},
	{packages: "internal/moduleinfo", others: []string{"github.com/tetratelabs/wazero"}},
	{packages: "internal/pluginbuild"},
	{packages: "internal/postgrestest", others: []string{"github.com/jackc/pgx/v5"}},
	{packages: "internal/docs"},
	{packages: "cmd/keywright", ours: []string{"content", "content/...", "gateway", "host", "host/hosttest", "internal/...", "plugins", "sdk"}, others: []string{"github.com/schollz/progressbar/v3", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/sys", "golang.org/x/term"}},
	{packages: "tools/plugin", ours: []string{"host", "internal/pluginbuild", "sdk"}},
	{packages: "tools/mutants", ours: []string{"internal/pluginbuild"}},
}

// testRules are for the tests of packages that show others how it is done; other tests may import what they need.
var testRules = []rule{
	{packages: "plugins/...", ours: []string{"sdk", "host", "host/hosttest"}, others: []string{"github.com/golang-jwt/jwt/v5"}},
	{packages: "examples/...", ours: []string{"sdk", "host", "host/hosttest"}},
}

// exampleRule is for the plugins of third parties.
var exampleRule = rule{packages: "examples/...", ours: []string{"sdk"}}

func (r *rule) covers(dir string) bool { return covers(r.packages, dir) }

func covers(pattern, path string) bool {
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return strings.HasPrefix(path, below+"/")
	}
	return path == pattern
}

// allows reports whether a package may be imported.
func (r *rule) allows(path string) bool {
	if ours, ok := strings.CutPrefix(path, module); ok {
		return slices.ContainsFunc(r.ours, func(pattern string) bool { return covers(pattern, ours) })
	}
	first, _, _ := strings.Cut(path, "/")
	if !strings.Contains(first, ".") {
		return true // standard library
	}
	return slices.ContainsFunc(r.others, func(other string) bool { return path == other || strings.HasPrefix(path, other+"/") })
}

func find(rules []rule, dir string) *rule {
	for i := range rules {
		if rules[i].covers(dir) {
			return &rules[i]
		}
	}
	return nil
}

// sources calls f with each Go file of the repository, and the directory it is in.
func sources(t *testing.T, f func(dir, name string)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, _ := filepath.Rel(root, path)
		switch base := entry.Name(); {
		case entry.IsDir() && relative != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules"):
			return filepath.SkipDir
		case !entry.IsDir() && strings.HasSuffix(base, ".go"):
			f(filepath.ToSlash(filepath.Dir(relative)), path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestPackagesImportWhatTheArchitectureAllows(t *testing.T) {
	packages := map[string]bool{}
	sources(t, func(dir, name string) {
		test := strings.HasSuffix(name, "_test.go")
		var r *rule
		switch {
		case test:
			if r = find(testRules, dir); r == nil {
				return
			}
		case exampleRule.covers(dir):
			r = &exampleRule
		case ownModule(dir):
			return // test modules and tools import what they test
		default:
			if r = find(rules, dir); r == nil {
				t.Errorf("%s: there is no rule for this package: add one here and to ARCHITECTURE.md", dir)
				return
			}
			packages[dir] = true
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		for _, spec := range file.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); !r.allows(path) {
				t.Errorf("%s imports %s, which %s may not", strings.TrimPrefix(name, root+"/"), path, r.packages)
			}
		}
	})
	for _, r := range rules {
		if !slices.ContainsFunc(slices.Collect(keys(packages)), r.covers) {
			t.Errorf("there is a rule for %s, but no such package", r.packages)
		}
	}
}

func keys(m map[string]bool) func(func(string) bool) {
	return func(yield func(string) bool) {
		for key := range m {
			if !yield(key) {
				return
			}
		}
	}
}

// ownModule reports whether a directory is in a module of its own.
func ownModule(dir string) bool {
	for ; dir != "."; dir = filepath.ToSlash(filepath.Dir(dir)) {
		if _, err := os.Stat(filepath.Join(root, dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// The table of packages in ARCHITECTURE.md has each package that there is a rule for, and what of ours it may import.
func TestTheTableOfPackagesIsThatOfTheRules(t *testing.T) {
	table := map[string][]string{}
	for _, row := range rows(under(t, "ARCHITECTURE.md", "## Packages")) {
		name := strings.Replace(strings.Trim(row[0], "`"), "/NAME", "/...", 1)
		table[name] = spans(row[2])
		if strings.Contains(row[2], "all") {
			table[name] = []string{"all"}
		}
		if strings.Contains(row[2], "its siblings") {
			table[name] = append(table[name], "siblings")
		}
	}
	for _, r := range rules {
		documented, ok := table[r.packages]
		if !ok {
			t.Errorf("ARCHITECTURE.md does not have %s in its table", r.packages)
		}
		delete(table, r.packages)
		if slices.Contains(documented, "all") {
			continue
		}
		for _, ours := range r.ours {
			name := strings.Replace(ours, "/...", "/…", 1)
			sibling := strings.HasPrefix(ours, "host/internal/") && slices.Contains(documented, "siblings")
			if !sibling && !slices.Contains(documented, name) && !slices.Contains(documented, filepath.Base(name)) {
				t.Errorf("ARCHITECTURE.md has %s import %q, but it may import %s", r.packages, documented, name)
			}
		}
		for _, name := range documented {
			if name != "siblings" && !slices.ContainsFunc(r.ours, func(ours string) bool {
				return ours == strings.Replace(name, "/…", "/...", 1) || filepath.Base(ours) == name
			}) {
				t.Errorf("ARCHITECTURE.md has %s import %s, which it may not", r.packages, name)
			}
		}
	}
	for name := range table {
		t.Errorf("ARCHITECTURE.md has %s in its table, for which there is no rule", name)
	}
}

// What embedders and plugin authors see is made of the standard library and the contract.
func TestExportedNamesShowNoTypesOfDependencies(t *testing.T) {
	for _, dir := range []string{"host", "host/hosttest", "sdk"} {
		for name, file := range parse(t, dir) {
			imports := map[string]string{}
			for _, spec := range file.Imports {
				path, _ := strconv.Unquote(spec.Path.Value)
				as := filepath.Base(path)
				if spec.Name != nil {
					as = spec.Name.Name
				}
				imports[as] = path
			}
			for _, declaration := range file.Decls {
				for _, shown := range exported(declaration) {
					ast.Inspect(shown, func(n ast.Node) bool {
						selector, ok := n.(*ast.SelectorExpr)
						if !ok {
							return true
						}
						path := imports[text(selector.X)]
						first, _, _ := strings.Cut(path, "/")
						ours := path == module+"internal/abi" || path == module+"host" || path == module+"sdk"
						if strings.Contains(first, ".") && !ours {
							t.Errorf("%s: what is exported shows %s of %s", name, text(selector), path)
						}
						return true
					})
				}
			}
		}
	}
}

// exported returns what of a declaration its users see: types of parameters, results, exported fields, variables.
func exported(declaration ast.Decl) []ast.Node {
	switch d := declaration.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && (d.Recv == nil || ast.IsExported(strings.TrimLeft(text(d.Recv.List[0].Type), "*"))) {
			return []ast.Node{d.Type}
		}
	case *ast.GenDecl:
		var all []ast.Node
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					all = append(all, shownType(s.Type)...)
				}
			case *ast.ValueSpec:
				if s.Names[0].IsExported() && s.Type != nil {
					all = append(all, s.Type)
				}
			}
		}
		return all
	}
	return nil
}

func shownType(t ast.Expr) []ast.Node {
	structure, ok := t.(*ast.StructType)
	if !ok {
		return []ast.Node{t}
	}
	var all []ast.Node
	for _, field := range structure.Fields.List {
		if len(field.Names) == 0 || slices.ContainsFunc(field.Names, func(n *ast.Ident) bool { return n.IsExported() }) {
			all = append(all, field.Type)
		}
	}
	return all
}
