package docs

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/keywright/keywright/abi"
	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/contract"
	"github.com/keywright/keywright/internal/testworld"
)

// constants returns the values of the exported constants of packages abi and contract that are literals, by name.
func constants(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	files := parse(t, "abi")
	maps.Copy(files, parse(t, "internal/contract"))
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, value := range spec.Values {
				literal, ok := value.(*ast.BasicLit)
				if !ok || !spec.Names[i].IsExported() {
					continue
				}
				text := literal.Value
				if literal.Kind == token.STRING {
					text, _ = strconv.Unquote(text)
				}
				all[spec.Names[i].Name] = text
			}
			return true
		})
	}
	if len(all) < 60 {
		t.Fatalf("found %d constants in packages abi and contract, which have more: the test does not read them", len(all))
	}
	return all
}

// fileSet has the positions of all files that parse returns.
var fileSet = token.NewFileSet()

// parse returns the sources of a package without its tests. It ignores build tags.
func parse(t *testing.T, dir string) map[string]*ast.File {
	t.Helper()
	files := map[string]*ast.File{}
	names, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s has no Go files: %v", dir, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		files[name] = testworld.Must(parser.ParseFile(fileSet, name, nil, parser.ParseComments))(t)
	}
	return files
}

func TestDocumentedConstants(t *testing.T) {
	text := prose(t, "ABI.md")
	inBackticks := map[string]bool{}
	for _, span := range spans(text) {
		name, _, _ := strings.Cut(span, "(")
		inBackticks[name] = true
	}
	// otherwise has the phrases for constants that the document does not have in backticks.
	otherwise := map[string]string{
		"Version":        "# The plugin contract, version " + strconv.Itoa(abi.Version) + "\n",
		"SealedLength":   "and " + strconv.Itoa(contract.SealedLength) + " characters of `[a-z0-9]`",
		"SealedAlphabet": "characters of `[a-z0-9]`",
	}
	for name, value := range constants(t) {
		switch phrase := otherwise[name]; {
		case phrase != "" && !strings.Contains(text, phrase):
			t.Errorf("%s is %s, but ABI.md does not have %q", name, value, phrase)
		case phrase == "" && !inBackticks[value]:
			t.Errorf("%s is %q, which ABI.md does not have in backticks", name, value)
		}
	}
}

func TestTableConstants(t *testing.T) {
	all := constants(t)
	with := func(prefixes ...string) []string {
		var values []string
		for name, value := range all {
			if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
				values = append(values, value)
			}
		}
		return values
	}
	var exports, functions, groups, kernel []string
	for _, row := range rows(under(t, "ABI.md", "## Exports")) {
		exports = append(exports, spans(row[0])...)
	}
	for _, row := range rows(under(t, "ABI.md", "## Host functions in `extism:host/user`")) {
		name, _, _ := strings.Cut(spans(row[0])[0], "(")
		functions = append(functions, name)
		group := strings.Trim(row[1], "`–")
		if group != contract.GroupOf(name) {
			t.Errorf("ABI.md has %s in group %q, the host in %q", name, group, contract.GroupOf(name))
		}
		groups = append(groups, spans(row[1])...)
	}
	kernelText, _, _ := strings.Cut(under(t, "ABI.md", "## Host functions in `extism:host/env`"), "\n\n`config_get(name)`")
	kernel = spans(kernelText)

	for what, lists := range map[string][2][]string{
		"exports":                         {exports, contract.Exports},
		"functions of extism:host/user":   {functions, with("User")},
		"groups of those functions":       {groups, contract.Groups},
		"functions of the Extism kernel":  {kernel, with("Env")},
		"groups of package abi":           {contract.Groups, with("Group")},
		"grants of package abi":           {contract.Grants, with("Grant")},
		"kinds of fields of package abi":  {contract.Kinds, with("Kind")},
		"sinks of fields of package abi":  {contract.Sinks, with("Sink")},
		"algorithms of digest":            {contract.Digests, with("Digest")},
		"purposes of keys of package abi": {contract.Purposes, with("Purpose")},
		"modules that may be imported of": {firstSpans(under(t, "ABI.md", "## Module"), 3), with("Module")},
	} {
		if documented, is := set(lists[0]), set(lists[1]); !maps.Equal(documented, is) {
			t.Errorf("%s: there are %v, want %v", what, slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(is)))
		}
	}
}

func firstSpans(text string, n int) []string { return spans(text)[:n] }

