package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

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
