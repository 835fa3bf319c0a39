package pluginbuild

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

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
