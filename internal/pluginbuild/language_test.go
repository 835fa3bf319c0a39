package pluginbuild

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

func TestLanguageOf(t *testing.T) {
	tests := []struct {
		name  string
		files []string
		want  Language
		err   string // what the error says, if there is one
	}{
		{name: "Go", files: []string{"go.mod", "main.go"}, want: Go},
		{name: "Go with C beside it", files: []string{"main.go", "part.c"}, want: Go},
		{name: "C", files: []string{"acme.c", "keywright.h", "keywright.cfg"}, want: C},
		{name: "C with a test in Go", files: []string{"acme.c", "go.mod", "acme_test.go"}, want: C},
		{name: "AssemblyScript", files: []string{"acme.ts", "asconfig.json", "package.json"}, want: AssemblyScript},
		{name: "Rust", files: []string{"acme.rs", "keywright.rs", "keywright.args"}, want: Rust},
		{name: "Rust and C", files: []string{"acme.rs", "acme.c"}, err: "one in C (acme.c) and one in Rust (acme.rs): put each into a directory of its own"},
		{name: "a C file and AssemblyScript", files: []string{"acme.c", "asconfig.json", "package.json"}, err: "put each into a directory of its own"},
		{name: "AssemblyScript without a version", files: []string{"acme.ts", "asconfig.json"}, err: "no package.json, which names the version"},
		{name: "a program for Node.js", files: []string{"acme.ts", "package.json"}, err: "has no plugin"},
		{name: "a header only", files: []string{"keywright.h"}, err: "has no plugin"},
		{name: "a hidden file of an editor", files: []string{".#acme.c"}, err: "has no plugin"},
		{name: "nothing", err: "has no plugin: there is neither a Go file nor a C file nor a Rust file, nor asconfig.json"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			files := map[string]string{"README.md": ""}
			for _, name := range test.files {
				files[name] = ""
			}
			got, err := LanguageOf(writeFiles(t, "acme", files))
			if got != test.want || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("language %q, error %v; want %q, error with %q", got, err, test.want, test.err)
			}
		})
	}
}

// A source that was written after the module is named. What is no source is not.
func TestNewer(t *testing.T) {
	tests := []struct {
		name  string
		files []string
		newer []string
		want  string
	}{
		{name: "C", files: []string{"acme.c", "keywright.h", "keywright.cfg"}, newer: []string{"acme.c"}, want: "acme.c"},
		{name: "a header", files: []string{"acme.c", "keywright.h", "keywright.cfg"}, newer: []string{"keywright.h"}, want: "keywright.h"},
		{name: "options", files: []string{"acme.c", "keywright.cfg"}, newer: []string{"keywright.cfg"}, want: "keywright.cfg"},
		{name: "AssemblyScript", files: []string{"acme.ts", "asconfig.json", "package.json"}, newer: []string{"acme.ts"}, want: "acme.ts"},
		{name: "Rust", files: []string{"acme.rs", "keywright.args"}, newer: []string{"keywright.args"}, want: "keywright.args"},
		{name: "Go", files: []string{"main.go", "main_test.go"}, newer: []string{"main.go"}, want: "main.go"},
		{name: "a test", files: []string{"main.go", "main_test.go"}, newer: []string{"main_test.go", "cases.yaml"}},
		{name: "nothing", files: []string{"acme.c", "keywright.cfg"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			files := map[string]string{"acme.wasm": "", "cases.yaml": ""}
			for _, name := range test.files {
				files[name] = ""
			}
			dir := writeFiles(t, "acme", files)
			built := time.Date(2026, time.January, 2, 3, 4, 5, 0, time.UTC)
			for name := range files {
				at := built
				if slices.Contains(test.newer, name) {
					at = built.Add(time.Second)
				}
				testworld.Check(t, os.Chtimes(filepath.Join(dir, name), at, at))
			}
			if got, err := Newer(dir); got != test.want || err != nil {
				t.Errorf("%q, %v; want %q", got, err, test.want)
			}
		})
	}
}

func TestLanguageOfFile(t *testing.T) {
	file := filepath.Join(writeFiles(t, "acme", map[string]string{"acme.c": ""}), "acme.c")
	for _, dir := range []string{file, file + ".not"} {
		if _, err := LanguageOf(dir); err == nil || !strings.HasPrefix(err.Error(), "plugin directory: ") {
			t.Errorf("%s: error %v", dir, err)
		}
	}
}

