package pluginbuild

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Pinned is the version of TinyGo that [Install] builds, and that compiles the project's own plugins.
const Pinned = "v0.41.1"

// CompilerVariable is the name of an environment variable. If it is set, it holds the path of the compiler to use.
const CompilerVariable = "KEYWRIGHT_TINYGO"

// The oldest version of TinyGo that supports go:wasmexport in reactor modules as the SDK needs it.
const minMajor, minMinor = 0, 41

// llvmBin is the directory in which Debian installs wasm-ld under the name that TinyGo calls.
const llvmBin = "/usr/lib/llvm-19/bin"

// targetJSON is TinyGo's wasm-unknown target, linked with Debian's C library and compiler runtime, because TinyGo's Go
// module does not include the sources of its own.
//
//go:embed keywright.json
var targetJSON []byte

// linkFile is a file, or a program on PATH, and the Debian package that contains it.
type linkFile struct{ path, debian string }

func (f linkFile) isThere() bool {
	_, err := exec.LookPath(f.path)
	if filepath.IsAbs(f.path) {
		_, err = os.Stat(f.path)
	}
	return err == nil
}

var linkFiles = []linkFile{
	{"/usr/lib/wasm32-wasi/libc.a", "wasi-libc"},
	{"/usr/lib/llvm-19/lib/clang/19/lib/wasi/libclang_rt.builtins-wasm32.a", "libclang-rt-19-dev-wasm32"},
	{llvmBin + "/wasm-ld", "lld-19"},
}

// Compiler builds the plugins of one language: it is a TinyGo, a clang, a rustc, or the AssemblyScript of one plugin.
type Compiler struct {
	// Path is the absolute path of the executable.
	Path string
	// Version is the compiler's own text about its version. That of TinyGo has the versions of TinyGo, Go and LLVM.
	Version string
	// Language is the language of the plugins. If it is empty, that is Go.
	Language Language

	// If Accept is not nil, Build calls it with each module before it writes the module. Accept returns the names of the
	// fields whose values the plugin gets sealed, or an error if no host would load the module.
	Accept func(ctx context.Context, name string, wasm []byte) (sealed []string, err error)
	// Guest means that the module is not a plugin: its sources are not checked, and it prints no panics, because its host may have no log.
	Guest bool

	// If patience is not zero, it replaces the constant patience. Tests set it.
	patience time.Duration
}

func (c Compiler) String() string { return c.Version }

// FindCompiler returns the TinyGo to build with. If the environment variable [CompilerVariable] is set, that is the compiler
// that it names. Otherwise it is the one on PATH if that is new enough, or else the one that [Install] has built in one of
// caches. The error says what to install, also if only a file to link with is missing.
func FindCompiler(ctx context.Context, caches ...string) (Compiler, error) {
	c, err := findTinyGo(ctx, caches...)
	if err != nil {
		return Compiler{}, err
	}
	return c, requireFiles(linkFiles)
}

func findTinyGo(ctx context.Context, caches ...string) (Compiler, error) {
	if path := os.Getenv(CompilerVariable); path != "" {
		c, err := probe(ctx, path)
		if err != nil {
			err = fmt.Errorf("%s: %w", CompilerVariable, err)
		}
		return c, err
	}
	var onPath error
	if _, err := exec.LookPath("tinygo"); err == nil {
		c, err := probe(ctx, "tinygo")
		if err == nil {
			return c, nil
		}
		onPath = fmt.Errorf("tinygo on PATH: %w", err)
	}
	for _, cache := range caches {
		if _, err := os.Stat(compilerIn(cache)); err == nil {
			return probe(ctx, compilerIn(cache))
		}
	}
	advice := fmt.Errorf("no TinyGo %d.%d or later found: put one on PATH, name it in %s, or run `keywright plugin build`, which builds one, or `make tinygo` in a checkout of Keywright",
		minMajor, minMinor, CompilerVariable)
	return Compiler{}, errors.Join(onPath, advice)
}

