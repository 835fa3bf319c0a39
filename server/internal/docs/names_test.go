package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content/importer"
)

// The documents list exactly the types of problems and the metrics of the code.
func TestTheNamesOfTheServers(t *testing.T) {
	for _, c := range []struct {
		what, files, pattern string
		document             string
		from, to             string // the headings around the list
		documented           string
	}{
		{"problem", "server/gateway/*.go", `(?:kind: +|Status\w+: +)"([a-z]+-?[a-z-]*)"`, "docs/gateway.md", "## Errors", "## Operators", "(?m)^\\| `([a-z`, -]+)` \\|"},
		{"metric", "server/internal/serve/daemon/*.go server/internal/serve/metrics/metrics.go", `(?m)(?:(?:Counter|Seconds|Histogram|Total|Gauges?|Pairs|Flag)\(|^\t\{)"([a-z_]+)"`, "docs/gateway.md", "", "", "`keywright_([a-z_]+)`"},
		{"problem", "server/content/httpapi/*.go", `kind: +"([a-z]+-?[a-z-]*)"`, "docs/content.md", "### Errors", "## Who may ask", "(?m)^\\| `([a-z`, -]+)` \\|"},
		{"metric", "server/cmd/keywright/content.go server/internal/serve/metrics/metrics.go", `(?:Counter|Seconds|Gauges?)\("([a-z_]+)"`, "docs/content.md", "", "", "`keywright_([a-z_]+)`"},
	} {
		page := document(t, c.document)
		if c.from != "" {
			_, page, _ = strings.Cut(page, c.from)
			page, _, _ = strings.Cut(page, c.to)
		}
		var has, said []string
		for pattern := range strings.FieldsSeq(c.files) {
			for _, file := range testworld.Must(filepath.Glob(filepath.Join(root, pattern)))(t) {
				if strings.HasSuffix(file, "_test.go") {
					continue
				}
				for _, m := range regexp.MustCompile(c.pattern).FindAllStringSubmatch(string(testworld.Must(os.ReadFile(file))(t)), -1) {
					has = append(has, m[1])
				}
			}
		}
		for _, m := range regexp.MustCompile(c.documented).FindAllStringSubmatch(page, -1) {
			said = append(said, strings.Split(m[1], "`, `")...)
		}
		for _, list := range []*[]string{&has, &said} {
			slices.Sort(*list)
			*list = slices.Compact(*list)
		}
		if len(has) == 0 || !slices.Equal(has, said) {
			t.Errorf("%ss: the program has\n%v\nand %s\n%v", c.what, has, c.document, said)
		}
	}
}

// The importer accepts the records in docs/content.md.
func TestTheRecordsOfContent(t *testing.T) {
	for _, b := range blocksOf(t, "docs/content.md", "json") {
		result, err := importer.Import(t.Context(), nil, "content.md", strings.NewReader(b.text), importer.Options{DryRun: true})
		if err != nil || result.Problems > 0 || result.Articles != 1 || result.Replies != 1 || result.Moderators != 1 {
			t.Errorf("result = %+v, err = %v", result, err)
		}
	}
}

// The Go program in docs/content.md is part of a tested example.
func TestTheClientOfContent(t *testing.T) {
	example, programs := document(t, "server/content/client/example_test.go"), blocksOf(t, "docs/content.md", "go")
	for _, b := range programs {
		if !strings.Contains(example, "\n"+b.text) {
			t.Errorf("docs/content.md:%d: server/content/client/example_test.go has not got this", b.line)
		}
	}
	if len(programs) == 0 {
		t.Error("docs/content.md has no program in Go")
	}
}