func TestFindClang(t *testing.T) {
	wasmLD := script(t, t.TempDir(), "wasm-ld-test", "")
	clang := func(version, linker string) string {
		return `case "$*" in --version) echo Some clang version ` + version + `;; *-###*) echo ' "clang" "-cc1"'; echo ' "` + linker + `" "-m" "wasm32"';; esac`
	}
	tests := []struct {
		name     string
		programs map[string]string
		want     string // the name of the clang to find
		errors   []string
	}{
		{name: "the tested one first", programs: map[string]string{"clang": clang("21.1.0", wasmLD), "clang-19": clang("19.1.7", wasmLD)}, want: "clang-19"},
		{name: "the user's", programs: map[string]string{"clang": clang("17.0.6", wasmLD), "clang-16": clang("16.0.6", wasmLD)}, want: "clang"},
		{name: "a later one, as the user's is too old", programs: map[string]string{"clang": clang("14.0.6", wasmLD), "clang-16": clang("16.0.6", wasmLD)}, want: "clang-16"},
		{name: "a linker on PATH", programs: map[string]string{"clang": clang("20.1.0", "wasm-ld-20"), "wasm-ld-20": ""}, want: "clang"},
		{name: "none", errors: []string{"no clang found on PATH", "apt-get install --no-install-recommends clang-19 lld-19"}},
		{name: "too old", programs: map[string]string{"clang": clang("14.0.6", wasmLD)}, errors: []string{"is clang 14, and 16 or later is needed", "apt-get install"}},
		{name: "no linker", programs: map[string]string{"clang-19": clang("19.1.7", "wasm-ld-19")}, want: "clang-19", errors: []string{"wasm-ld is missing", "lld-19"}},
		{name: "no clang", programs: map[string]string{"clang": "echo gcc 12"}, errors: []string{"is not a clang", "gcc 12"}},
		{name: "it fails", programs: map[string]string{"clang": "echo no library >&2; exit 3"}, errors: []string{"--version", "no library"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, body := range test.programs {
				script(t, dir, name, body)
			}
			t.Setenv("PATH", dir)
			c, err := FindClang(t.Context())
			if filepath.Base(c.Path) != filepath.Base(test.want) || test.want != "" && c.Language != C {
				t.Errorf("found %q for %q, want %q", c.Path, c.Language, test.want)
			}
			wantErrors(t, err, test.errors)
		})
	}
}

