package pluginbuild

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/keywright/keywright/internal/testworld"
)

// buildCache is the directory in which `make tinygo` installs the compiler.
const buildCache = "../../.build"

// script writes an executable shell script and returns its path.
func script(t *testing.T, dir, name, body string) string {
	t.Helper()
	testworld.Check(t, os.MkdirAll(dir, 0o755))
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil { //nolint:gosec // it is to be run
		t.Fatal(err)
	}
	return path
}

func realCompiler(t *testing.T) Compiler {
	t.Helper()
	c, err := FindCompiler(t.Context(), buildCache)
	if err != nil {
		t.Fatalf("%v (in this repository: make tinygo)", err)
	}
	return c
}

func TestFindCompiler(t *testing.T) {
	says := func(version string) string { return "echo tinygo version " + version + " linux/amd64" }
	tests := []struct {
		name             string
		variable, onPath string // bodies of scripts
		cached           string
		want             string // the directory of the compiler to find
		errors           []string
		noCache          bool
	}{
		{name: "on PATH", onPath: says("0.41.1"), want: "path"},
		{name: "on PATH before the cache", onPath: says("0.42.0"), cached: says("0.41.1"), want: "path"},
		{name: "a development version", onPath: says("1.0.0-dev"), want: "path"},
		{name: "the variable before all", variable: says("0.41.0"), onPath: says("0.41.1"), cached: says("0.41.1"), want: "variable"},
		{name: "the cache", cached: says("0.41.1"), want: "cache"},
		{name: "the cache, as what is on PATH is too old", onPath: says("0.40.1"), cached: says("0.41.1"), want: "cache"},
		{name: "none", errors: []string{"no TinyGo 0.41 or later found", CompilerVariable, "make tinygo"}},
		{name: "none, and no cache to look at", cached: says("0.41.1"), noCache: true, errors: []string{"no TinyGo 0.41 or later found"}},
		{name: "too old on PATH", onPath: says("0.9.0"), errors: []string{"on PATH", "is TinyGo 0.9", "make tinygo"}},
		{name: "too old in the variable", variable: says("0.40.1"), onPath: says("0.41.1"), errors: []string{CompilerVariable, "0.41 or later is needed"}},
		{name: "not TinyGo", variable: "echo go version go1.26.8", errors: []string{CompilerVariable, "is not a TinyGo", "go1.26.8"}},
		{name: "it fails", variable: "echo no library >&2; exit 3", errors: []string{CompilerVariable, "no library"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			top := t.TempDir()
			in := func(dir string) string { return filepath.Join(top, dir) }
			t.Setenv("PATH", in("path"))
			t.Setenv(CompilerVariable, "")
			cache := in("cache")
			found := map[string]string{"path": in("path/tinygo"), "variable": in("variable/tinygo"), "cache": in("cache/tinygo-" + Pinned + "/bin/tinygo")}
			for dir, body := range map[string]string{"path": test.onPath, "variable": test.variable, "cache": test.cached} {
				if body != "" {
					script(t, filepath.Dir(found[dir]), "tinygo", body)
				}
			}
			if test.variable != "" {
				t.Setenv(CompilerVariable, found["variable"])
			}
			caches := []string{in("none"), cache}
			if test.noCache {
				caches = nil
			}
			c, err := findTinyGo(t.Context(), caches...)
			if c.Path != found[test.want] {
				t.Errorf("found %q, want %q", c.Path, found[test.want])
			}
			if (err == nil) != (len(test.errors) == 0) {
				t.Fatalf("error %v", err)
			}
			for _, want := range test.errors {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

func TestFindCompilerInARelativeDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	script(t, "cache/tinygo-"+Pinned+"/bin", "tinygo", "echo tinygo version 0.41.1")
	t.Setenv("PATH", t.TempDir())
	t.Setenv(CompilerVariable, "")
	c, err := findTinyGo(t.Context(), "cache")
	if err != nil || !filepath.IsAbs(c.Path) {
		t.Errorf("found %q, %v: it is to run in another directory", c.Path, err)
	}
}

func TestMissingArchives(t *testing.T) {
	there := script(t, t.TempDir(), "libc.a", "")
	err := requireFiles([]linkFile{{there, "wasi-libc"}, {there + ".not", "lld-19"}, {"/nowhere", "binaryen"}})
	if err == nil || !strings.HasSuffix(err.Error(), "apt-get install --no-install-recommends lld-19 binaryen") {
		t.Errorf("error %v", err)
	}
}

// copying returns a compiler that copies a finished module, so that tests of the builder are fast.
func copying(t *testing.T, wasm string) Compiler {
	body := `while [ "$1" != -o ]; do shift; done; cp ` + wasm + ` "$2"`
	return Compiler{Path: script(t, t.TempDir(), "tinygo", body), Version: "tinygo version 0.41.1"}
}

func TestCheck(t *testing.T) {
	wasm := filepath.Join(t.TempDir(), "out.wasm")
	setOutput := func(t *testing.T, content string) {
		t.Helper()
		testworld.Check(t, os.WriteFile(wasm, []byte(content), 0o600))
	}
	tests := []struct {
		name  string
		after func(t *testing.T, dir string) // runs between build and check
		want  string                         // part of the error; "" for no error
	}{
		{"nothing changed", func(*testing.T, string) {}, ""},
		{"a source changed", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "note.txt"), "another note")
		}, "echo.wasm is stale"},
		{"the compiler gives other bytes", func(t *testing.T, _ string) {
			setOutput(t, wasmHeader+"\x01\x01\x00")
		}, "echo.wasm differs from what its sources give with tinygo version 0.41.1"},
		{"the module was altered", func(t *testing.T, dir string) {
			path := filepath.Join(dir, "echo.wasm")
			content := testworld.Must(os.ReadFile(path))(t)
			write(t, path, string(content[:8])+"\x00\x02\x01n"+string(content[8:]))
		}, "echo.wasm differs from what its sources give"},
		{"the module is another file", func(t *testing.T, dir string) {
			write(t, filepath.Join(dir, "echo.wasm"), "text")
		}, "echo.wasm: no keywright.sources section"},
		{"the module is gone", func(t *testing.T, dir string) {
			testworld.Check(t, os.Remove(filepath.Join(dir, "echo.wasm")))
		}, "echo.wasm is missing"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := writeFiles(t, "echo", pluginSources)
			setOutput(t, wasmHeader)
			c := copying(t, wasm)
			testworld.Check(t, c.Build(t.Context(), dir))
			test.after(t, dir)
			err := c.Check(t.Context(), dir)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	testworld.Check(t, os.WriteFile(path, []byte(content), 0o600))
}

func TestFailedBuildKeepsModule(t *testing.T) {
	dir := writeFiles(t, "echo", pluginSources)
	old := filepath.Join(dir, "echo.wasm")
	write(t, old, "old")
	c := Compiler{Path: script(t, t.TempDir(), "tinygo", "echo main.go:3: undefined: x; exit 1")}
	err := c.Build(t.Context(), dir)
	if err == nil || !strings.Contains(err.Error(), "compile the plugin in "+dir) || !strings.Contains(err.Error(), "main.go:3: undefined: x") {
		t.Errorf("error %v", err)
	}
	if content, _ := os.ReadFile(old); string(content) != "old" {
		t.Errorf("the module is now %q", content)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestBuildStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := Compiler{Path: "/bin/true"}.Build(ctx, writeFiles(t, "echo", pluginSources))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// A compilation that does not end is stopped: an init function that loops makes the compiler loop (threats.md 69).
func TestEndlessCompiler(t *testing.T) {
	c := Compiler{Path: script(t, t.TempDir(), "tinygo", "exec sleep 600"), patience: time.Millisecond}
	_, err := c.Compile(t.Context(), writeFiles(t, "echo", pluginSources))
	if !errors.Is(err, errEndless) || !strings.Contains(err.Error(), "init") {
		t.Errorf("error %v", err)
	}
}

// Two checkouts produce the same bytes. The module imports only its own imports and those of a panic, and its export works.
func TestCompileWithTinyGo(t *testing.T) {
	c := realCompiler(t)
	dir, other := writeFiles(t, "echo", pluginSources), writeFiles(t, "other", pluginSources)
	testworld.Check(t, c.Build(t.Context(), dir))
	wasm := testworld.Must(os.ReadFile(filepath.Join(dir, "echo.wasm")))(t)
	again := testworld.Must(c.Compile(t.Context(), other))(t)
	if !slices.Equal(wasm, again) {
		t.Error("the same sources elsewhere give other bytes")
	}
	recorded, err := RecordedDigest(wasm)
	if err != nil || recorded != digest(t, dir) {
		t.Errorf("recorded digest %q, %v; the sources' is %q", recorded, err, digest(t, dir))
	}

	runtime := wazero.NewRuntime(t.Context())
	defer runtime.Close(t.Context())
	compiled := testworld.Must(runtime.CompileModule(t.Context(), wasm))(t)
	for _, f := range compiled.ImportedFunctions() {
		if module, name, _ := f.Import(); module != "extism:host/env" && name != "block_new" {
			t.Errorf("it imports %s %s", module, name)
		}
	}
	kernel := runtime.NewHostModuleBuilder("extism:host/env")
	kernel.NewFunctionBuilder().WithFunc(func() uint64 { return 10 }).Export("input_length")
	kernel.NewFunctionBuilder().WithFunc(func(uint64) {}).Export("log_error")
	user := runtime.NewHostModuleBuilder("extism:host/user")
	user.NewFunctionBuilder().WithFunc(func(uint32, uint32) uint64 { return 0 }).Export("block_new")
	for _, module := range []wazero.HostModuleBuilder{kernel, user} {
		testworld.Must(module.Instantiate(t.Context()))(t)
	}
	guest := testworld.Must(runtime.InstantiateModule(t.Context(), compiled, wazero.NewModuleConfig().WithStartFunctions("_initialize")))(t)
	got, err := guest.ExportedFunction("authenticate").Call(t.Context())
	if err != nil || len(got) != 1 || got[0] != 10+6+4 {
		t.Errorf("authenticate results in %v, %v", got, err)
	}
}

func TestCompileError(t *testing.T) {
	files := map[string]string{"go.mod": pluginSources["go.mod"], "main.go": "package main\n\nfunc main() { lost() }\n"}
	_, err := realCompiler(t).Compile(t.Context(), writeFiles(t, "broken", files))
	testworld.WantError(t, "", err, "main.go:3:15: undefined: lost")
}

// The build tags of the digest are those of TinyGo. They are repeated in the code because the digest does not need TinyGo.
func TestBuildTags(t *testing.T) {
	target := filepath.Join(t.TempDir(), "keywright.json")
	write(t, target, string(targetJSON))
	out, err := exec.CommandContext(t.Context(), realCompiler(t).Path, "info", "-target="+target).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: out = %s", err, out)
	}
	var tags []string
	for line := range strings.Lines(string(out)) {
		if list, ok := strings.CutPrefix(line, "build tags:"); ok {
			tags = slices.DeleteFunc(strings.Fields(list), func(tag string) bool { return strings.HasPrefix(tag, "go1.") })
		}
	}
	slices.Sort(tags)
	want := slices.Sorted(slices.Values(buildTags))
	if !slices.Equal(tags, want) {
		t.Errorf("TinyGo's tags are %q, the digest's %q", tags, want)
	}
}

func TestPinnedVersion(t *testing.T) {
	if want := fmt.Sprintf("github.com/tinygo-org/tinygo %s", Pinned); !strings.Contains(string(tinygoMod), want) {
		t.Errorf("tinygo.mod does not have %q", want)
	}
}

// A TinyGo that is there, the user's own or one of an earlier time, is not built again. The latter sends panics to the log.
func TestInstallOnce(t *testing.T) {
	cache, path := t.TempDir(), t.TempDir()
	t.Setenv(CompilerVariable, "")
	install := func() error {
		return Install(t.Context(), cache, func() { t.Error("it is built") })
	}
	script(t, path, "tinygo", "echo tinygo version 0.41.1")
	t.Setenv("PATH", path+":"+os.Getenv("PATH"))
	testworld.Check(t, install())
	t.Setenv("PATH", "/usr/bin:/bin")
	script(t, filepath.Join(cache, "tinygo-"+Pinned, "bin"), "tinygo", "echo tinygo version 0.41.1")
	runtime := filepath.Join(cache, "tinygo-"+Pinned, "src", "runtime")
	testworld.Check(t, os.MkdirAll(runtime, 0o755))
	of := filepath.Join(runtime, "runtime_tinygowasm_unknown.go")
	testworld.Check(t, os.WriteFile(of, []byte("func putchar(c byte) {\n}\n"), 0o600))
	for range 2 {
		testworld.Check(t, install())
		text, err := os.ReadFile(of)
		if added, _ := os.ReadFile(filepath.Join(runtime, "keywright_panic.go")); err != nil || string(text) != "func putchar(c byte) { logChar(c)\n}\n" || !bytes.Equal(added, panicSource) {
			t.Errorf("the runtime is %q, %v", text, err)
		}
	}
	t.Setenv(CompilerVariable, filepath.Join(cache, "none"))
	testworld.WantError(t, "with a variable that names nothing", install(), CompilerVariable)
}

// A TinyGo that is built is in the cache, also if that is a relative directory or has a part of one.
func TestInstallInARelativeDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	source, path := t.TempDir(), t.TempDir()
	half := "cache/tinygo-" + Pinned + "/src" // of a build that was not finished
	for _, dir := range []string{filepath.Join(source, "src/runtime"), filepath.Join(source, "targets"), half} {
		testworld.Check(t, os.MkdirAll(dir, 0o755))
	}
	testworld.Check(t, os.WriteFile(filepath.Join(source, "src/runtime/runtime_tinygowasm_unknown.go"), []byte("func putchar(c byte) {\n}\n"), 0o600))
	// A go command whose builds are a TinyGo at once: go build -tags TAGS -o FILE MODULE.
	script(t, path, "go", `case $1 in
list) echo `+source+` ;;
build) mkdir -p "$(dirname "$5")"; printf '#!/bin/sh\necho tinygo version 0.41.1\n' >"$5"; chmod 755 "$5" ;;
esac`)
	t.Setenv("PATH", path+":/usr/bin:/bin")
	t.Setenv(CompilerVariable, "")
	testworld.Check(t, Install(t.Context(), "cache", func() {}))
	if _, err := findTinyGo(t.Context(), "cache"); err != nil {
		t.Error(err)
	}
}

// With a TinyGo of the user, only the packages that plugins are linked with are needed.
func TestPackages(t *testing.T) {
	t.Setenv(CompilerVariable, "")
	t.Setenv("PATH", t.TempDir())
	link := []string{"wasi-libc", "libclang-rt-19-dev-wasm32", "lld-19"}
	if got := Packages(t.Context()); len(got) < 8 || !slices.Equal(got[:3], link) || !slices.Contains(got, "llvm-19-dev") {
		t.Errorf("without TinyGo: %q", got)
	}
	t.Setenv(CompilerVariable, script(t, t.TempDir(), "tinygo", "echo tinygo version 0.41.1"))
	if got := Packages(t.Context()); !slices.Equal(got, link) {
		t.Errorf("with a TinyGo: %q", got)
	}
}