// probe runs a compiler to get its version. It returns an error if the version is too old.
func probe(ctx context.Context, path string) (Compiler, error) {
	path, err := exec.LookPath(path)
	if err == nil {
		path, err = filepath.Abs(path) // the compiler will run in the plugin's directory
	}
	if err != nil {
		return Compiler{}, fmt.Errorf("find the compiler: %w", err)
	}
	output, err := exec.CommandContext(ctx, path, "version").CombinedOutput()
	if err != nil {
		return Compiler{}, commandError(ctx, path+" version", err, output)
	}
	version := strings.TrimSpace(string(output))
	var major, minor int
	if _, err := fmt.Sscanf(version, "tinygo version %d.%d", &major, &minor); err != nil {
		return Compiler{}, fmt.Errorf("%s is not a TinyGo: it calls itself %.80q", path, version)
	}
	if major < minMajor || major == minMajor && minor < minMinor {
		return Compiler{}, fmt.Errorf("%s is TinyGo %d.%d, and %d.%d or later is needed", path, major, minor, minMajor, minMinor)
	}
	return Compiler{Path: path, Version: version}, nil
}

// requireFiles returns an error with the Debian packages to install if a file is missing.
func requireFiles(files []linkFile) error {
	packages := packagesOf(slices.DeleteFunc(slices.Clone(files), linkFile.isThere))
	if len(packages) == 0 {
		return nil
	}
	return fmt.Errorf("what plugins are built with is missing, it comes with Debian 12 or later: apt-get install --no-install-recommends %s", strings.Join(packages, " "))
}

const tinygoModule = "github.com/tinygo-org/tinygo"

// The go.mod and go.sum of the module in which Install builds TinyGo.
var (
	//go:embed tinygo.mod
	tinygoMod []byte
	//go:embed tinygo.sum
	tinygoSum []byte
)

// panicSource is added to TinyGo's runtime, so that the text of a plugin's panic goes to the log of the host.
//
//go:embed panic.go.txt
var panicSource []byte

// buildFiles lists the files and programs with which TinyGo is built, or which it runs, beside linkFiles.
var buildFiles = []linkFile{
	{"g++", "g++"},
	{"/usr/lib/llvm-19/bin/clang", "clang-19"},
	{"/usr/lib/llvm-19/include/llvm-c/Core.h", "llvm-19-dev"},
	{"/usr/lib/llvm-19/include/clang-c/Index.h", "libclang-19-dev"},
	{"wasm-opt", "binaryen"},
}

// Cache returns the directory in the user's cache in which `keywright plugin build` keeps TinyGo.
func Cache() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("a directory for TinyGo: %w: name a TinyGo in %s", err, CompilerVariable)
	}
	return filepath.Join(cache, "keywright"), nil
}

// Packages returns the Debian packages that this machine needs to build plugins. If the user has a TinyGo, they are those that
// plugins are linked with, and otherwise those that TinyGo is built with, too.
func Packages(ctx context.Context) []string {
	if _, err := findTinyGo(ctx); err != nil {
		return Go.Packages()
	}
	return packagesOf(linkFiles)
}

func packagesOf(files []linkFile) (names []string) {
	for _, f := range files {
		names = append(names, f.debian)
	}
	return names
}

// Install builds the version Pinned of TinyGo in the directory cache, unless it is there already or the user has a TinyGo that is
// new enough. That takes about two minutes. If it has to build, it calls begin before.
func Install(ctx context.Context, cache string, begin func()) error {
	switch _, err := findTinyGo(ctx); {
	case err == nil:
		return requireFiles(linkFiles)
	case os.Getenv(CompilerVariable) != "":
		return err
	}
	if err := requireFiles(slices.Concat(linkFiles, buildFiles)); err != nil {
		return err
	}
	if _, err := os.Stat(compilerIn(cache)); err == nil {
		return patch(rootIn(cache)) // an earlier version of Keywright may have changed it in another way
	}
	begin()
	if err := build(ctx, cache); err != nil {
		return fmt.Errorf("build TinyGo: %w", err)
	}
	return nil
}

