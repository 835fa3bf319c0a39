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

// Gremlins runs the go command that it finds. It finds this program, which mends four things: a change that does not
// compile fails its tests as well, and is not told from one that they notice; the tests of the directories below take
// part; what a package main is called says nothing of its path; and all tests run although the quick ones notice most.

// slowTests matches the tests that take most of the time of their packages. They run when the others have noticed nothing.
const slowTests = "^(TestNoPartitionReadsAnothersValue|TestIndependentImplementationVerifiesManySignatures|" +
	"TestMeteringChangesNoResultOfTheSpecification|TestHostileAnswers|TestStoreIsAsTheModel|TestReadersSeeNoTornPages|" +
	"TestManyOpenAtOnce|TestManyArticlesOfOneActivity|TestReuseIsNotNoticed|TestDecision_Tokens_many_requests_at_once_one_exchange|" +
	"TestCodeCacheThatOthersCanChangeIsRefused|TestAnotherImplementationVerifiesWhatThePluginSends|TestTokensOfAnotherImplementation)$"

// testedBy has the packages whose tests are those of another package for the most part, with that package.
var testedBy = map[string]string{"host/internal/hostfn": "host"}

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
		if other := testedBy[strings.TrimPrefix(dir, "./")]; other != "" {
			args = append(append(args[:last:last], "-coverpkg", dir), dir, "./"+other)
		}
		return goCommand(ctx, args...)
	}
	if goCommand(ctx, "build", "-o", os.DevNull, ".") != nil {
		os.Exit(notGood)
	}
	root, dir, err := here()
	if err != nil {
		return err
	}
	if filepath.Dir(dir) == "plugins" { // its tests run the module as well
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

// here returns the top of the repository, and the way from there to this directory.
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
