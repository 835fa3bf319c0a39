package docs

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/printer"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// defaults reads the default of each field of host.Limits out of the sources: a number, in nanoseconds for a time.
func defaults(t *testing.T) map[string]int64 {
	t.Helper()
	sandbox := map[string]string{"pageBytes": "(64 << 10)"}
	for _, file := range parse(t, "host/internal/sandbox") {
		for _, pair := range composite(file, "DefaultLimits") {
			sandbox["d."+pair[0]] = "(" + pair[1] + ")"
		}
	}
	all := map[string]int64{}
	evaluate := func(field, expression string) {
		for range 2 { // what stands for a name may have a name in it
			for name, value := range sandbox {
				expression = regexp.MustCompile(`\b`+regexp.QuoteMeta(name)+`\b`).ReplaceAllLiteralString(expression, value)
			}
		}
		expression = strings.ReplaceAll(expression, "time.Second", fmt.Sprint(int64(time.Second)))
		value, err := types.Eval(token.NewFileSet(), nil, token.NoPos, expression)
		if err != nil || value.Value == nil {
			return // of the machine, not a constant
		}
		n, _ := constant.Int64Val(value.Value)
		all[field] = n
	}
	for _, file := range parse(t, "host") {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr: // set(&l.ModuleBytes, d.ModuleBytes)
				if name, ok := n.Fun.(*ast.Ident); ok && name.Name == "set" && len(n.Args) == 2 {
					evaluate(strings.TrimPrefix(text(n.Args[0]), "&l."), text(n.Args[1]))
				}
			case *ast.AssignStmt: // l.CallTime = 15 * time.Second
				if field, ok := strings.CutPrefix(text(n.Lhs[0]), "l."); ok && len(n.Rhs) == 1 {
					evaluate(field, text(n.Rhs[0]))
				}
			}
			return true
		})
	}
	return all
}

// composite returns the fields of the struct literal that a function returns.
func composite(file *ast.File, function string) [][2]string {
	var pairs [][2]string
	for _, declaration := range file.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if !ok || f.Name.Name != function {
			continue
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if pair, ok := n.(*ast.KeyValueExpr); ok {
				pairs = append(pairs, [2]string{text(pair.Key), text(pair.Value)})
			}
			return true
		})
	}
	return pairs
}

func text(n ast.Node) string {
	var b strings.Builder
	_ = printer.Fprint(&b, token.NewFileSet(), n)
	return b.String()
}

// show writes a limit as the documents do.
func show(field string, n int64) string {
	switch {
	case field == "CallTime":
		return fmt.Sprintf("%d s", n/int64(time.Second))
	case strings.HasSuffix(field, "Bytes") && n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	case strings.HasSuffix(field, "Bytes"):
		return fmt.Sprintf("%d KiB", n>>10)
	case n >= 1_000_000:
		return fmt.Sprintf("%d,%03d,%03d", n/1_000_000, n/1000%1000, n%1000)
	case n >= 1000:
		return fmt.Sprintf("%d,%03d", n/1000, n%1000)
	}
	return fmt.Sprint(n)
}

func TestTheLimitsOfTheContractAreTheDefaultsOfTheHost(t *testing.T) {
	is := defaults(t)
	table := map[string]string{}
	for _, row := range rows(under(t, "ABI.md", "## Limits")) {
		table[row[0]] = row[1]
	}
	for field, where := range map[string][2]string{ // the row of ABI.md, and what it says with % for the number
		"ModuleBytes":   {"module", "%"},
		"MemoryBytes":   {"memory", "% of guest"},
		"BlockBytes":    {"memory", "% and"},
		"Blocks":        {"memory", "% blocks"},
		"Fuel":          {"work", "% units"},
		"CallTime":      {"time", "% a call"},
		"HostCalls":     {"host calls", "% into"},
		"TokenRequests": {"host calls", "% token requests"},
		"LogLines":      {"host calls", "% log lines"},
		"BodyBytes":     {"body", "%, when"},
		"OutputBytes":   {"documents", "output %"},
		"Mutations":     {"documents", "% headers"},
		"TokenBytes":    {"documents", "token answer %"},
		"CacheBytes":    {"documents", "cached value %"},
		"CacheEntries":  {"cache", "% entries in all"},
		"CachePerUser":  {"cache", "% a partition"},
	} {
		n, ok := is[field]
		if !ok {
			t.Errorf("the default of host.Limits.%s is not found in the sources", field)
			continue
		}
		want := strings.Replace(where[1], "%", show(field, n), 1)
		if !strings.Contains(table[where[0]], want) {
			t.Errorf("host.Limits.%s is %s: ABI.md's row %q should have %q, has %q", field, show(field, n), where[0], want, table[where[0]])
		}
	}
}

// The comment of each field gives its default in brackets.
func TestTheCommentsOfTheLimitsAreTheirDefaults(t *testing.T) {
	is := defaults(t)
	bracket := regexp.MustCompile(`\[(.+)\]`)
	for _, file := range parse(t, "host") {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != "Limits" {
				return true
			}
			fields := spec.Type.(*ast.StructType).Fields.List
			if len(fields) < len(is) {
				t.Errorf("host.Limits has %d fields, %d defaults are set", len(fields), len(is))
			}
			for _, field := range fields {
				name := field.Names[0].Name
				match := bracket.FindStringSubmatch(field.Comment.Text())
				if match == nil {
					t.Errorf("the comment of host.Limits.%s has no default in brackets", name)
					continue
				}
				if n, ok := is[name]; ok && match[1] != show(name, n) {
					t.Errorf("the comment of host.Limits.%s says [%s], it is %s", name, match[1], show(name, n))
				}
			}
			return false
		})
	}
}

func TestTheLongestCacheKeyIsThatOfTheContract(t *testing.T) {
	row := slices.IndexFunc(rows(under(t, "ABI.md", "## Limits")), func(row []string) bool { return row[0] == "cache" })
	want := "a key of 256 bytes"
	if got := rows(under(t, "ABI.md", "## Limits"))[row][1]; !strings.Contains(got, want) {
		t.Errorf("ABI.md says of the cache %q, want %q", got, want)
	}
	found := ""
	for _, file := range parse(t, "host/internal/hostfn") {
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && spec.Names[0].Name == "maxCacheKey" {
				found = text(spec.Values[0])
			}
			return true
		})
	}
	if found != "256" {
		t.Errorf("maxCacheKey is %q, ABI.md says %q", found, want)
	}
}
