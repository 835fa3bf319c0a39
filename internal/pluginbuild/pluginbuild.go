// Package pluginbuild compiles plugins: those in Go with TinyGo, those in C with clang, those in AssemblyScript with its compiler,
// and those in Rust with rustc.
//
// A plugin directory holds the sources of one plugin. Its module is written beside them and named after the directory:
// plugins/jwt/jwt.wasm for plugins/jwt. Builds are reproducible: the same sources and compiler produce the same
// bytes in every checkout. [Compiler.Check] relies on that.
//
// A module from Go records the digest of its sources, which detects a stale module without a compiler: a test
// compares [SourceDigest] with [RecordedDigest].
package pluginbuild

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/keywright/keywright/internal/files"
)

// OutputPath returns the path of the module of the plugin in dir.
func OutputPath(dir string) (string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("plugin directory %s: %w", dir, err)
	}
	return filepath.Join(dir, filepath.Base(absolute)+".wasm"), nil
}

// Each calls do for every directory. It continues after an error, so that one run shows all errors.
func Each(ctx context.Context, dirs []string, do func(ctx context.Context, dir string) error) error {
	var errs []error
	for _, dir := range dirs {
		if ctx.Err() != nil {
			break
		}
		errs = append(errs, do(ctx, dir))
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// Build compiles the plugin in dir, of any Go module, and writes the module to [OutputPath]. If it fails, it keeps an earlier module.
func (c Compiler) Build(ctx context.Context, dir string) error {
	out, err := OutputPath(dir)
	if err != nil {
		return err
	}
	wasm, escapes, err := c.compile(ctx, dir)
	if err != nil {
		return err
	}
	if c.Accept != nil {
		sealed, err := c.Accept(ctx, filepath.Base(out), wasm)
		if err != nil {
			return fmt.Errorf("the plugin in %s: %w", dir, err)
		}
		if err := checkEscapes(escapes, sealed); err != nil {
			return err
		}
	}
	if err := files.Replace(out, wasm, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", out, err)
	}
	return nil
}

// checkEscapes returns an error for each escape of a sealed field, whose value the host would insert as it is.
func checkEscapes(escapes []escape, sealed []string) error {
	var problems []error
	for _, e := range escapes {
		if slices.Contains(sealed, e.field) {
			problems = append(problems, fmt.Errorf("%s: %s "+e.why, e.place, e.code, e.field))
		}
	}
	return errors.Join(problems...)
}

// Check compiles the plugin in dir and compares the result with the module at [OutputPath]. It returns an error if the module
// is missing or differs in any byte. The error says whether the sources have changed since the module was built.
func (c Compiler) Check(ctx context.Context, dir string) error {
	out, err := OutputPath(dir)
	if err != nil {
		return err
	}
	was, err := os.ReadFile(out)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing: build the plugin in %s", out, dir)
	}
	if err != nil {
		return fmt.Errorf("check a plugin: %w", err)
	}
	is, err := c.Compile(ctx, dir)
	if err != nil {
		return err
	}
	if bytes.Equal(was, is) {
		return nil
	}
	if c.Language != Go && c.Language != "" {
		return fmt.Errorf("%s differs from what its sources give with %s: they have changed, or it was built with another compiler, or altered; build it again", out, c)
	}
	recorded, err := RecordedDigest(was)
	if err != nil {
		return fmt.Errorf("%s: %w", out, err)
	}
	current, err := RecordedDigest(is)
	if err != nil {
		return fmt.Errorf("rebuild of %s: %w", out, err)
	}
	if recorded != current {
		return fmt.Errorf("%s is stale: its sources have changed, build the plugin in %s again", out, dir)
	}
	return fmt.Errorf("%s differs from what its sources give with %s: it was built with another compiler, or altered; build it again", out, c)
}

// Compile returns the module of the plugin in dir, with the digest of its sources. It does not write to dir. The error lists
// all code that would not work in a guest.
func (c Compiler) Compile(ctx context.Context, dir string) ([]byte, error) {
	wasm, _, err := c.compile(ctx, dir)
	return wasm, err
}

func (c Compiler) compile(ctx context.Context, dir string) ([]byte, []escape, error) {
	if c.Language != Go && c.Language != "" {
		wasm, err := c.link(ctx, dir)
		return wasm, nil, err
	}
	packages, err := listPackages(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	// The digest is computed before compiling, so that a source that is edited meanwhile counts as changed.
	digest, err := digestOf(packages, dir)
	if err != nil {
		return nil, nil, err
	}
	var escapes []escape
	if !c.Guest {
		if escapes, err = lint(packages); err != nil {
			return nil, nil, fmt.Errorf("the plugin in %s cannot work in the sandbox as it is:\n%w", dir, err)
		}
	}
	wasm, err := c.link(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	return recordDigest(wasm, digest), escapes, nil
}

// patience limits the time of a compilation. An ordinary plugin takes seconds.
const patience = 10 * time.Minute

// errEndless is the error for a TinyGo that was stopped. It evaluates init functions, also one that loops.
var errEndless = errors.New("the compiler did not end: it runs functions init and makes package variables while it compiles, see whether one of them loops")

var errSlow = errors.New("the compiler did not end in ten minutes")

func (c Compiler) link(ctx context.Context, dir string) ([]byte, error) {
	scratch, err := os.MkdirTemp("", "keywright-build-")
	if err != nil {
		return nil, fmt.Errorf("build a plugin: %w", err)
	}
	defer os.RemoveAll(scratch) //nolint:errcheck // a temporary directory that stays behind harms nobody

	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("plugin directory %s: %w", dir, err)
	}
	out := filepath.Join(scratch, "plugin.wasm")
	var args []string
	env, endless := os.Environ(), errSlow
	switch c.Language {
	case C:
		args, err = clangArguments(dir, absolute, out)
	case AssemblyScript:
		args = []string{"--outFile", out}
	case Rust:
		args, err = rustArguments(dir, absolute, out)
	default:
		env, endless = withLinker(env), errEndless
		args, err = c.tinygoArguments(scratch, out)
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, cmp.Or(c.patience, patience), endless)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.Path, args...)
	cmd.Dir = dir
	cmd.Env = env
	cmd.WaitDelay = time.Second // child processes of the compiler may keep its output open
	if output, err := cmd.CombinedOutput(); err != nil {
		return nil, commandError(ctx, "compile the plugin in "+dir, err, output)
	}
	wasm, err := os.ReadFile(out)
	if errors.Is(err, fs.ErrNotExist) && c.Language == AssemblyScript { // asc has shown its help
		return nil, fmt.Errorf("compile the plugin in %s: %s names no source: add \"entries\" to it, with the file of the plugin", dir, asconfigFile)
	}
	if err != nil {
		return nil, fmt.Errorf("compile the plugin in %s: %w", dir, err)
	}
	return wasm, nil
}

// tinygoArguments returns the arguments of TinyGo. It writes the target into the directory scratch.
func (c Compiler) tinygoArguments(scratch, out string) ([]string, error) {
	panics := "-panic=print"
	if c.Guest {
		panics = "-panic=trap"
	}
	target := filepath.Join(scratch, "keywright.json")
	if err := os.WriteFile(target, targetJSON, 0o600); err != nil {
		return nil, fmt.Errorf("build a plugin: %w", err)
	}
	return []string{"build", "-target=" + target, "-no-debug", "-opt=z", panics, "-o", out, "."}, nil
}

// commandError returns an error that says what was attempted and includes the command's output, for the user to act on.
func commandError(ctx context.Context, what string, err error, output []byte) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	text := strings.TrimSpace(string(output))
	if text == "" {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w:\n%s", what, err, text)
}
