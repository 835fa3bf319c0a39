package docs

import (
	"fmt"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

const module = "github.com/keywright/keywright/"

// rule lists the packages of this repository and the modules of others that a package may import. An entry that ends in /...
// stands for all packages below.
type rule struct {
	packages string
	ours     []string
	others   []string
}

// rules are the walls of the house. The first matching rule applies. A package without a rule is an error.
var rules = []rule{
	{packages: "abi"},
	{packages: "internal/contract", ours: []string{"abi"}},
	{packages: "sdk/c"},
	{packages: "sdk/assemblyscript"},
	{packages: "sdk/rust"},
	{packages: "sdk", ours: []string{"abi", "internal/contract"}, others: []string{"github.com/extism/go-pdk"}},
	{packages: "plugins"},
	{packages: "plugins/internal/plugintest", ours: []string{"host", "host/hosttest", "sdk"}},
	{packages: "plugins/internal/...", ours: []string{"sdk"}},
	{packages: "plugins/...", ours: []string{"sdk", "plugins/internal/..."}},

	{packages: "host", ours: []string{"internal/files", "abi", "internal/contract", "host/state", "host/view", "internal/answers", "internal/expr", "internal/fairqueue", "internal/printable", "internal/problem", "internal/urlcheck", "plugins", "host/internal/..."}, others: []string{"golang.org/x/net", "github.com/hashicorp/golang-lru/v2"}},
	{packages: "host/hosttest", ours: []string{"host", "host/state", "plugins", "sdk", "abi", "internal/contract", "internal/jws", "internal/lockedreader", "internal/pluginbuild", "internal/testworld", "host/internal/..."}},
	{packages: "internal/casefile", ours: []string{"internal/files", "host", "host/hosttest", "internal/jws", "internal/problem", "internal/testworld"}, others: []string{"go.yaml.in/yaml/v4"}},
	{packages: "internal/conform", ours: []string{"abi", "internal/contract", "host", "host/hosttest", "internal/testworld"}},
	{packages: "host/hosttest/conform", ours: []string{"host/hosttest", "internal/conform"}},
	{packages: "host/hosttest/cases", ours: []string{"host/hosttest", "internal/casefile", "internal/testworld", "sdk"}},
	{packages: "host/internal/hostfn", ours: []string{
		"abi", "internal/contract", "host/internal/answer", "host/internal/compose", "host/internal/leakscan", "host/internal/lease", "host/internal/mask", "host/internal/egress", "host/internal/event", "host/internal/seal", "host/internal/signing", "host/internal/strictjson", "host/internal/template", "host/internal/tokencache", "host/internal/tokens", "host/view", "internal/answers", "internal/expr", "internal/jws", "internal/printable", "internal/urlcheck", "internal/urlpath", "internal/wellknown",
	}, others: []string{"github.com/go-json-experiment/json", "golang.org/x/net"}},
	{packages: "host/internal/answer", ours: []string{"abi", "internal/contract", "host/internal/leakscan", "host/internal/seal", "host/internal/strictjson", "internal/expr", "internal/printable"}, others: []string{"github.com/go-json-experiment/json", "golang.org/x/net"}},
	{packages: "host/internal/connect", ours: []string{"abi", "internal/contract", "host/internal/answer", "host/internal/describe", "host/internal/hostfn", "host/internal/request", "host/internal/sandbox", "host/internal/seal", "host/internal/signing", "host/internal/strictjson", "host/internal/template", "internal/expr", "internal/jws", "internal/printable", "internal/problem", "internal/urlcheck"}, others: []string{"golang.org/x/net"}},
	{packages: "host/internal/inputs", ours: []string{"host/internal/connect", "host/internal/discovery", "host/internal/event", "host/internal/hostfn", "host/internal/template", "internal/expr"}},
	{packages: "host/internal/describe", ours: []string{"abi", "internal/contract", "host/internal/answer", "host/internal/hostfn", "host/internal/seal", "host/internal/strictjson", "host/internal/template", "internal/expr", "internal/jws", "internal/printable"}},
	{packages: "host/internal/compose", ours: []string{"abi", "internal/contract", "host/internal/strictjson", "internal/printable", "internal/urlpath"}, others: []string{"golang.org/x/net"}},
	{packages: "host/view", ours: []string{"abi", "internal/printable", "internal/wellknown"}},
	{packages: "host/internal/event", ours: []string{"host/internal/answer", "host/internal/mask", "host/view"}},
	{packages: "host/internal/mask", ours: []string{"abi", "internal/contract", "host/internal/answer", "host/internal/strictjson", "host/view", "internal/printable"}},
	{packages: "host/internal/request", ours: []string{"abi", "host/internal/hostfn", "host/internal/lease", "internal/printable", "internal/urlcheck"}, others: []string{"golang.org/x/net"}},
	{packages: "host/internal/send", ours: []string{"abi", "internal/contract", "host/internal/answer", "host/internal/connect", "host/internal/egress", "host/internal/event", "host/internal/hostfn", "host/internal/leakscan", "host/internal/request", "host/internal/run", "host/internal/signing", "host/internal/template", "host/view", "internal/answers", "internal/files", "internal/printable"}, others: []string{"github.com/hashicorp/golang-lru/v2"}},
	{packages: "host/internal/sandbox", ours: []string{"internal/contract", "internal/admission", "internal/lockedreader"}, others: []string{"github.com/tetratelabs/wazero"}},
	{packages: "internal/admission", ours: []string{"internal/contract"}},
	{packages: "internal/expr", ours: []string{"internal/problem"}, others: []string{"github.com/expr-lang/expr", "github.com/go-json-experiment/json"}},
	{packages: "host/internal/template", ours: []string{"host/internal/strictjson", "internal/expr", "internal/problem", "internal/urlcheck", "internal/urlpath"}, others: []string{"github.com/go-json-experiment/json"}},
	{packages: "host/internal/discovery", ours: []string{"host/internal/egress", "host/internal/fairlru", "host/internal/strictjson", "host/internal/tokencache", "host/view", "internal/answers", "internal/urlcheck", "internal/wellknown"}},
	{packages: "host/internal/seal", ours: []string{"internal/contract", "host/internal/strictjson", "host/internal/tokencache", "host/view"}},
	{packages: "host/internal/fairlru", others: []string{"github.com/hashicorp/golang-lru/v2"}},
	{packages: "host/internal/tokencache", ours: []string{"host/internal/fairlru", "host/view"}, others: []string{"github.com/hashicorp/golang-lru/v2"}},
	{packages: "host/internal/signing", ours: []string{"internal/contract", "internal/jws", "host/internal/strictjson"}, others: []string{
		"github.com/golang-jwt/jwt/v5", "github.com/hashicorp/golang-lru/v2", "github.com/go-json-experiment/json",
	}},
	{packages: "host/internal/egress", ours: []string{"internal/answers"}, others: []string{"golang.org/x/net", "github.com/hashicorp/golang-lru/v2"}},
	{packages: "host/internal/leakscan", others: []string{"golang.org/x/net"}},
	{packages: "host/internal/lease", ours: []string{"host/internal/tokencache", "host/state", "internal/fairqueue"}, others: []string{"github.com/hashicorp/golang-lru/v2"}},
	{packages: "host/internal/run", ours: []string{"host/internal/connect", "host/internal/event", "host/internal/fairlru", "host/internal/hostfn", "host/internal/inputs", "host/internal/leakscan", "host/internal/lease", "host/internal/request", "host/internal/sandbox", "host/internal/tokencache", "host/internal/tokens", "internal/contract", "internal/fairqueue"}},
	{packages: "host/internal/tokens", ours: []string{"host/internal/event", "host/internal/lease", "host/internal/seal", "host/internal/tokencache", "host/view"}},
	{packages: "host/state"},
	{packages: "host/state/statetest", ours: []string{"host/state"}},
	{packages: "host/internal/strictjson", ours: []string{"abi"}, others: []string{"github.com/go-json-experiment/json"}},
	{packages: "host/internal/testhook", ours: []string{"host/internal/sandbox"}},

	{packages: "server/gateway", ours: []string{"internal/files", "server/internal/codings", "internal/answers", "host", "host/view", "host/state", "abi", "internal/contract", "server/identity", "internal/expr", "internal/fairqueue", "server/internal/operate/remedy", "internal/problem", "internal/urlcheck", "internal/urlpath", "server/gateway/internal/...", "server/internal/trial"}, others: []string{"github.com/hashicorp/golang-lru/v2", "golang.org/x/net", "golang.org/x/text", "golang.org/x/time"}},
	{packages: "server/identity", ours: []string{"internal/files", "server/internal/codings", "host", "internal/answers", "internal/jws", "internal/problem", "internal/urlcheck", "internal/wellknown"}, others: []string{
		"github.com/golang-jwt/jwt/v5", "github.com/MicahParks/jwkset", "github.com/go-json-experiment/json", "github.com/hashicorp/golang-lru/v2", "golang.org/x/net",
	}},
	{packages: "server/gateway/internal/transform", ours: []string{"host", "internal/expr", "internal/problem"}, others: []string{"github.com/go-json-experiment/json"}},

	{packages: "server/gateway/internal/connectpage", ours: []string{"internal/files"}, others: []string{"golang.org/x/text"}},

	{packages: "server/statedb", ours: []string{"host/state"}},
	{packages: "server/statedb/internal/sqlstate", ours: []string{"host/state", "server/statedb", "server/internal/migrate"}},
	{packages: "server/statedb/sqlite", ours: []string{"server/statedb", "server/statedb/internal/sqlstate", "server/internal/migrate", "server/internal/sqlitefile"}, others: []string{"modernc.org/sqlite"}},
	{packages: "server/statedb/postgres", ours: []string{"host/state", "server/statedb", "server/statedb/internal/sqlstate", "server/internal/migrate", "server/internal/postgresurl"}, others: []string{"github.com/jackc/pgx/v5"}},

	{packages: "server/content"},
	{packages: "server/content/httpapi", ours: []string{"server/content", "internal/fairqueue", "internal/urlcheck"}, others: []string{"github.com/klauspost/compress"}},
	{packages: "server/content/client", ours: []string{"internal/files", "internal/answers", "server/content"}},
	{packages: "server/content/embed", ours: []string{"server/internal/codings", "internal/answers"}, others: []string{"github.com/hashicorp/golang-lru/v2", "github.com/microcosm-cc/bluemonday", "golang.org/x/net", "golang.org/x/sync"}},
	{packages: "server/content/internal/sqlstore", ours: []string{"server/content", "server/internal/migrate"}, others: []string{"github.com/go-json-experiment/json", "golang.org/x/sync"}},
	{packages: "server/content/sqlite", ours: []string{"server/content", "server/content/internal/sqlstore", "server/internal/migrate", "server/internal/sqlitefile"}, others: []string{"modernc.org/sqlite"}},
	{packages: "server/content/postgres", ours: []string{"server/content", "server/content/internal/sqlstore", "server/internal/migrate", "server/internal/postgresurl"}, others: []string{"github.com/jackc/pgx/v5"}},
	{packages: "server/content/importer", ours: []string{"server/content", "internal/problem"}, others: []string{"github.com/go-json-experiment/json"}},
	{packages: "server/content/sample"},

	{packages: "server/internal/serve/metrics", others: []string{"github.com/prometheus/client_golang"}},
	{packages: "server/internal/callers", ours: []string{"server/content/httpapi", "host", "server/identity", "server/internal/secretstore"}},
	{packages: "server/internal/operate/login", ours: []string{"internal/files", "internal/urlcheck", "server/identity", "server/internal/operate/records", "server/statedb"}, others: []string{"github.com/hashicorp/golang-lru/v2", "golang.org/x/time"}},
	{packages: "internal/jws", others: []string{"github.com/golang-jwt/jwt/v5"}},
	{packages: "internal/answers", ours: []string{"internal/files"}, others: []string{"github.com/go-json-experiment/json"}},
	{packages: "internal/files"},
	{packages: "internal/fairqueue"},
	{packages: "internal/lockedreader"},
	{packages: "internal/printable"},
	{packages: "internal/problem"},
	{packages: "internal/testworld"},
	{packages: "internal/urlcheck"},
	{packages: "internal/urlpath"},
	{packages: "internal/wellknown"},
	{packages: "server/connectors/statestore", ours: []string{"host", "host/state", "server/connectors", "server/internal/postgresurl", "server/statedb", "server/statedb/postgres", "server/statedb/sqlite"}, others: []string{"github.com/jackc/pgx/v5"}},
	{packages: "server/connectors", ours: []string{"internal/files", "server/internal/codings", "server/internal/pkcs12", "server/gateway", "server/identity", "host", "host/state", "abi", "internal/contract", "internal/expr", "plugins", "internal/problem", "server/internal/serve/httpserver", "server/internal/registry/lock", "server/internal/identities", "server/internal/secretstore", "internal/urlcheck"}, others: []string{"go.yaml.in/yaml/v4"}},
	{packages: "server/internal/pkcs12", others: []string{"software.sslmate.com/src/go-pkcs12"}},
	{packages: "server/internal/codings", others: []string{"github.com/andybalholm/brotli", "github.com/klauspost/compress"}},
	{packages: "server/internal/registry/artifact", others: []string{
		"github.com/go-json-experiment/json", "github.com/opencontainers/go-digest", "github.com/opencontainers/image-spec",
	}},
	{packages: "server/internal/registry/signature", ours: []string{"server/internal/registry/artifact"}, others: []string{"aead.dev/minisign", "github.com/go-json-experiment/json", "github.com/secure-systems-lab/go-securesystemslib"}},
	{packages: "server/internal/registry/scaffold", ours: []string{"internal/pluginbuild", "sdk/assemblyscript", "sdk/c", "sdk/rust"}, others: []string{"golang.org/x/mod"}},
	{packages: "server/internal/operate/explain", ours: []string{"abi", "host", "server/gateway", "server/internal/terminal", "server/internal/trial"}},
	{packages: "server/internal/trial", ours: []string{"abi", "host", "host/view"}},
	{packages: "server/internal/operate/console", ours: []string{"server/internal/operate/activity", "server/internal/operate/acts", "server/internal/operate/connections", "server/internal/operate/difference", "server/internal/operate/explain", "host", "abi", "internal/contract", "server/connectors", "server/gateway", "server/identity", "internal/problem", "server/internal/registry/lock", "server/internal/operate/login", "server/internal/operate/reach", "server/internal/operate/remedy", "server/internal/trial"}, others: []string{"github.com/hashicorp/golang-lru/v2", "github.com/klauspost/compress"}},
	{packages: "server/internal/operate/records", ours: []string{"host", "server/statedb"}, others: []string{"github.com/klauspost/compress"}},
	{packages: "server/internal/operate/acts", ours: []string{"host", "server/internal/operate/login", "server/internal/operate/records", "server/internal/serve/audit", "server/statedb"}},
	{packages: "server/internal/operate/connections", ours: []string{"host", "server/gateway", "server/internal/operate/records", "server/statedb"}, others: []string{"github.com/cespare/xxhash/v2", "github.com/hashicorp/golang-lru/v2"}},
	{packages: "server/internal/operate/nodes", ours: []string{"server/internal/operate/activity", "server/internal/operate/records", "server/statedb"}},
	{packages: "server/internal/operate/tenants", ours: []string{"host", "internal/answers", "internal/urlcheck", "server/connectors", "server/gateway", "server/internal/operate/explain", "server/internal/secretstore", "server/internal/trial"}},
	{packages: "server/internal/operate/activity", ours: []string{"host", "server/gateway", "server/internal/operate/remedy", "server/internal/serve/metrics", "server/internal/trial"}, others: []string{"github.com/hashicorp/golang-lru/v2"}},
	{packages: "server/internal/operate/api", ours: []string{"host", "host/state", "server/connectors", "server/gateway", "server/internal/operate/activity", "server/internal/operate/acts", "server/internal/operate/connections", "server/internal/operate/difference", "server/internal/operate/login", "server/internal/operate/records", "server/internal/operate/tenants", "server/statedb"}, others: []string{"github.com/danielgtaylor/huma/v2", "github.com/hashicorp/golang-lru/v2"}},
	{packages: "server/internal/operate/remedy", ours: []string{"host", "host/state"}},
	{packages: "server/internal/operate/difference", ours: []string{"abi", "host", "internal/urlcheck", "server/connectors", "server/gateway", "server/internal/registry/lock"}},
	{packages: "server/internal/operate/reach", ours: []string{"host", "server/connectors", "server/internal/registry/lock"}},
	{packages: "server/internal/onboard/catalogue", ours: []string{"internal/problem"}, others: []string{"go.yaml.in/yaml/v4"}},
	{packages: "server/internal/registry", ours: []string{"internal/files", "internal/urlcheck", "host", "internal/answers", "server/internal/registry/artifact", "server/internal/registry/signature"}, others: []string{
		"github.com/go-json-experiment/json", "github.com/opencontainers/go-digest", "github.com/opencontainers/image-spec", "oras.land/oras-go/v2",
	}},
	{packages: "server/internal/registry/lock", ours: []string{"internal/files", "abi", "internal/contract", "host", "server/internal/registry/artifact", "server/internal/registry/signature"}, others: []string{"github.com/go-json-experiment/json", "github.com/gofrs/flock", "golang.org/x/mod"}},
	{packages: "server/internal/registry/install", ours: []string{"abi", "internal/contract", "host", "plugins", "server/internal/registry/artifact", "server/internal/registry/lock", "server/internal/registry", "server/internal/registry/signature"}, others: []string{"github.com/go-json-experiment/json", "github.com/opencontainers/image-spec"}},
	{packages: "server/internal/serve/audit", ours: []string{"internal/files"}, others: []string{"github.com/gofrs/flock"}},
	{packages: "server/internal/serve/httpserver", ours: []string{"internal/files"}},
	{packages: "server/internal/onboard/imports", ours: []string{"host", "server/gateway"}, others: []string{"github.com/go-json-experiment/json", "go.yaml.in/yaml/v4", "golang.org/x/net", "mvdan.cc/sh/v3"}},
	{packages: "server/internal/serve/daemon", ours: []string{"server/internal/serve/audit", "server/statedb/sqlite", "server/internal/operate/acts", "server/internal/operate/api", "server/internal/operate/connections", "server/internal/operate/nodes", "server/internal/operate/records", "server/internal/operate/tenants", "server/internal/operate/activity", "server/internal/operate/console", "server/internal/operate/difference", "server/gateway", "server/identity", "host", "host/state", "server/connectors", "server/connectors/statestore", "server/internal/serve/httpserver", "server/internal/operate/login", "server/internal/serve/metrics"}, others: []string{"github.com/cespare/xxhash/v2", "github.com/fsnotify/fsnotify", "github.com/prometheus/client_golang", "github.com/prometheus/client_model", "go.opentelemetry.io/otel"}},
	{packages: "server/internal/registry/record", ours: []string{"internal/files", "abi", "host", "host/view", "host/hosttest", "internal/casefile", "internal/testworld", "internal/wellknown"}, others: []string{"github.com/MicahParks/jwkset", "go.yaml.in/yaml/v4"}},
	{packages: "server/internal/identities", ours: []string{"host", "internal/answers", "internal/files", "internal/jws"}, others: []string{"github.com/MicahParks/jwkset", "github.com/golang-jwt/jwt/v5", "github.com/hashicorp/golang-lru/v2", "golang.org/x/net", "google.golang.org/protobuf"}},
	{packages: "server/internal/secretstore", ours: []string{"host", "internal/answers", "internal/expr", "internal/files", "internal/problem", "internal/urlcheck"}, others: []string{"filippo.io/age", "github.com/MicahParks/jwkset", "github.com/go-json-experiment/json", "golang.org/x/sync"}},
	{packages: "server/internal/demo", ours: []string{"internal/testworld"}, others: []string{"github.com/golang-jwt/jwt/v5"}},
	{packages: "server/internal/demo/tour", ours: []string{"host", "server/connectors", "server/gateway", "server/internal/demo", "server/internal/terminal"}},
	{packages: "server/internal/terminal", others: []string{"golang.org/x/term"}},
	{packages: "internal/pluginbuild", ours: []string{"internal/files"}},
	{packages: "server/internal/migrate", others: []string{"github.com/pressly/goose/v3"}},
	{packages: "server/internal/postgresurl", others: []string{"github.com/jackc/pgx/v5"}},
	{packages: "server/internal/sqlitefile"},
	{packages: "server/internal/postgrestest", ours: []string{"internal/testworld"}, others: []string{"github.com/jackc/pgx/v5"}},
	{packages: "server/internal/docs"},
	{packages: "server/cmd/keywright", ours: []string{"abi", "internal/contract", "server/content", "server/content/...", "server/connectors", "server/connectors/statestore", "server/gateway", "server/identity", "host", "host/state", "host/view", "host/hosttest", "internal/conform", "internal/...", "server/internal/...", "plugins", "sdk"}, others: []string{"github.com/lmittmann/tint", "github.com/opencontainers/image-spec", "github.com/rogpeppe/go-internal", "github.com/schollz/progressbar/v3", "github.com/spf13/cobra", "github.com/spf13/pflag", "golang.org/x/crypto/x509roots/fallback", "golang.org/x/mod/semver", "golang.org/x/sync", "golang.org/x/sys", "golang.org/x/term"}},
	{packages: "tools/plugin", ours: []string{"host", "internal/pluginbuild"}},
}

// testRules are the rules for tests of packages that serve as examples. Other tests may import any package.
var testRules = []rule{
	{packages: "plugins/...", ours: []string{"sdk", "host", "host/hosttest", "internal/testworld", "plugins/internal/plugintest"}, others: []string{"github.com/golang-jwt/jwt/v5"}},
	{packages: "examples/...", ours: []string{"sdk", "host", "host/hosttest", "host/hosttest/cases"}},
}

// exampleRule is the rule for example plugins of third parties.
var exampleRule = rule{packages: "examples/...", ours: []string{"sdk"}}

func (r *rule) covers(dir string) bool { return covers(r.packages, dir) }

func covers(pattern, path string) bool {
	if below, ok := strings.CutSuffix(pattern, "/..."); ok {
		return strings.HasPrefix(path, below+"/")
	}
	return path == pattern
}

// allows reports whether the rule allows importing a package.
func (r *rule) allows(path string) bool {
	if ours, ok := strings.CutPrefix(path, module); ok {
		return slices.ContainsFunc(r.ours, func(pattern string) bool { return covers(pattern, ours) })
	}
	first, _, _ := strings.Cut(path, "/")
	if !strings.Contains(first, ".") {
		return true // the standard library
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

// sources calls f with each Go file of the repository and its directory.
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
	testworld.Check(t, err)
}

func TestImports(t *testing.T) {
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
			return // test modules and tools may import what they need
		default:
			if r = find(rules, dir); r == nil {
				t.Errorf("%s: there is no rule for this package: add one here", dir)
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
		if !slices.ContainsFunc(slices.Collect(maps.Keys(packages)), r.covers) {
			t.Errorf("there is a rule for %s, but no such package", r.packages)
		}
	}
}

// ownModule reports whether a directory is in a module other than the two main ones.
func ownModule(dir string) bool {
	for ; dir != "." && dir != "server"; dir = filepath.ToSlash(filepath.Dir(dir)) {
		if _, err := os.Stat(filepath.Join(root, dir, "go.mod")); err == nil {
			return true
		}
	}
	return false
}

// docs/packages.md lists each package with the first sentence of its comment. The floor of a package is above those of all that it imports.
func TestPackages(t *testing.T) {
	synopses, imports := map[string]string{}, map[string][]string{}
	sources(t, func(dir, name string) {
		if strings.HasSuffix(name, "_test.go") || exampleRule.covers(dir) || ownModule(dir) {
			return
		}
		file := testworld.Must(parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly|parser.ParseComments))(t)
		if text := new(doc.Package).Synopsis(file.Doc.Text()); synopses[dir] == "" {
			_, text, _ = strings.Cut(text, " "+filepath.Base(dir)+" ") // Package NAME
			synopses[dir] = strings.ReplaceAll(text, "|", `\|`)
		}
		for _, spec := range file.Imports {
			path, _ := strconv.Unquote(spec.Path.Value)
			if ours, ok := strings.CutPrefix(path, module); ok {
				imports[dir] = append(imports[dir], ours)
			}
		}
	})
	floors := map[string]int{}
	var floor func(dir string) int
	floor = func(dir string) (n int) {
		if n, ok := floors[dir]; ok {
			return n
		}
		for _, lower := range imports[dir] {
			n = max(n, floor(lower)+1)
		}
		floors[dir] = n
		return n
	}
	list := "# Packages\n\nWhat each package does, from its comment. A package is on the floor above the highest one that it imports.\n" +
		"`go -C server test ./internal/docs -run TestPackages -update` writes this page.\n\n| package | floor | |\n|---|---|---|\n"
	for _, dir := range slices.Sorted(maps.Keys(synopses)) {
		if synopses[dir] == "" {
			t.Errorf("%s has no comment of its package", dir)
		}
		list += fmt.Sprintf("| [%s](../%s) | %d | %s |\n", dir, dir, floor(dir), synopses[dir])
	}
	golden(t, "docs/packages.md", list)
}

// A program that embeds the host requires few modules, and links fewer.
func TestEmbeddersRequireFewModules(t *testing.T) {
	top := testworld.Must(filepath.Abs(root))(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/embed\n\ngo 1.26.0\n\nrequire github.com/keywright/keywright v0.0.0\n\n" +
			"replace github.com/keywright/keywright => " + top + "\n",
		"go.sum":  document(t, "go.sum"),
		"main.go": "package main\n\nimport _ \"github.com/keywright/keywright/host\"\n\nfunc main() {}\n",
	} {
		testworld.Check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	list := func(args ...string) []string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-mod=mod"}, args...)...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: err = %v", cmd.Args, err)
		}
		lines := strings.Fields(string(out))
		slices.Sort(lines)
		return slices.DeleteFunc(slices.Compact(lines), func(path string) bool { return path == "example.com/embed" })
	}
	list("-deps", ".") // adds requirements to go.mod, as go mod tidy would
	if all := list("-f", "{{.Path}}", "-m", "all"); len(all) > 25 {
		t.Errorf("the build list of a program that imports host has %d modules: %v", len(all), all)
	}
	linked := list("-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".")
	want := []string{
		"github.com/expr-lang/expr", "github.com/go-json-experiment/json", "github.com/golang-jwt/jwt/v5",
		"github.com/hashicorp/golang-lru/v2", "github.com/keywright/keywright", "github.com/tetratelabs/wazero",
		"golang.org/x/net", "golang.org/x/sys", "golang.org/x/text",
	}
	if !slices.Equal(linked, want) {
		t.Errorf("a program that imports host links\n%v, and not\n%v", linked, want)
	}
}
