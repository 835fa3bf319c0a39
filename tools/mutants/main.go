// Command mutants changes the code of packages in small ways, one at a time, and fails when a change is noticed by no
// test of the package, unless survivors.txt has it with the reason. It runs go-gremlins, at the top of the repository.
//
//	go run ./tools/mutants -gremlins PROGRAM [-workers N] [-patience N] DIR...
//
// Code that no test of its package runs is left out. Each package is tested by its own tests alone, in a copy of the
// repository. A change that does not compile counts for nothing. One whose tests take too long is taken for noticed: most
// of these are endless loops. How many there were is reported, since a busy machine makes more.
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
	"strings"
	"syscall"
)

// survivorsFile has the changes that no test notices, each with the reason.
const survivorsFile = "tools/mutants/survivors.txt"

// The modules that are changed: the one at the top of the repository, and the one in this directory.
const (
	rootModule   = "github.com/keywright/keywright"
	serverModule = "server"
)

// least is how much of what tests run has to be noticed, in a hundred.
const least = 90

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
	switch {
	case errors.As(err, &failed) && failed.ExitCode() > 0:
		os.Exit(failed.ExitCode())
	case err != nil:
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	flags.SetOutput(stderr)
	program := flags.String("gremlins", "", "the program of go-gremlins")
	workers := flags.Int("workers", 2, "how many changes are tried at once")
	patience := flags.Int("patience", 5, "how many times as long as without a change the tests of a package may take")
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
	known, err := parseSurvivors(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", survivorsFile, err)
	}
	place, err := newPlace(ctx)
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
		if !found.report(stdout, known) {
			bad++
		}
	}
	if bad > 0 {
		return fmt.Errorf("%d of the packages are not as they should be: write a test that notices the change, or the reason why none can into %s", bad, survivorsFile)
	}
	return nil
}

// place is a copy of the repository, and what programs that run there need.
type place struct {
	dir         string // temporary
	copy        string // the repository: what git knows of, and what is new, as it is now
	environment []string
}

func newPlace(ctx context.Context) (*place, error) {
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
	if err := p.wrapGo(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	// Gremlins makes copies of the module alone, from where the way to the other one is not the same.
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
		return nil // removed, and git does not know yet
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

// unleash tries the changes of a package.
func (p *place) unleash(ctx context.Context, program, dir string, workers, patience int, stderr io.Writer) (*found, error) {
	output := filepath.Join(p.dir, "output.json")
	module, below := ".", dir
	if rest, ok := strings.CutPrefix(dir, serverModule+"/"); ok {
		module, below = serverModule, rest
	}
	cmd := exec.CommandContext(ctx, program, "unleash", "--silent", "--output", output, "--exclude-files", "/", "--invert-logical",
		"--workers", fmt.Sprint(workers), "--timeout-coefficient", fmt.Sprint(patience), "./"+below)
	cmd.Dir, cmd.Env = filepath.Join(p.copy, module), p.environment
	cmd.Stdout, cmd.Stderr = stderr, stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("gremlins: %w", err)
	}
	content, err := os.ReadFile(output)
	if err != nil {
		return nil, err
	}
	return parseOutput(content, dir, func(name string) ([]string, error) {
		text, err := os.ReadFile(filepath.Join(p.copy, name))
		return strings.Split(string(text), "\n"), err
	})
}