func build(ctx context.Context, cache string) error {
	cache, err := filepath.Abs(cache) // go build runs in another directory
	if err != nil {
		return err
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(cache, "tinygo-new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(fresh) //nolint:errcheck // a directory that stays behind harms nobody
	if err := buildTinyGo(ctx, fresh); err != nil {
		return err
	}
	if _, err := os.Stat(compilerIn(cache)); err != nil {
		_ = os.RemoveAll(rootIn(cache)) // a directory without the compiler: os.Rename reports it if it is still there
	}
	if err := os.Rename(fresh, rootIn(cache)); err != nil {
		if _, there := os.Stat(compilerIn(cache)); there != nil { // otherwise another process was faster
			return err
		}
	}
	return nil
}

func rootIn(cache string) string     { return filepath.Join(cache, "tinygo-"+Pinned) }
func compilerIn(cache string) string { return filepath.Join(rootIn(cache), "bin", "tinygo") }

// buildTinyGo builds TinyGo in a directory that is its TINYGOROOT. It is linked with Debian's LLVM.
func buildTinyGo(ctx context.Context, root string) error {
	module, err := os.MkdirTemp("", "keywright-tinygo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(module) //nolint:errcheck // a temporary directory that stays behind harms nobody
	for name, text := range map[string][]byte{"go.mod": tinygoMod, "go.sum": tinygoSum} {
		if err := os.WriteFile(filepath.Join(module, name), text, 0o600); err != nil {
			return err
		}
	}
	// The workspace and the flags of the user do not count.
	variables := []string{"GOWORK=off", "GOFLAGS=-mod=mod -trimpath", "CGO_ENABLED=1", "GOOS=", "GOARCH="}
	tinygo := filepath.Join(root, "bin", "tinygo")
	if _, err := runGo(ctx, "go build", module, variables, "build", "-tags", "llvm19", "-o", tinygo, tinygoModule); err != nil {
		return err
	}
	output, err := runGo(ctx, "go list", module, variables, "list", "-m", "-f", "{{.Dir}}", tinygoModule)
	if err != nil {
		return err
	}
	source := strings.TrimSpace(string(output))
	for _, name := range []string{"src", "targets"} {
		if err := os.CopyFS(filepath.Join(root, name), os.DirFS(filepath.Join(source, name))); err != nil {
			return err
		}
	}
	// The module lacks the C library and package net, which are git submodules of TinyGo. Plugins need neither, but TinyGo
	// requires the directory of net.
	if err := os.MkdirAll(filepath.Join(root, "src", "net"), 0o755); err != nil {
		return err
	}
	return errors.Join(patch(root), os.Chmod(root, 0o755))
}

// patch changes a TinyGo so that the text of a plugin's panic goes to the log of the host.
func patch(root string) error {
	runtime := filepath.Join(root, "src", "runtime")
	name := filepath.Join(runtime, "runtime_tinygowasm_unknown.go")
	text, err := os.ReadFile(name)
	if err != nil {
		return fmt.Errorf("change TinyGo: %w", err)
	}
	const oldPutchar, newPutchar = "func putchar(c byte) {\n", "func putchar(c byte) { logChar(c)\n"
	changed := bytes.Replace(text, []byte(oldPutchar), []byte(newPutchar), 1)
	if !bytes.Contains(changed, []byte(newPutchar)) {
		return fmt.Errorf("change TinyGo: %s has no function putchar", name)
	}
	added := filepath.Join(runtime, "keywright_panic.go")
	for _, f := range []struct {
		name string
		text []byte
	}{{added, panicSource}, {name, changed}} {
		if there, err := os.ReadFile(f.name); err == nil && bytes.Equal(there, f.text) {
			continue
		}
		if err := os.WriteFile(f.name, f.text, 0o644); err != nil {
			return fmt.Errorf("change TinyGo: %w", err)
		}
	}
	return nil
}