func set(list []string) map[string]bool {
	all := map[string]bool{}
	for _, name := range list {
		all[name] = true
	}
	return all
}

// Every example decodes as its type of the contract, and ABI.md names every member of these types.
func TestContractExamples(t *testing.T) {
	documents := []any{
		&abi.Description{}, &abi.Field{}, &abi.Description{}, &abi.Description{}, &abi.Description{}, &contract.Mutation{}, &contract.Request{},
		&contract.ConsentRequest{}, &contract.ConsentReply{}, &contract.ConsentRequest{}, &contract.TokenRequest{}, &contract.TokenReply{},
		&contract.Exchange{}, &contract.ExchangeReply{}, &contract.Composition{}, &contract.ChallengeReply{}, &contract.JWTRequest[map[string]any]{},
		&contract.JWSRequest[map[string]any]{},
	}
	examples := blocks(t, "ABI.md")
	if len(examples) != len(documents) {
		t.Fatalf("ABI.md has %d examples, the test knows of %d", len(examples), len(documents))
	}
	text := document(t, "ABI.md")
	for i, example := range examples {
		decoder := json.NewDecoder(bytes.NewReader([]byte(example.text)))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(documents[i]); err != nil {
			t.Errorf("ABI.md:%d: the example is no %T: %v", example.line, documents[i], err)
		}
	}
	for _, d := range append(documents, &abi.Field{}, &abi.Answer{}, &abi.State{}, &abi.Challenge{}, &abi.Pair{}) {
		structure := reflect.TypeOf(d).Elem()
		for i := range structure.NumField() {
			name, _, _ := strings.Cut(structure.Field(i).Tag.Get("json"), ",")
			if !strings.Contains(text, "`"+name+"`") && !strings.Contains(text, `"`+name+`":`) {
				t.Errorf("ABI.md does not name the member %q of %s", name, structure)
			}
		}
	}
}

func TestContractLimits(t *testing.T) {
	table := map[string]string{}
	for _, row := range rows(under(t, "ABI.md", "## Limits")) {
		table[row[0]] = row[1]
	}
	of := map[string][2]string{ // the row in ABI.md, and its text with % for the number
		"ModuleBytes":         {"module", "%"},
		"MemoryBytes":         {"memory", "% of guest"},
		"BlockBytes":          {"memory", "% and"},
		"Blocks":              {"memory", "% blocks"},
		"Fuel":                {"work", "% units"},
		"CallTime":            {"time", "% a call"},
		"HostCalls":           {"host calls", "% into"},
		"TokenRequests":       {"host calls", "% token requests"},
		"KeyRequests":         {"host calls", "% uses of keys of a store"},
		"LogLines":            {"host calls", "% log lines"},
		"BodyBytes":           {"body", "%, when"},
		"OutputBytes":         {"documents", "output %"},
		"Mutations":           {"documents", "% headers"},
		"TokenBytes":          {"documents", "token answer %"},
		"CacheBytes":          {"documents", "cached value %"},
		"TokensBytes":         {"cache", "% in all"},
		"CachePerPartition":   {"cache", "% a partition"},
		"Keys":                {}, // this and the following are not part of the contract
		"MutationsBytes":      {},
		"ScannersBytes":       {},
		"ConcurrentGuests":    {},
		"ConcurrentExchanges": {},
		"ConcurrentKeys":      {},
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[host.Limits]()) {
		where, ok := of[field.Name]
		if !ok {
			t.Errorf("this test knows no host.Limits.%s", field.Name)
		}
		if want := strings.Replace(where[1], "%", field.Tag.Get("default"), 1); !strings.Contains(table[where[0]], want) {
			t.Errorf("host.Limits.%s: ABI.md's row %q should have %q, has %q", field.Name, where[0], want, table[where[0]])
		}
	}
}

func TestCallConstants(t *testing.T) {
	source := testworld.Must(os.ReadFile(filepath.Join(root, "host/internal/hostfn/plan.go")))(t)
	for name, text := range map[string]string{"maxCacheKey": "a key of % bytes", "maxSignatures": "% signatures"} {
		most := regexp.MustCompile(name + ` += ([0-9]+)`).FindSubmatch(source)
		if most == nil || !strings.Contains(under(t, "ABI.md", "## Limits"), strings.Replace(text, "%", string(most[1]), 1)) {
			t.Errorf("%s is %q, ABI.md says %q", name, most, under(t, "ABI.md", "## Limits"))
		}
	}
}
