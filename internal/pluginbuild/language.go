package pluginbuild

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Language is the language in which a plugin is written.
type Language string

// The languages that have an SDK.
const (
	Go             Language = "go"
	C              Language = "c"
	AssemblyScript Language = "assemblyscript"
	Rust           Language = "rust"
)

// Languages returns all languages. Go comes first.
func Languages() []Language { return []Language{Go, C, AssemblyScript, Rust} }

var packages = map[Language][]string{
	Go: packagesOf(slices.Concat(linkFiles, buildFiles)), C: {"clang-19", "lld-19"}, AssemblyScript: {"nodejs", "npm"},
	Rust: {"rustc", "libstd-rust-dev-wasm32", "lld-14"},
}

// titles are the names of languages for people.
var titles = map[Language]string{Go: "Go", C: "C", AssemblyScript: "AssemblyScript", Rust: "Rust"}

// Packages returns the Debian packages that plugins in l are built with. Those of Go include what TinyGo is built with.
func (l Language) Packages() []string { return packages[l] }

// LanguageOf returns the language of the plugin in dir. A directory with Go files, other than tests, has a plugin in Go, one with C
// files has one in C, one with package.json and asconfig.json has one in AssemblyScript, and one with Rust files has one in Rust.
func LanguageOf(dir string) (Language, error) {
	if err := checkDirectory(dir); err != nil {
		return "", err
	}
	inGo, err := sources(dir, ".go")
	if err != nil {
		return "", err
	}
	inGo = slices.DeleteFunc(inGo, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	if len(inGo) > 0 {
		return Go, nil // C files beside it are those of cgo
	}
	var found []Language
	var files []string
	for _, l := range []Language{C, AssemblyScript, Rust} {
		names, err := sources(dir, extensions[l][0])
		if err != nil {
			return "", err
		}
		if len(names) > 0 && (l != AssemblyScript || isThere(dir, packageFile)) {
			found, files = append(found, l), append(files, names[0])
		}
	}
	switch {
	case len(found) > 1:
		return "", fmt.Errorf("%s has the sources of two plugins, one in %s (%s) and one in %s (%s): put each into a directory of its own",
			dir, titles[found[0]], files[0], titles[found[1]], files[1])
	case len(found) == 1:
		return found[0], nil
	case isThere(dir, asconfigFile):
		return "", fmt.Errorf("%s has %s and no %s, which names the version of AssemblyScript: `keywright plugin new NAME --lang assemblyscript` writes both", dir, asconfigFile, packageFile)
	}
	return "", fmt.Errorf("%s has no plugin: there is neither a Go file nor a C file nor a Rust file, nor %s of AssemblyScript. `keywright plugin new NAME` writes the directory of a plugin", dir, asconfigFile)
}

func checkDirectory(dir string) error {
	if info, err := os.Stat(dir); err != nil {
		return fmt.Errorf("plugin directory: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("plugin directory: %s is a file", dir)
	}
	return nil
}

// sources returns the names of the files in dir with an extension, or of that name, sorted.
func sources(dir, extension string) (names []string, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if (filepath.Ext(e.Name()) == extension || e.Name() == extension) && !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// extensions are the extensions, or the names, of the files that a module is compiled from. The first one shows the language.
var extensions = map[Language][]string{Go: {".go"}, C: {".c", ".h", ".cfg"}, AssemblyScript: {asconfigFile, ".ts", packageFile, lockFile}, Rust: {".rs", ".args"}}

// Newer returns the name of a source file in dir that was written after the plugin's module, or an empty name. It does not read the
// files: a checkout may set their times in any order. Files of other directories do not count.
func Newer(dir string) (string, error) {
	language, err := LanguageOf(dir)
	if err != nil {
		return "", err
	}
	out, err := OutputPath(dir)
	if err != nil {
		return "", err
	}
	module, err := os.Stat(out)
	if err != nil {
		return "", fmt.Errorf("module of the plugin: %w", err)
	}
	for _, extension := range extensions[language] {
		names, err := sources(dir, extension)
		if err != nil {
			return "", fmt.Errorf("sources of the plugin: %w", err)
		}
		for _, name := range names {
			info, err := os.Stat(filepath.Join(dir, name))
			if err == nil && info.ModTime().After(module.ModTime()) && !strings.HasSuffix(name, "_test.go") {
				return name, nil
			}
		}
	}
	return "", nil
}

func isThere(dir, name string) bool {
	_, err := os.Stat(filepath.Join(dir, name))
	return !errors.Is(err, fs.ErrNotExist)
}

// The files by which a plugin in AssemblyScript is known: the version of its compiler, and the compiler's options.
const (
	packageFile  = "package.json"
	lockFile     = "package-lock.json"
	asconfigFile = "asconfig.json"
)

// FindAssemblyScript returns the compiler in node_modules of the plugin in dir. If it is not there, npm installs what package.json
// names, or package-lock.json. FindAssemblyScript calls begin before that, with the command.
func FindAssemblyScript(ctx context.Context, dir string, begin func(command string)) (Compiler, error) {
	absolute, err := filepath.Abs(dir) // the compiler will run in the plugin's directory
	if err != nil {
		return Compiler{}, fmt.Errorf("plugin directory %s: %w", dir, err)
	}
	asc := filepath.Join(absolute, "node_modules", ".bin", "asc")
	if _, err := os.Stat(asc); err != nil {
		if err := installNode(ctx, absolute, begin); err != nil {
			return Compiler{}, err
		}
	}
	if _, err := exec.LookPath("node"); err != nil {
		return Compiler{}, noNode("node")
	}
	output, err := exec.CommandContext(ctx, asc, "--version").CombinedOutput()
	if errors.Is(err, os.ErrNotExist) {
		return Compiler{}, fmt.Errorf("%s does not name assemblyscript: add it to devDependencies, and remove %s", filepath.Join(dir, packageFile), filepath.Join(dir, "node_modules"))
	}
	if err != nil {
		return Compiler{}, commandError(ctx, asc+" --version", err, output)
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(string(output), "Version "), "\n")
	return Compiler{Path: asc, Version: "AssemblyScript " + version, Language: AssemblyScript}, nil
}

// installNode has npm install the packages of the plugin in dir. No script of a package runs.
func installNode(ctx context.Context, dir string, begin func(command string)) error {
	npm, err := exec.LookPath("npm")
	if err != nil {
		return noNode("npm")
	}
	args := []string{"install", "--ignore-scripts", "--no-audit", "--no-fund"}
	if isThere(dir, lockFile) {
		args[0] = "ci"
	}
	begin("npm " + args[0])
	cmd := exec.CommandContext(ctx, npm, args...)
	cmd.Dir = dir
	if output, err := cmd.CombinedOutput(); err != nil {
		return commandError(ctx, "npm "+args[0]+" in "+dir, err, output)
	}
	return nil
}

func noNode(name string) error {
	return fmt.Errorf("%s is not on PATH, and plugins in AssemblyScript are built with it. Debian has it: apt-get install --no-install-recommends %s", name, strings.Join(AssemblyScript.Packages(), " "))
}

// OptionsFile is the name of the file with the options of clang. It stands beside the sources of a plugin in C, as sdk/c has it.
const OptionsFile = "keywright.cfg"

// minClang is the oldest version of clang that compiles the SDK for C.
const minClang = 16

// clangs are the names of clang on PATH, the tested one first: versions differ in the bytes that they make.
var clangs = []string{"clang-19", "clang", "clang-22", "clang-21", "clang-20", "clang-18", "clang-17", "clang-16"}

var clangVersion = regexp.MustCompile(`clang version (\d+)[.\d]*`)

// FindClang returns the clang on PATH that plugins in C are built with. The error says what to install.
func FindClang(ctx context.Context) (Compiler, error) {
	var tooOld []error
	for _, name := range clangs {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if path, err = filepath.Abs(path); err != nil { // the compiler will run in the plugin's directory
			return Compiler{}, err
		}
		output, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
		if err != nil {
			return Compiler{}, commandError(ctx, path+" --version", err, output)
		}
		version := clangVersion.FindStringSubmatch(string(output))
		if version == nil {
			return Compiler{}, fmt.Errorf("%s is not a clang: it calls itself %.80q", path, output)
		}
		if major, _ := strconv.Atoi(version[1]); major < minClang {
			tooOld = append(tooOld, fmt.Errorf("%s is clang %d, and %d or later is needed", path, major, minClang))
			continue
		}
		return Compiler{Path: path, Version: version[0], Language: C}, findLinker(ctx, path, version[1])
	}
	return Compiler{}, errors.Join(append(tooOld, fmt.Errorf("no clang found on PATH, which compiles plugins in C. Debian 12 or later has it: apt-get install --no-install-recommends %s",
		strings.Join(C.Packages(), " ")))...)
}

// linkCommand matches the program of the last command that clang -### shows.
var linkCommand = regexp.MustCompile(`(?m)^ "([^"]*wasm-ld[^"]*)"`)

// findLinker returns an error if the linker of a clang is not there. Its name depends on who has packaged that clang.
func findLinker(ctx context.Context, clang, major string) error {
	args := []string{"--target=wasm32", "-nostdlib", "-###", "-x", "c", os.DevNull}
	output, err := exec.CommandContext(ctx, clang, args...).CombinedOutput()
	if err != nil {
		return commandError(ctx, clang+" "+strings.Join(args, " "), err, output)
	}
	if linker := linkCommand.FindSubmatch(output); linker != nil {
		if _, err := exec.LookPath(string(linker[1])); err == nil {
			return nil
		}
	}
	return fmt.Errorf("wasm-ld is missing, the linker of %s. Debian has it: apt-get install --no-install-recommends lld-%s", clang, major)
}

// clangArguments returns the arguments of clang: all C files of a directory make one module.
func clangArguments(dir, absolute, out string) ([]string, error) {
	if !isThere(dir, OptionsFile) {
		return nil, fmt.Errorf("%s is missing in %s, the options of clang: copy it from sdk/c, with keywright.h. `keywright plugin new NAME --lang c` writes both", OptionsFile, dir)
	}
	files, err := sources(dir, ".c")
	if err != nil {
		return nil, fmt.Errorf("sources of the plugin: %w", err)
	}
	// The bytes must not depend on the place of the directory, which the macro __FILE__ may have.
	args := []string{"--config=./" + OptionsFile, "-ffile-prefix-map=" + absolute + "=.", "-o", out}
	for _, name := range files {
		args = append(args, "./"+name) // a path, so that no name is taken for an option
	}
	return args, nil
}

// The files of sdk/rust, which stand beside the sources of a plugin in Rust: the SDK and the options of rustc.
const (
	rustModule  = "keywright.rs"
	rustOptions = "keywright.args"
	rustTarget  = "wasm32-unknown-unknown"
)

// rustcs are the places of rustc, Debian's first: it is the tested one, and versions differ in the bytes that they make.
var rustcs = []string{"/usr/bin/rustc", "rustc"}

// FindRust returns the rustc that plugins in Rust are built with: one that has the target for WebAssembly. The error says what to install.
func FindRust(ctx context.Context) (Compiler, error) {
	var errs []error
	for _, name := range rustcs {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		libraries, err := exec.CommandContext(ctx, path, "--print=target-libdir", "--target="+rustTarget).Output()
		if _, missing := os.Stat(strings.TrimSpace(string(libraries))); err != nil || missing != nil {
			errs = append(errs, fmt.Errorf("%s has no library for %s, install that of the same version", path, rustTarget))
			continue
		}
		output, err := exec.CommandContext(ctx, path, "--version").CombinedOutput()
		if err != nil {
			return Compiler{}, commandError(ctx, path+" --version", err, output)
		}
		return Compiler{Path: path, Version: strings.TrimSpace(string(output)), Language: Rust}, nil
	}
	return Compiler{}, errors.Join(append(errs, fmt.Errorf("no rustc found that compiles plugins. Debian 12 has it: apt-get install --no-install-recommends %s",
		strings.Join(Rust.Packages(), " ")))...)
}

// rustArguments returns the arguments of rustc. It compiles the file that is the only one beside the SDK, or has the directory's name.
func rustArguments(dir, absolute, out string) ([]string, error) {
	if !isThere(dir, rustOptions) {
		return nil, fmt.Errorf("%s is missing in %s, the options of rustc: copy it from sdk/rust, with %s. `keywright plugin new NAME --lang rust` writes both", rustOptions, dir, rustModule)
	}
	files, err := sources(dir, ".rs")
	if err != nil {
		return nil, fmt.Errorf("sources of the plugin: %w", err)
	}
	files = slices.DeleteFunc(files, func(name string) bool { return name == rustModule })
	root := filepath.Base(absolute) + ".rs"
	if len(files) == 1 {
		root = files[0]
	}
	if !slices.Contains(files, root) {
		return nil, fmt.Errorf("%s has several Rust files and none is %s: give that name to the one that calls exports", dir, root)
	}
	return []string{"@" + rustOptions, "--remap-path-prefix=" + absolute + "=.", "-o", out, "./" + root}, nil
}