func wantErrors(t *testing.T, err error, parts []string) {
	t.Helper()
	if (err == nil) != (len(parts) == 0) {
		t.Fatalf("error %v, want one with %q", err, parts)
	}
	for _, want := range parts {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

// cSources are the files of a plugin in C. They show the place of the sources, which must not get into the module.
func cSources(t *testing.T) map[string]string {
	t.Helper()
	options := testworld.Must(os.ReadFile("../../sdk/c/keywright.cfg"))(t)
	return map[string]string{
		"keywright.cfg": string(options),
		"acme.c": `#include <part.h>
__attribute__((import_module("extism:host/user"), import_name("block_new"))) unsigned long long block_new(const void *at, unsigned length);
__attribute__((export_name("describe"))) int describe(void) { return block_new(place, sizeof __FILE__) + part(); }
`,
		"part.c": "#include \"part.h\"\nint part(void) { return 42; }\n",
		"part.h": "__attribute__((unused)) static const char *const place = __FILE__;\nint part(void);\n",
	}
}

func realClang(t *testing.T) Compiler {
	t.Helper()
	c, err := FindClang(t.Context())
	if err != nil {
		t.Fatalf("%v (in this repository: make deps)", err)
	}
	return c
}

// The bytes depend neither on the place of the sources nor on wasm-opt, which clang runs if it is there.
func TestCompileWithClang(t *testing.T) {
	c := realClang(t)
	files := cSources(t)
	wasm := testworld.Must(c.Compile(t.Context(), writeFiles(t, "acme", files)))(t)
	t.Setenv("PATH", filepath.Dir(script(t, t.TempDir(), "wasm-opt", "exit 3"))+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Chdir(writeFiles(t, "acme", files))
	again := testworld.Must(c.Compile(t.Context(), "."))(t)
	if !bytes.Equal(wasm, again) {
		t.Errorf("the same sources make %d bytes in one directory, and other %d bytes in another", len(wasm), len(again))
	}
}

func TestCompileWithClangFails(t *testing.T) {
	tests := []struct {
		name, file, text string
		errors           []string
	}{
		{"a syntax error", "acme.c", "int describe(void) {\n\treturn 1\n}\n", []string{"compile the plugin in ", "acme.c:2:10: error: expected ';'"}},
		{"a warning", "acme.c", "#include \"part.h\"\nint part(void) { int x; return 1; }\n", []string{"acme.c:2:22: error: unused variable 'x'"}},
		{"the time of the build", "part.c", "const char *part(void) { return __DATE__; }\n", []string{"part.c:1:33: error: expansion of date or time macro is not reproducible"}},
		{"two that are the plugin", "part.c", "int part(void) { return 1; }\nint describe(void) { return 1; }\n", []string{"duplicate symbol: describe"}},
		{"no options", "keywright.cfg", "", []string{"keywright.cfg is missing in ", "copy it from sdk/c"}},
	}
	c := realClang(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			files := cSources(t)
			if files[test.file] = test.text; test.text == "" {
				delete(files, test.file)
			}
			_, err := c.Compile(t.Context(), writeFiles(t, "acme", files))
			wantErrors(t, err, test.errors)
		})
	}
}

func TestEndlessClang(t *testing.T) {
	c := Compiler{Path: script(t, t.TempDir(), "clang", "exec sleep 600"), Language: C, patience: time.Millisecond}
	_, err := c.Compile(t.Context(), writeFiles(t, "acme", cSources(t)))
	wantErrors(t, err, []string{errSlow.Error()})
}

// A module in C has no digest of its sources, so Check compiles to compare.
func TestCheckComparesAModuleInC(t *testing.T) {
	c, dir := realClang(t), writeFiles(t, "acme", cSources(t))
	wantErrors(t, c.Check(t.Context(), dir), []string{"acme.wasm is missing"})
	testworld.Check(t, c.Build(t.Context(), dir))
	wantErrors(t, c.Check(t.Context(), dir), nil)
	testworld.Check(t, os.WriteFile(filepath.Join(dir, "part.c"), []byte("int part(void);\nint part(void) { return 43; }\n"), 0o600))
	wantErrors(t, c.Check(t.Context(), dir), []string{"acme.wasm differs from what its sources give with clang version ", "build it again"})
}

// The crate of a plugin in Rust is its only file beside the SDK, or the file with the directory's name.
func TestRustArguments(t *testing.T) {
	for _, c := range []struct {
		name, want, err string
		files           []string
	}{
		{name: "one file", files: []string{"plugin.rs", "keywright.rs", "keywright.args"}, want: "./plugin.rs"},
		{name: "modules beside it", files: []string{"acme.rs", "a.rs", "keywright.rs", "keywright.args"}, want: "./acme.rs"},
		{name: "no file with the name", files: []string{"a.rs", "b.rs", "keywright.args"}, err: "has several Rust files and none is acme.rs"},
		{name: "the SDK alone", files: []string{"keywright.rs", "keywright.args"}, err: "none is acme.rs"},
		{name: "no options", files: []string{"acme.rs"}, err: "keywright.args is missing in "},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := map[string]string{}
			for _, name := range c.files {
				files[name] = ""
			}
			dir := writeFiles(t, "acme", files)
			arguments, err := rustArguments(dir, dir, "out.wasm")
			if c.err != "" {
				wantErrors(t, err, []string{c.err})
				return
			}
			testworld.Check(t, err)
			if got := arguments[len(arguments)-1]; got != c.want || arguments[0] != "@keywright.args" {
				t.Errorf("the arguments are %q, want the crate %s", arguments, c.want)
			}
		})
	}
}

