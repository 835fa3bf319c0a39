package scaffold

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/keywright/keywright/internal/pluginbuild"
	"github.com/keywright/keywright/internal/testworld"
)

func filesOf(t *testing.T, language pluginbuild.Language) map[string][]byte {
	t.Helper()
	files, err := Plugin{Language: language, Name: "acme-token", Type: "acme_token", Packages: "some packages"}.files()
	testworld.Check(t, err)
	return files
}

func TestFilesOfAPlugin(t *testing.T) {
	want := map[pluginbuild.Language][]string{
		pluginbuild.Go: {".github/workflows/plugin.yml", ".gitignore", "README.md", "cases.yaml", "connectors.yaml", "go.mod", "main.go", "main_test.go"},
		pluginbuild.C:  {".github/workflows/plugin.yml", ".gitignore", "README.md", "acme-token.c", "cases.yaml", "compile_flags.txt", "connectors.yaml", "keywright.cfg", "keywright.h"},
		pluginbuild.AssemblyScript: {
			".github/workflows/plugin.yml", ".gitignore", "README.md", "acme-token.ts", "asconfig.json", "cases.yaml", "connectors.yaml", "keywright.ts", "package-lock.json",
			"package.json", "tsconfig.json",
		},
		pluginbuild.Rust: {".github/workflows/plugin.yml", ".gitignore", "README.md", "acme-token.rs", "cases.yaml", "connectors.yaml", "keywright.args", "keywright.rs"},
	}
	for _, language := range pluginbuild.Languages() {
		if diff := cmp.Diff(want[language], slices.Sorted(maps.Keys(filesOf(t, language)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", language, diff)
		}
	}
}

// An author has at most 30 lines to change: the whole plugin, without comments and empty lines.
func TestPluginLength(t *testing.T) {
	for language, name := range map[pluginbuild.Language]string{
		pluginbuild.Go: "main.go", pluginbuild.C: "acme-token.c", pluginbuild.AssemblyScript: "acme-token.ts", pluginbuild.Rust: "acme-token.rs",
	} {
		source, lines := filesOf(t, language)[name], 0
		for line := range strings.Lines(string(source)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
		if lines < 5 || lines > 30 {
			t.Errorf("%s has %d lines, want 30 at most", name, lines)
		}
		if !bytes.Contains(source, []byte("// CHANGE: ")) {
			t.Errorf("%s does not say what to change", name)
		}
	}
}

// A new plugin has the AssemblyScript that this repository is tested with, by the digests of its packages.
func TestAssemblyScriptVersion(t *testing.T) {
	const example = "../../../../examples/acme_hmac_as/"
	files := filesOf(t, pluginbuild.AssemblyScript)
	for name, member := range map[string]string{"package.json": "devDependencies", "package-lock.json": "packages", "asconfig.json": "options"} {
		tested := testworld.Must(os.ReadFile(example + name))(t)
		want, got := members(t, tested, member), members(t, files[name], member)
		for _, ownName := range []string{"", "outFile", "use"} {
			delete(want, ownName)
			delete(got, ownName)
		}
		if diff := cmp.Diff(want, got); len(want) == 0 || diff != "" {
			t.Errorf("%s (-example +new plugin):\n%s", name, diff)
		}
	}
}

// An editor for TypeScript does not check the SDK, whose decorators TypeScript does not have.
func TestEditorsDoNotCheckTheSDKForAssemblyScript(t *testing.T) {
	if sdk := filesOf(t, pluginbuild.AssemblyScript)["keywright.ts"]; !bytes.HasPrefix(sdk, []byte("// @ts-nocheck")) {
		t.Errorf("keywright.ts begins with %.80q", sdk)
	}
}

func members(t *testing.T, document []byte, member string) map[string]any {
	t.Helper()
	var all map[string]any
	testworld.Check(t, json.Unmarshal(document, &all))
	object, _ := all[member].(map[string]any)
	return object
}

// Where Keywright has a published version, CI installs that one, and go.mod requires it.
func TestAPublishedVersion(t *testing.T) {
	tests := []struct{ version, checkout, workflow, mod string }{
		{"v1.2.3", "", "server/cmd/keywright@v1.2.3\n", "keywright v1.2.3\n"},
		{"", "/src", "repository: keywright/keywright", "keywright v0.0.0\n"},
	}
	for _, language := range pluginbuild.Languages() {
		for _, test := range tests {
			files, err := Plugin{Language: language, Name: "acme", Type: "acme", Version: test.version, Checkout: test.checkout}.files()
			testworld.Check(t, err)
			if workflow := string(files[".github/workflows/plugin.yml"]); !strings.Contains(workflow, test.workflow) {
				t.Errorf("%s: the workflow has no %q:\n%s", language, test.workflow, workflow)
			}
			if mod := string(files["go.mod"]); language == pluginbuild.Go && !strings.Contains(mod, test.mod) {
				t.Errorf("go.mod has no %q:\n%s", test.mod, mod)
			}
		}
	}
}

// A program that was built in a checkout finds it, unless the user names another directory. What the user names must be one.
func TestCheckout(t *testing.T) {
	want := testworld.Must(filepath.Abs("../../../.."))(t)
	names := []string{want}
	if _, file, _, _ := runtime.Caller(0); filepath.IsAbs(file) { // not with -trimpath
		names = append(names, "")
	}
	for _, named := range names {
		if got, err := Checkout(named); got != want || err != nil {
			t.Errorf("the checkout of %q is %q: %v", named, got, err)
		}
	}
	if got, err := Checkout(t.TempDir()); err == nil {
		t.Errorf("%s is a checkout", got)
	}
}
