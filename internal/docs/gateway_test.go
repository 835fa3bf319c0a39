package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/connectors"
)

// The file that docs/gateway.md shows is one that loads.
func TestTheFileOfTheGateway(t *testing.T) {
	for _, b := range blocks(t, "docs/gateway.md") {
		if b.info != "yaml" {
			continue
		}
		set, err := connectors.Read(t.Context(), "connectors.yaml", []byte(b.text), connectors.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := set.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// The types of problems, and the metrics, are those that docs/gateway.md has.
func TestTheNamesOfTheGateway(t *testing.T) {
	document, err := os.ReadFile(filepath.Join(root, "docs/gateway.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, errors, _ := strings.Cut(string(document), "## Errors")
	errors, _, _ = strings.Cut(errors, "## Operators")
	for _, c := range []struct {
		what, files, pattern, document, documented string
	}{
		{"problem", "gateway/*.go", `(?:kind: +|Status\w+: +)"([a-z]+-?[a-z-]*)"`, errors, "(?m)^\\| `([a-z`, -]+)` \\|"},
		{"metric", "internal/daemon/metrics.go", `(?:Counter|Seconds)\("([a-z_]+)"`, string(document), "`keywright_([a-z_]+)`"},
	} {
		var has, said []string
		files, err := filepath.Glob(filepath.Join(root, c.files))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, m := range regexp.MustCompile(c.pattern).FindAllStringSubmatch(string(text), -1) {
				has = append(has, m[1])
			}
		}
		for _, m := range regexp.MustCompile(c.documented).FindAllStringSubmatch(c.document, -1) {
			said = append(said, strings.Split(m[1], "`, `")...)
		}
		for _, list := range []*[]string{&has, &said} {
			slices.Sort(*list)
			*list = slices.Compact(*list)
		}
		if !slices.Equal(has, said) {
			t.Errorf("%ss: the program has\n%v\nand docs/gateway.md\n%v", c.what, has, said)
		}
	}
}
