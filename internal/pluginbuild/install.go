package pluginbuild

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

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
