package main

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
)

// Gremlins runs the go command on its PATH, which is this program. It corrects these things:
//
//   - Gremlins does not distinguish a mutation that does not compile from one that tests notice. Both make go test fail.
//   - It also runs the tests of subdirectories.
//   - It cannot derive the path of a package main from its name.
//   - Some packages are tested by others.
//   - Its clock does not distinguish an endless loop from a busy machine.
//   - A property test that fails keeps its counterexample in testdata/rapid, where it would fail for later mutations, too.
//
// It also makes the tests faster: schema.go compiles all mutations at once, and trial.go first runs the tests that have noticed
// others.

const (
	realGo    = "KEYWRIGHT_MUTANTS_GO"    // environment variable with the path of the real go command
	realPath  = "KEYWRIGHT_MUTANTS_PATH"  // environment variable with the PATH of the real go command
	partName  = "KEYWRIGHT_MUTANTS_PART"  // environment variable with the part of the mutations
	stateName = "KEYWRIGHT_MUTANTS_STATE" // environment variable with the directory for what is known about the package
	origName  = "KEYWRIGHT_MUTANTS_ORIG"  // environment variable with the directory of the package without a mutation
	notGood   = 2                         // the exit status that gremlins takes for a mutation that does not compile
)

// wrapGo puts this program on the PATH of p.environment under the name go.
func (p *place) wrapGo(selection part) error {
	command, err := exec.LookPath("go")
	if err != nil {
		return err
	}
	self, err := os.Executable()
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
	p.environment = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+path, realPath+"="+path, realGo+"="+command, partName+"="+selection.String(),
		"GOFLAGS=-trimpath -buildvcs=false") // so that the build cache serves every copy
	return nil
}

// actAsGo is the go command, as gremlins should run it.
func actAsGo(ctx context.Context, args []string) error {
	last := len(args) - 1
	if last < 0 || args[0] != "test" {
		return goCommand(ctx, args...)
	}
	if dir, ok := strings.CutSuffix(args[last], "/..."); ok {
		return measure(ctx, args[:last], dir)
	}
	if in, err := inPart("."); err != nil {
		return err
	} else if !in {
		return errNotGood
	}
	root, dir, err := here()
	if err != nil {
		return err
	}
	file, err := changedFile(".", os.Getenv(origName))
	if err != nil {
		return err
	}
	t := newTrial(root, dir, file)
	if i := slices.Index(args, "-timeout"); i >= 0 {
		t.timeout = args[i+1]
	}
	if err := t.choose(); err != nil {
		return err
	}
	return t.run(ctx)
}

// measure runs the tests of a package without a mutation, since gremlins wants their coverage and how long they take. Then it
// compiles the schema, and runs its tests without a mutation to measure their processor time.
func measure(ctx context.Context, args []string, dir string) error {
	dir = strings.TrimPrefix(dir, "./")
	packages := []string{"./" + dir}
	for _, testDir := range testedBy[dir] {
		packages = append(packages, "./"+testDir)
	}
	if len(packages) > 1 {
		args = append(args, "-coverpkg", packages[0])
	}
	if err := goCommand(ctx, append(args, packages...)...); err != nil {
		return err
	}
	if err := os.Chdir(dir); err != nil {
		return err
	}
	root, dir, err := here()
	if err != nil {
		return err
	}
	t := newTrial(root, dir, "")
	if err := t.compileAll(ctx); err != nil {
		return err
	}
	if err := withComment(".", func() error { return t.run(ctx) }); err != nil {
		return err
	}
	if err := t.sortReached(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(t.state, processorTime), []byte(t.used.String()), 0o600)
}

// withComment calls f while a source of the package in a directory has one more comment. So tests that fail for any change of
// the sources, such as those of a compiled module, fail before they can notice each mutation.
func withComment(dir string, f func() error) (err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return strings.HasSuffix(name, "_test.go") })
	if len(names) == 0 {
		return fmt.Errorf("%s has no sources", dir)
	}
	source, err := os.ReadFile(names[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.WriteFile(names[0], source, 0o600)) }()
	if err := os.WriteFile(names[0], append(source[:len(source):len(source)], "\n// This changes no code.\n"...), 0o600); err != nil {
		return err
	}
	return f()
}

// changedFile returns the name of the file in a directory that is not the same as in the other directory.
func changedFile(dir, original string) (string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return "", err
	}
	for _, name := range names {
		now, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		previous, err := os.ReadFile(filepath.Join(original, filepath.Base(name)))
		if err != nil {
			return "", err
		}
		if !bytes.Equal(now, previous) {
			return filepath.Base(name), nil
		}
	}
	return "", fmt.Errorf("no file in %s has a mutation", dir)
}

// here returns the root directory of the module, and the path from there to the current directory.
func here() (root, dir string, err error) {
	here, err := os.Getwd()
	if err != nil {
		return "", "", err
	}
	for root = here; root != filepath.Dir(root); root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil {
			dir, err = filepath.Rel(root, here)
			return root, filepath.ToSlash(dir), err
		}
	}
	return "", "", errors.New("no go.mod is here or above")
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
