//go:build !race

package conform

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/host/hosttest"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/plugins"
)

// All plugins of this repository conform, with configurations made from their descriptions.
func TestBuiltInPluginsConform(t *testing.T) {
	modules := map[string][]byte{}
	for _, name := range plugins.Types() {
		modules[filepath.Base(name)] = plugins.Of(name)
	}
	delete(modules, "apikey") // an alias
	for _, name := range []string{"acme_hmac", "acme_hmac_c", "acme_hmac_as", "acme_hmac_rust"} {
		wasm := testworld.Must(os.ReadFile("../../examples/" + name + "/" + name + ".wasm"))(t)
		modules[name] = wasm
	}
	for name, wasm := range modules {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := testworld.Must(Run(t.Context(), hosttest.Module{Name: name, Wasm: wasm}))(t)
			if !report.Conforms {
				t.Errorf("report = %s", report)
			}
		})
	}
}

// A host can run each of these plugins safely, and no operator wants it. It fails one check, for its reason.
func TestBrokenPlugins(t *testing.T) {
	for name, want := range map[string]struct{ check, reason string }{
		"unsteady": {"contract", "describe has another output each time"},
		"refuses":  {"configurations", "this is not done yet"},
		"guesses":  {"determinism", "the request differs in two hosts"},
		"counts":   {"pristine", "the third of three equal requests differs from the second"},
		"unquoted": {"sealed", "its own quotes are not escaped"},
		"short":    {"values", "field prefix, of one character: the plugin trapped"},
		"blank":    {"values", "field prefix, empty: the plugin trapped"},
		"slow":     {"values", "field scope, huge: the plugin ran out of fuel"},
		"nervous":  {"values", "field name, huge: the plugin trapped in validate"},
		"insists":  {"endpoints", "more than 4 token requests in one call"},
		"anyway":   {"endpoints", "a request was sent, although there is no token"},
		"believes": {"endpoints", "401 with a token: a request was sent"},
		"stubborn": {"challenges", "was sent again as it was"},
		"hopes":    {"challenges", "without a challenge: the plugin trapped"},
		"ascii":    {"unicode", "a path of other alphabets: the plugin trapped"},
		"hungry":   {"fuel", "of 5000000 units of fuel"},
		"tells":    {"leaks", "the host has dropped the text of an error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			report := testworld.Must(Run(t.Context(), hosttest.Module{Name: name, Wasm: compiled(t, "broken", name)}))(t)
			var failed []string
			for _, k := range report.Checks {
				if !k.Passed {
					failed = append(failed, k.Name)
				}
			}
			i := slices.IndexFunc(report.Checks, func(k Check) bool { return k.Name == want.check })
			if !slices.Equal(failed, []string{want.check}) || !strings.Contains(strings.Join(report.Checks[i].Findings, "\n"), want.reason) || report.Conforms {
				t.Errorf("want %s to fail because of %q:\n%s", want.check, want.reason, report)
			}
		})
	}
}

// A plugin that sends random bytes of WASI is as good as one that asks the host for them, and one that refuses a GET as one that does not.
func TestConformingPlugins(t *testing.T) {
	for _, name := range []string{"nonce", "posts"} {
		for _, configs := range [][]hosttest.Config{nil, {{"key": "{{ get_secret('key') }}"}}} {
			report, err := Run(t.Context(), hosttest.Module{Name: name, Wasm: compiled(t, "conforming", name)}, configs...)
			if err != nil || !report.Conforms {
				t.Errorf("err = %v\nreport = %s", err, report)
			}
		}
	}
}

// compiled compiles a plugin of testdata.
func compiled(t *testing.T, dir, name string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), name+".wasm")
	compiler := exec.CommandContext(t.Context(), "clang-19", "--config=../../sdk/c/keywright.cfg", "-o", out, filepath.Join("testdata", dir, name+".c"))
	if text, err := compiler.CombinedOutput(); err != nil {
		t.Fatalf("clang-19 (make deps installs it): %v\n%s", err, text)
	}
	return testworld.Must(os.ReadFile(out))(t)
}
