// Command mutants runs mutation tests with go-gremlins. It changes the code of packages in small ways, one at a time, and
// runs the tests of the package. It fails if no test notices a mutation that is not in survivors.txt. Run it at the top of the
// repository.
//
//	go run ./tools/mutants -gremlins PROGRAM [-workers N] [-patience N] [-part K/N] DIR...
//
// It skips code that no test of the package covers. Each package is tested by its own tests alone, or also by those of other
// packages if testedBy has some, in a copy of the repository. Mutations that do not compile do not count. A mutation counts as
// noticed if a test fails, or if the tests do not end: they use three times their usual processor time, or wait without using
// any. It also counts if the tests take too long. The number of these is reported, because a busy machine causes more.
//
// All mutations of a package are compiled at once. So a mutation takes as long as the tests that it passes. With -part 3/10, only
// the mutations of the third of ten parts are tried. The parts are about equal, and a mutation stays in its part until the
// package changes.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// survivorsFile lists the mutations that no test can notice, each with the reason.
const survivorsFile = "tools/mutants/survivors.txt"

// The modules to test.
const (
	rootModule   = "github.com/keywright/keywright" // the path of the module at the top of the repository
	serverModule = "server"                         // the directory of the other module
)

// mostSlow is the maximum percentage of the noticed mutations whose tests may take too long.
const mostSlow = 20

// minNoticed is the minimum percentage of mutations that tests must notice.
const minNoticed = 90

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	var err error
	if filepath.Base(os.Args[0]) == "go" {
		err = actAsGo(ctx, os.Args[1:])
	} else {
		err = run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	}
	stop()
	var failed *exec.ExitError
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	switch {
	case errors.Is(err, errNotGood):
		os.Exit(notGood)
	case errors.As(err, &failed) && failed.ExitCode() > 0:
		os.Exit(failed.ExitCode())
	case err != nil:
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	program := flags.String("gremlins", "", "the program of go-gremlins")
	workers := flags.Int("workers", 2, "how many changes are tried at once")
	patience := flags.Int("patience", 5, "how many times as long as without a change the tests of a package may take")
	var selection part
	flags.Var(&selection, "part", "which part of the mutations to try, such as 3/10")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *program == "" || flags.NArg() == 0 {
		return errors.New("-gremlins and a directory have to be given")
	}
	text, err := os.ReadFile(survivorsFile)
	if err != nil {
		return err
	}
	survivors, err := parseSurvivors(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", survivorsFile, err)
	}
	place, err := newPlace(ctx, selection)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(place.dir)) }()
	bad := 0
	for _, dir := range flags.Args() {
		dir = filepath.ToSlash(filepath.Clean(dir))
		_, _ = fmt.Fprintf(stderr, "== %s\n", dir)
		found, err := place.unleash(ctx, *program, dir, *workers, *patience, stderr)
		if err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		if !found.report(stdout, survivors, selection.all()) {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of the packages are not as they should be: write a test that notices the change, or the reason why none can into %s", bad, survivorsFile)
	}
	return nil
}

// place is a copy of the repository in which gremlins runs.
type place struct {
	// dir is a temporary directory.
	dir string
	// copy is the copy of the repository in dir. It has the tracked and the new files of the work tree.
	copy string
	// environment is the environment for gremlins.
	environment []string
}

func newPlace(ctx context.Context, selection part) (*place, error) {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return nil, err
	}
	p := &place{dir: dir, copy: filepath.Join(dir, "copy")}
	files, err := exec.CommandContext(ctx, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("git ls-files: %w", err), os.RemoveAll(dir))
	}
	for name := range bytes.SplitSeq(bytes.TrimSuffix(files, []byte{0}), []byte{0}) {
		if err := copyFile(string(name), filepath.Join(p.copy, string(name))); err != nil {
			return nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
	if err := p.wrapGo(selection); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	// Gremlins copies the module alone, so the relative path to the other module would be wrong there.
	replace := exec.CommandContext(ctx, "go", "mod", "edit", "-replace", rootModule+"="+p.copy)
	replace.Dir = filepath.Join(p.copy, serverModule)
	if out, err := replace.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("go mod edit: %w: %s", err, out), os.RemoveAll(dir))
	}
	return p, nil
}

func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if errors.Is(err, os.ErrNotExist) {
		return nil // removed, but still in git's index
	}
	if err != nil {
		return err
	}
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, content, info.Mode().Perm())
}

// unleash runs gremlins on a package.
func (p *place) unleash(ctx context.Context, program, dir string, workers, patience int, stderr io.Writer) (*found, error) {
	module, below := ".", dir
	if rest, ok := strings.CutPrefix(dir, serverModule+"/"); ok {
		module, below = serverModule, rest
	}
	state := filepath.Join(p.dir, "state")
	if err := errors.Join(os.RemoveAll(state), os.Mkdir(state, 0o755)); err != nil {
		return nil, err
	}
	output := filepath.Join(state, "output.json")
	cmd := exec.CommandContext(ctx, program, "unleash", "--silent", "--output", output, "--exclude-files", "/", "--invert-logical",
		"--workers", fmt.Sprint(workers), "--timeout-coefficient", fmt.Sprint(patience), "./"+below)
	cmd.Dir, cmd.Env = filepath.Join(p.copy, module), slices.Concat(p.environment, []string{stateName + "=" + state, origName + "=" + filepath.Join(p.copy, dir)})
	cmd.Stdout, cmd.Stderr = stderr, stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("gremlins: %w", err)
	}
	content, err := os.ReadFile(output)
	if errors.Is(err, os.ErrNotExist) { // gremlins writes none if the package has nothing to change
		return &found{dir: dir}, nil
	}
	if err != nil {
		return nil, err
	}
	f, err := parseOutput(content, dir, func(name string) ([]string, error) {
		text, err := os.ReadFile(filepath.Join(p.copy, name))
		return strings.Split(string(text), "\n"), err
	})
	if err != nil {
		return nil, err
	}
	endless, err := os.ReadFile(filepath.Join(state, "endless"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	f.endless = bytes.Count(endless, []byte("\n"))
	return f, nil
}
