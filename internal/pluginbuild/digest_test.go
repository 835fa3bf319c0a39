package pluginbuild

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// pluginSources are the files of a plugin in a separate Go module, as third parties write them. It returns the length of its
// input plus a constant.
var pluginSources = map[string]string{
	"go.mod": "module example.test/echo\n\ngo 1.26\n",
	"main.go": `package main

import (
	_ "embed"

	"example.test/echo/word"
)

//go:embed note.txt
var note string

func main() {}

//go:wasmexport authenticate
func authenticate() int32 { return int32(inputLength()) + int32(len(note)) + word.Size }
`,
	"imports.go":        "//go:build tinygo.wasm\n\npackage main\n\n//go:wasmimport extism:host/env input_length\nfunc inputLength() uint64\n",
	"imports_native.go": "//go:build !tinygo.wasm\n\npackage main\n\nfunc inputLength() uint64 { return 0 }\n",
	"main_test.go":      "package main\n",
	"note.txt":          "a note",
	"word/word.go":      "// Package word is what the plugin imports.\npackage word\n\n// Size is a number.\nconst Size = 4\n",
}

// writeFiles creates a directory with the given base name and files, and returns its path.
func writeFiles(t *testing.T, base string, files map[string]string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), base)
	for name, content := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		testworld.Check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		testworld.Check(t, os.WriteFile(path, []byte(content), 0o644))
	}
	return dir
}

func digest(t *testing.T, dir string) string {
	t.Helper()
	return testworld.Must(SourceDigest(t.Context(), dir))(t)
}

func TestSourceDigestOfGuestFiles(t *testing.T) {
	lines := make([]string, 0, 4)
	for _, file := range []string{"imports.go", "main.go", "note.txt", "word/word.go"} {
		lines = append(lines, fmt.Sprintf("example.test/echo/%s %x\n", file, sha256.Sum256([]byte(pluginSources[file]))))
	}
	want := fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(lines, ""))))
	if got := digest(t, writeFiles(t, "echo", pluginSources)); got != want {
		t.Errorf("digest %s, want %s", got, want)
	}
}

func TestSourceDigest(t *testing.T) {
	before := digest(t, writeFiles(t, "echo", pluginSources))
	tests := []struct {
		name, file, add string
		changes         bool
	}{
		{"another directory", "", "", false},
		{"the plugin's source", "main.go", "// more\n", true},
		{"a source for the guest only", "imports.go", "// more\n", true},
		{"a package it imports", "word/word.go", "// more\n", true},
		{"an embedded file", "note.txt", "!", true},
		{"a new source", "new.go", "package main\n", true},
		{"a native source", "imports_native.go", "// more\n", false},
		{"a test", "main_test.go", "// more\n", false},
		{"a package it does not import", "other/other.go", "package other\n", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			files := maps.Clone(pluginSources)
			if test.file != "" {
				files[test.file] += test.add
			}
			after := digest(t, writeFiles(t, "elsewhere", files))
			if (after != before) != test.changes {
				t.Errorf("changed: %t, want %t", after != before, test.changes)
			}
		})
	}
}

func TestSourceDigestErrors(t *testing.T) {
	with := func(name, content string) map[string]string {
		files := maps.Clone(pluginSources)
		files[name] = content
		return files
	}
	tests := []struct {
		name string
		dir  string
		want []string
	}{
		{"no directory", filepath.Join(t.TempDir(), "nowhere"), []string{"plugin directory", "nowhere"}},
		{"a file", filepath.Join(writeFiles(t, "echo", pluginSources), "main.go"), []string{"main.go is a file"}},
		{"no Go source", writeFiles(t, "empty", map[string]string{"go.mod": pluginSources["go.mod"]}), []string{"empty", "no Go files"}},
		{"not a main package", filepath.Join(writeFiles(t, "echo", pluginSources), "word"), []string{"word", "package main"}},
		{"an import that is nowhere", writeFiles(t, "echo", with("word/word.go", "package word\n\nimport _ \"example.test/echo/lost\"\n")), []string{"list the sources", "example.test/echo/lost"}},
		{"a file to embed that is not there", writeFiles(t, "echo", with("main.go", strings.Replace(pluginSources["main.go"], "note.txt", "lost.txt", 1))), []string{"lost.txt"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			wantErrors(t, testworld.ErrorOf(SourceDigest(t.Context(), test.dir)), test.want)
		})
	}
}

// wasmHeader is a module without sections.
const wasmHeader = "\x00asm\x01\x00\x00\x00"

func TestRecordedDigest(t *testing.T) {
	const sum = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"
	module := func(sections ...string) []byte { return []byte(wasmHeader + strings.Join(sections, "")) }
	named := func(content string) string {
		return "\x00" + string(rune(len(content)+18)) + "\x11keywright.sources" + content
	}
	tests := []struct {
		name   string
		wasm   []byte
		digest string
		err    string
	}{
		{"as recorded", recordDigest(module("\x01\x01\x00"), sum), sum, ""},
		{"before another section", module("\x00\x02\x01n", named(sum), "\x01\x01\x00"), "", ErrNoDigest.Error()},
		{"a section of more than one length byte before it", recordDigest(module("\x00\x80\x01\x01n"+strings.Repeat("x", 126)), sum), sum, ""},
		{"no section of that name", module("\x01\x01\x00", "\x00\x02\x01n"), "", ErrNoDigest.Error()},
		{"no section at all", module(), "", ErrNoDigest.Error()},
		{"the name inside another section", module("\x0b\x53\x11keywright.sources" + sum + "x"), "", ErrNoDigest.Error()},
		{"empty file", nil, "", ErrNoDigest.Error()},
		{"cut off", recordDigest(module(), sum)[:60], "", ErrNoDigest.Error()},
		{"digest too short", module(named(sum[:62])), "", ErrNoDigest.Error()},
		{"digest in capitals", module(named(strings.ToUpper(sum))), "", "does not hold a SHA-256 digest"},
		{"no digits", module(named(strings.Repeat("g", 64))), "", "does not hold a SHA-256 digest"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := RecordedDigest(test.wasm)
			if got != test.digest {
				t.Errorf("digest %q, want %q", got, test.digest)
			}
			testworld.WantError(t, test.name, err, test.err)
			if (test.err == ErrNoDigest.Error()) != errors.Is(err, ErrNoDigest) {
				t.Errorf("error %v: wrong kind", err)
			}
		})
	}
}
