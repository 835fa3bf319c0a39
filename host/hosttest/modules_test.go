package hosttest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// A module that is missing or stale fails the test, which says how to build it.
func TestStaleModules(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "p")
	testworld.Check(t, os.Mkdir(dir, 0o700))
	for name, text := range map[string]string{"go.mod": "module example.test/p\n", "main.go": "package main\n\nfunc main() {}\n"} {
		testworld.Check(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	current := testworld.Must(sourceDigest(dir))(t)
	for _, test := range []struct {
		name   string
		module []byte
		fromGo bool
		texts  []string // the texts of the failure; nil if there must be no failure
	}{
		{"missing", nil, true, []string{"is missing", "tools/plugin build " + dir, "make plugins"}},
		{"missing, not of Go", nil, false, []string{"is missing"}},
		{"stale", withDigest(strings.Repeat("0", 64)), true, []string{"is stale", "`keywright plugin build " + dir, "tools/plugin build " + dir, "make plugins"}},
		{"made by other means", withDigest(""), true, []string{"is not known", "tools/plugin build " + dir}},
		{"current", withDigest(current), true, nil},
		{"not of Go", withDigest(""), false, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := filepath.Join(dir, "p.wasm")
			_ = os.Remove(path)
			if test.module != nil {
				testworld.Check(t, os.WriteFile(path, test.module, 0o600))
			}
			got := complaints(func(tb TB) {
				if module := readModule(tb, path, test.fromGo); string(module) != string(test.module) {
					t.Error("the module is not what the file has")
				}
			})
			if test.texts != nil {
				wantComplaint(t, got, test.texts...)
			} else if len(got) != 0 {
				t.Errorf("complaints: %q", got)
			}
		})
	}
}

// The tool names a module after its directory. A test that uses another name fails with the name to use.
func TestModuleName(t *testing.T) {
	dir := t.TempDir()
	got := complaints(func(tb TB) { readModule(tb, filepath.Join(dir, "acme.wasm"), true) })
	built := filepath.Join(dir, filepath.Base(dir)+".wasm")
	wantComplaint(t, got, "acme.wasm is missing", "tools/plugin build "+dir, "but as "+built+": test that file, or call the directory acme")
}

// withDigest returns an empty module with a recorded digest of sources.
func withDigest(digest string) []byte {
	module := "\x00asm\x01\x00\x00\x00"
	if digest != "" {
		const section = "keywright.sources"
		module += "\x00" + string(rune(1+len(section)+len(digest))) + string(rune(len(section))) + section + digest
	}
	return []byte(module)
}
