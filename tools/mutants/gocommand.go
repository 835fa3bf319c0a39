package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/keywright/keywright/internal/pluginbuild"
)

// Gremlins runs the go command that it finds. It finds this program, which mends three things: a change that does not
// compile fails its tests as well, and is not told from one that they notice; the tests of the directories below take
// part; and what a package main is called says nothing of its path.

const (
	realGo   = "KEYWRIGHT_MUTANTS_GO"   // the go command
	realPath = "KEYWRIGHT_MUTANTS_PATH" // where its own programs are found
	notGood  = 2                        // the status that gremlins takes for a change that does not compile
)

// wrapGo has programs find this one in the place of go.
func (p *place) wrapGo(ctx context.Context) error {
	command, err := exec.LookPath("go")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	compiler, err := pluginbuild.FindCompiler(ctx, ".build")
	if err != nil {
		return err
	}
	tinygo, err := filepath.Abs(compiler.Path)
	if err != nil {
		return err
	}
	bin := filepath.Join(p.dir, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	if err := os.Symlink(self, filepath.Join(bin, "go")); err != nil {
		return err
	}
	path := os.Getenv("PATH")
	p.environment = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+path, realPath+"="+path, realGo+"="+command,
		pluginbuild.CompilerVariable+"="+tinygo,
		"GOFLAGS=-trimpath -buildvcs=false") // so that the build cache serves every copy
	return nil
}

// actAsGo is the go command, as gremlins should run it.
func actAsGo(ctx context.Context, args []string) error {
	last := len(args) - 1
	if last < 0 || args[0] != "test" {
		return goCommand(ctx, args...)
	}
	if dir, ok := strings.CutSuffix(args[last], "/..."); ok { // it measures what tests run
		args[last] = dir
		return goCommand(ctx, args...)
	}
	args[last] = "."
	if goCommand(ctx, "build", "-o", os.DevNull, ".") != nil {
		os.Exit(notGood)
	}
	if root, dir, ok := pluginHere(); ok { // its tests run the module as well
		build := exec.CommandContext(ctx, os.Getenv(realGo), "run", "./tools/plugin", "build", dir)
		build.Dir, build.Env = root, environment()
		if build.Run() != nil {
			os.Exit(notGood)
		}
	}
	return goCommand(ctx, append([]string{"test", "-vet=off"}, args[1:]...)...)
}

// pluginHere reports whether this is the directory of a plugin. root is the top of the repository, and dir the way from
// there.
func pluginHere() (root, dir string, ok bool) {
	here, err := os.Getwd()
	if err != nil {
		return "", "", false
	}
	for root = here; root != filepath.Dir(root); root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			dir, err = filepath.Rel(root, here)
			return root, dir, err == nil && filepath.Dir(dir) == "plugins"
		}
	}
	return "", "", false
}

func goCommand(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, os.Getenv(realGo), args...)
	cmd.Env = environment()
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

func environment() []string { return append(os.Environ(), "PATH="+os.Getenv(realPath)) }
