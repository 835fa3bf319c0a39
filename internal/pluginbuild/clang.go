package pluginbuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

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
func clangArguments(dir, out string) ([]string, error) {
	if !isThere(dir, OptionsFile) {
		return nil, fmt.Errorf("%s is missing in %s, the options of clang: copy it from sdk/c, with keywright.h. `keywright plugin new NAME --lang c` writes both", OptionsFile, dir)
	}
	files, err := sources(dir, ".c")
	if err != nil {
		return nil, fmt.Errorf("sources of the plugin: %w", err)
	}
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("plugin directory %s: %w", dir, err)
	}
	// The bytes must not depend on the place of the directory, which the macro __FILE__ may have.
	args := []string{"--config=./" + OptionsFile, "-ffile-prefix-map=" + absolute + "=.", "-o", out}
	for _, name := range files {
		args = append(args, "./"+name) // a path, so that no name is taken for an option
	}
	return args, nil
}