// A rustc without the target of WebAssembly is passed over, and the error says what to install.
func TestFindRust(t *testing.T) {
	c, err := FindRust(t.Context())
	if err != nil || c.Path != rustcs[0] || !strings.HasPrefix(c.Version, "rustc 1.") || c.Language != Rust {
		t.Errorf("the compiler is %+v, error %v; want Debian's (make deps installs it)", c, err)
	}
	defer func(was []string) { rustcs = was }(rustcs)
	dir := t.TempDir()
	script(t, dir, "rustc", "echo /nowhere")
	rustcs = []string{filepath.Join(dir, "rustc"), filepath.Join(dir, "missing")}
	_, err = FindRust(t.Context())
	wantErrors(t, err, []string{"rustc has no library for wasm32-unknown-unknown", "apt-get install --no-install-recommends rustc libstd-rust-dev-wasm32 lld-14"})
}

// fakeNPM puts an npm on PATH that installs a compiler, and writes its arguments into the file npm.txt of the plugin.
func fakeNPM(t *testing.T, body string) {
	t.Helper()
	dir := t.TempDir()
	for _, tool := range []string{"mkdir", "chmod", "cat"} {
		path := testworld.Must(exec.LookPath(tool))(t)
		testworld.Check(t, os.Symlink(path, filepath.Join(dir, tool)))
	}
	script(t, dir, "node", "")
	if body != "" {
		script(t, dir, "npm", `echo "$*" >npm.txt; `+body)
	}
	t.Setenv("PATH", dir)
}

const installsASC = `mkdir -p node_modules/.bin && cat >node_modules/.bin/asc <<'END' && chmod +x node_modules/.bin/asc
#!/bin/sh
echo Version 0.27.32
END`

func TestFindAssemblyScript(t *testing.T) {
	tests := []struct {
		name, npm string
		locked    bool
		command   string // that begin gets
		arguments string // that npm gets
		errors    []string
	}{
		{name: "with a lock file", npm: installsASC, locked: true, command: "npm ci", arguments: "ci --ignore-scripts --no-audit --no-fund\n"},
		{name: "without a lock file", npm: installsASC, command: "npm install", arguments: "install --ignore-scripts --no-audit --no-fund\n"},
		{name: "no npm", locked: true, errors: []string{"npm is not on PATH", "apt-get install --no-install-recommends nodejs npm"}},
		{name: "npm fails", npm: "echo no network; exit 1", locked: true, command: "npm ci", arguments: "ci --ignore-scripts --no-audit --no-fund\n", errors: []string{"npm ci in ", "no network"}},
		{name: "no AssemblyScript", npm: "mkdir node_modules", command: "npm install", arguments: "install --ignore-scripts --no-audit --no-fund\n", errors: []string{"package.json does not name assemblyscript"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			files := map[string]string{"package.json": "{}", "asconfig.json": "{}"}
			if test.locked {
				files["package-lock.json"] = "{}"
			}
			dir := writeFiles(t, "acme", files)
			fakeNPM(t, test.npm)
			var command string
			c, err := FindAssemblyScript(t.Context(), dir, func(c string) { command = c })
			wantErrors(t, err, test.errors)
			if err == nil && (c.Version != "AssemblyScript 0.27.32" || c.Language != AssemblyScript) {
				t.Errorf("found %q for %q", c.Version, c.Language)
			}
			arguments, _ := os.ReadFile(filepath.Join(dir, "npm.txt"))
			if command != test.command || string(arguments) != test.arguments {
				t.Errorf("it ran %q with %q, want %q with %q", command, arguments, test.command, test.arguments)
			}
		})
	}
}

func TestInstalledAssemblyScript(t *testing.T) {
	dir := writeFiles(t, "acme", map[string]string{"package.json": "{}", "asconfig.json": "{}"})
	script(t, filepath.Join(dir, "node_modules/.bin"), "asc", "echo Version 0.28.1")
	fakeNPM(t, "")
	t.Chdir(filepath.Dir(dir))
	c, err := FindAssemblyScript(t.Context(), "acme", func(string) { t.Error("npm was run") })
	if err != nil || c.Version != "AssemblyScript 0.28.1" || !filepath.IsAbs(c.Path) {
		t.Errorf("found %q at %q, %v", c.Version, c.Path, err)
	}
	t.Setenv("PATH", t.TempDir())
	_, err = FindAssemblyScript(t.Context(), "acme", func(string) {})
	wantErrors(t, err, []string{"node is not on PATH", "nodejs"})
}
