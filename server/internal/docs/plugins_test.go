package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The code of docs/plugins.md is the code of the plugins that it names, so an author who copies it has what is tested.
func TestTheCodeOfPluginsIsTheirs(t *testing.T) {
	const page = "docs/plugins.md"
	plugins := map[string]bool{}
	for _, b := range blocks(t, page) {
		first, code, _ := strings.Cut(b.text, "\n")
		name, named := strings.CutPrefix(first, "// ")
		if b.info != "go" || !named {
			continue
		}
		source, err := os.ReadFile(filepath.Join(root, name))
		switch {
		case err != nil:
			t.Errorf("%s:%d: %v", page, b.line, err)
		case code == "" || !strings.Contains(string(source), "\n"+code):
			t.Errorf("%s:%d: %s does not have this code", page, b.line, name)
		}
		plugins[name] = true
	}
	if len(plugins) < 10 {
		t.Errorf("%s has code of %d files only", page, len(plugins))
	}
}

// What docs/plugins.md sends its readers to is there.
func TestTheExamplesOfPluginsAreThere(t *testing.T) {
	for _, name := range spans(document(t, "docs/plugins.md")) {
		if strings.HasPrefix(name, "plugins/") || strings.HasPrefix(name, "examples/") {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Error(err)
			}
		}
	}
}
