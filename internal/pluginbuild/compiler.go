package pluginbuild

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Pinned is the version of TinyGo that tools/tinygo builds, and with which the project's own plugins are made.
const Pinned = "v0.41.1"

// CompilerVariable names the environment variable that holds the path of the compiler to use, before all others.
const CompilerVariable = "KEYWRIGHT_TINYGO"

// The oldest TinyGo that knows go:wasmexport in a reactor the way the SDK needs it.
const minMajor, minMinor = 0, 41

// llvmBin is where Debian keeps wasm-ld under the name that TinyGo calls.
const llvmBin = "/usr/lib/llvm-19/bin"

// targetJSON is TinyGo's wasm-unknown target, but linked with Debian's C library and compiler runtime, as TinyGo's Go
// module comes without the sources of its own.
//
//go:embed keywright.json
var targetJSON []byte

// linkFile is a file that linking a plugin takes, and the Debian package that has it.
type linkFile struct{ path, debian string }

var linkFiles = []linkFile{
	{"/usr/lib/wasm32-wasi/libc.a", "wasi-libc"},
	{"/usr/lib/llvm-19/lib/clang/19/lib/wasi/libclang_rt.builtins-wasm32.a", "libclang-rt-19-dev-wasm32"},
	{llvmBin + "/wasm-ld", "lld-19"},
}

// Compiler is a TinyGo that can build plugins.
type Compiler struct {
	Path    string // of the executable
	Version string // as `tinygo version` writes it: of TinyGo, Go and LLVM

	// Accept, when it is set, is asked about each module before Build writes it. It returns the names of the fields whose
	// values the plugin sees as references, or why no host would load the module.
	Accept func(ctx context.Context, name string, wasm []byte) (sealed []string, err error)
	// Guest says that the module is no plugin: its sources are not looked at, and what it panics with is left out, since it
	// may run in a host that has no log.
	Guest bool

	patience time.Duration // how long a compilation may take, in tests; 0: patience
}

func (c Compiler) String() string { return c.Version }

// FindCompiler returns the TinyGo to build with: the one that the environment variable [CompilerVariable] names, else
// one on PATH that is new enough, else the one that `make tinygo` left in cache, a directory. An empty cache is not
// looked at. The error says what to install, also where only an archive to link with is missing.
func FindCompiler(ctx context.Context, cache string) (Compiler, error) {
	c, err := findTinyGo(ctx, cache)
	if err != nil {
		return Compiler{}, err
	}
	return c, requireFiles(linkFiles)
}

func findTinyGo(ctx context.Context, cache string) (Compiler, error) {
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
	if cache != "" {
		path := filepath.Join(cache, "tinygo-"+Pinned, "bin", "tinygo")
		if _, err := os.Stat(path); err == nil {
			return probe(ctx, path)
		}
	}
	advice := fmt.Errorf("no TinyGo %d.%d or later found: put one on PATH, name it in %s, or run `make tinygo` in a checkout of Keywright",
		minMajor, minMinor, CompilerVariable)
	return Compiler{}, errors.Join(onPath, advice)
}

// probe asks a compiler for its version and refuses one that is too old.
func probe(ctx context.Context, path string) (Compiler, error) {
	path, err := exec.LookPath(path)
	if err == nil {
		path, err = filepath.Abs(path) // it will run in the plugin's directory
	}
	if err != nil {
		return Compiler{}, fmt.Errorf("find the compiler: %w", err)
	}
	cmd := exec.CommandContext(ctx, path, "version")
	output, err := cmd.CombinedOutput()
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

// requireFiles says which packages to install where a file is missing.
func requireFiles(files []linkFile) error {
	var packages []string
	for _, f := range files {
		if _, err := os.Stat(f.path); err != nil {
			packages = append(packages, f.debian)
		}
	}
	if len(packages) == 0 {
		return nil
	}
	return fmt.Errorf("files that plugins are linked with are missing, they come with Debian: apt-get install %s", strings.Join(packages, " "))
}

// withLinker puts wasm-ld on the PATH of an environment.
func withLinker(env []string) []string {
	path := llvmBin
	if old := os.Getenv("PATH"); old != "" {
		path += string(os.PathListSeparator) + old
	}
	return append(env, "PATH="+path) // of two equal names the last one counts
}
