package pluginbuild

import (
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

func withLinker(env []string) []string {
	path := llvmBin
	if old := os.Getenv("PATH"); old != "" {
		path += string(os.PathListSeparator) + old
	}
	return append(env, "PATH="+path) // os/exec uses the last of two equal names
}
