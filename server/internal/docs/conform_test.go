package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/conform"
	"github.com/keywright/keywright/internal/testworld"
)

// The report in docs/plugins.md is the one of examples/acme_hmac, apart from its numbers. The table below it has all checks.
func TestTheReportOfConformance(t *testing.T) {
	const page, name = "docs/plugins.md", "acme_hmac.wasm"
	wasm := testworld.Must(os.ReadFile(filepath.Join(root, "examples", "acme_hmac", name)))(t)
	report := testworld.Must(conform.Run(t.Context(), hosttest.Module{Name: name, Wasm: wasm}))(t)
	numbers := regexp.MustCompile(`[0-9]+`)
	without := func(text string) string { return numbers.ReplaceAllLiteralString(text, "0") }
	shown := false
	for _, b := range blocks(t, page) {
		shown = shown || without(b.text) == without(report.String())
	}
	if !shown {
		t.Errorf("%s does not have this report:\n%s", page, report)
	}
	table := rows(under(t, page, "## Check that it conforms"))
	var checks, listed []string
	for _, k := range report.Checks {
		checks = append(checks, k.Name)
	}
	for _, row := range table[1:] { // the delimiter row
		listed = append(listed, strings.Trim(row[0], "`"))
	}
	if got, want := strings.Join(listed, " "), strings.Join(checks, " "); got != want {
		t.Errorf("%s lists the checks %s, want %s", page, got, want)
	}
}
