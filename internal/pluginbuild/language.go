package pluginbuild

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Language is the language in which a plugin is written.
type Language string

// The languages that have an SDK.
const (
	Go             Language = "go"
	C              Language = "c"
	AssemblyScript Language = "assemblyscript"
)

// Languages returns all languages. Go comes first.
func Languages() []Language { return []Language{Go, C, AssemblyScript} }

var packages = map[Language][]string{
	Go: packagesOf(slices.Concat(linkFiles, buildFiles)), C: {"clang-19", "lld-19"}, AssemblyScript: {"nodejs", "npm"},
}

// Packages returns the Debian packages that plugins in l are built with. Those of Go include what TinyGo is built with.
func (l Language) Packages() []string { return packages[l] }

// LanguageOf returns the language of the plugin in dir. A directory with Go files, other than tests, has a plugin in Go, one with C
// files has one in C, and one with package.json and asconfig.json has one in AssemblyScript.
func LanguageOf(dir string) (Language, error) {
	if err := checkDirectory(dir); err != nil {
		return "", err
	}
	inGo, err := sources(dir, ".go")
	if err != nil {
		return "", err
	}
	inGo = slices.DeleteFunc(inGo, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	inC, err := sources(dir, ".c")
	if err != nil {
		return "", err
	}
	inAssemblyScript := isThere(dir, packageFile) && isThere(dir, asconfigFile)
	switch {
	case len(inGo) > 0:
		return Go, nil // C files beside it are those of cgo
	case len(inC) > 0 && inAssemblyScript:
		return "", fmt.Errorf("%s has the sources of two plugins, one in C (%s) and one in AssemblyScript (%s): put each into a directory of its own", dir, inC[0], asconfigFile)
	case len(inC) > 0:
		return C, nil
	case inAssemblyScript:
		return AssemblyScript, nil
	case isThere(dir, asconfigFile):
		return "", fmt.Errorf("%s has %s and no %s, which names the version of AssemblyScript: `keywright plugin new NAME --lang assemblyscript` writes both", dir, asconfigFile, packageFile)
	}
	return "", fmt.Errorf("%s has no plugin: there is neither a Go file nor a C file, nor %s of AssemblyScript. `keywright plugin new NAME` writes the directory of a plugin", dir, asconfigFile)
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

// extensions are the extensions, or the names, of the files that a module is compiled from.
var extensions = map[Language][]string{Go: {".go"}, C: {".c", ".h", ".cfg"}, AssemblyScript: {".ts", packageFile, lockFile, asconfigFile}}

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
