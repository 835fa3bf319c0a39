package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/keywright/keywright/internal/pluginbuild"
)

// Gremlins runs the go command on its PATH, which is this program. It corrects five things:
//
//   - Gremlins does not distinguish a mutation that does not compile from one that tests notice. Both make go test fail.
//   - It also runs the tests of subdirectories.
//   - It cannot derive the path of a package main from its name.
//   - It runs all tests at once, although the quick ones notice most mutations.
//   - A property test that fails keeps its counterexample in testdata/rapid, where it would fail for later mutations, too.

// slowTests matches the tests that take most of the time of their packages. They run only if the others notice nothing.
const slowTests = "^(TestNoPartitionReadsAnothersValue|TestIndependentImplementationVerifiesManySignatures|" +
	"TestMeteringChangesNoResultOfTheSpecification|TestHostileAnswers|TestStoreIsAsTheModel|TestReadersSeeNoTornPages|" +
	"TestManyOpenAtOnce|TestManyArticlesOfOneActivity|TestReuseIsNotNoticed|TestDecision_Tokens_many_requests_at_once_one_exchange|" +
	"TestCodeCacheThatOthersCanChangeIsRefused|TestAnotherImplementationVerifiesWhatThePluginSends|TestTokensOfAnotherImplementation)$"

// testedBy maps packages to the package that has most of their tests.
var testedBy = map[string]string{"host/internal/hostfn": "host"}

const (
	realGo   = "KEYWRIGHT_MUTANTS_GO"   // environment variable with the path of the real go command
	realPath = "KEYWRIGHT_MUTANTS_PATH" // environment variable with the PATH of the real go command
	partName = "KEYWRIGHT_MUTANTS_PART" // environment variable with the part of the mutations
	notGood  = 2                        // the exit status that gremlins takes for a mutation that does not compile
)

// wrapGo puts this program on the PATH of p.environment under the name go.
func (p *place) wrapGo(ctx context.Context, chosen part) error {
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
	p.environment = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+path, realPath+"="+path, realGo+"="+command, partName+"="+chosen.String(),
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
	if dir, ok := strings.CutSuffix(args[last], "/..."); ok { // gremlins measures the coverage
		args[last] = dir
		if other := testedBy[strings.TrimPrefix(dir, "./")]; other != "" {
			args = append(append(args[:last:last], "-coverpkg", dir), dir, "./"+other)
		}
		return goCommand(ctx, args...)
	}
	if in, err := inPart("."); err != nil {
		return err
	} else if !in || goCommand(ctx, "build", "-o", os.DevNull, ".") != nil {
		os.Exit(notGood)
	}
	root, dir, err := here()
	if err != nil {
		return err
	}
	if filepath.Dir(dir) == "plugins" { // the tests of a plugin also run its module
		build := exec.CommandContext(ctx, os.Getenv(realGo), "run", "./tools/plugin", "build", dir)
		build.Dir, build.Env = root, environment()
		if build.Run() != nil {
			os.Exit(notGood)
		}
	}
	packages := []string{"."}
	if other := testedBy[dir]; other != "" {
		packages = append(packages, filepath.Join(root, other))
	}
	for _, name := range packages {
		if err := os.RemoveAll(filepath.Join(name, "testdata", "rapid")); err != nil {
			return err
		}
	}
	test := append([]string{"test", "-vet=off", "-ldflags=-s -w"}, args[1:last]...)
	for _, which := range []string{"-skip", "-run"} {
		for _, name := range packages {
			if err := goCommand(ctx, append(test[:len(test):len(test)], which, slowTests, name)...); err != nil {
				return err
			}
		}
	}
	return nil
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
