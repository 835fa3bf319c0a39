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
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
	if current, _ := RecordedDigest(is); recorded != current { // Compile has recorded it
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
		path := strings.Trim(llvmBin+string(os.PathListSeparator)+os.Getenv("PATH"), string(os.PathListSeparator))
		env, endless = append(env, "PATH="+path), errEndless // os/exec uses the last of two equal names
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

// buildTags are the build tags that TinyGo sets for targetJSON. The digest does not need TinyGo. A test compares them.
var buildTags = []string{
	"tinygo.wasm", "wasm_unknown", "tinygo", "purego", "osusergo", "math_big_pure_go",
	"gc.leaking", "scheduler.none", "serial.none", "tinygo.unicore",
}

// goPackage is the part of the output of `go list -json` that this package reads.
type goPackage struct {
	ImportPath, Name, Dir string
	Standard              bool

	GoFiles, CgoFiles, CFiles, HFiles, SFiles, EmbedFiles []string
}

// SourceDigest returns the SHA-256, in lower-case hexadecimal, of the sources of the plugin in dir. They are the source and embedded files
// of its package and of all packages that it imports, selected for the guest, without the standard library. The digest does not depend on
// the location of the checkout or the module cache. SourceDigest needs the go command, and not TinyGo.
func SourceDigest(ctx context.Context, dir string) (string, error) {
	packages, err := listPackages(ctx, dir)
	if err != nil {
		return "", err
	}
	return digestOf(packages, dir)
}

func digestOf(packages []goPackage, dir string) (string, error) {
	if len(packages) == 0 || packages[len(packages)-1].Name != "main" {
		return "", fmt.Errorf("plugin directory %s: a plugin is package main", dir)
	}
	var lines []string
	for _, p := range packages {
		if p.Standard {
			continue
		}
		for _, file := range slices.Concat(p.GoFiles, p.CgoFiles, p.CFiles, p.HFiles, p.SFiles, p.EmbedFiles) {
			content, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				return "", fmt.Errorf("sources of the plugin in %s: %w", dir, err)
			}
			lines = append(lines, fmt.Sprintf("%s/%s %x\n", p.ImportPath, filepath.ToSlash(file), sha256.Sum256(content)))
		}
	}
	slices.Sort(lines)
	sum := sha256.Sum256([]byte(strings.Join(lines, "")))
	return hex.EncodeToString(sum[:]), nil
}

// runGo runs the go command with further variables, and returns what it prints. what begins the error.
func runGo(ctx context.Context, what, dir string, variables []string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), variables...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return nil, commandError(ctx, what, err, stderr.Bytes())
	}
	return stdout.Bytes(), nil
}

// listPackages returns the packages that the plugin in dir is built from. The plugin's own package is the last one.
func listPackages(ctx context.Context, dir string) ([]goPackage, error) {
	if err := checkDirectory(dir); err != nil {
		return nil, err
	}
	what := "list the sources of the plugin in " + dir
	variables := []string{"GOOS=linux", "GOARCH=arm", "CGO_ENABLED=1"} // the values that TinyGo reports
	output, err := runGo(ctx, what, dir, variables, "list", "-deps", "-buildvcs=false", "-tags", strings.Join(buildTags, ","),
		"-json=ImportPath,Name,Dir,Standard,GoFiles,CgoFiles,CFiles,HFiles,SFiles,EmbedFiles", ".")
	if err != nil {
		return nil, err
	}
	var packages []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(output)); decoder.More(); {
		var p goPackage
		if err := decoder.Decode(&p); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		packages = append(packages, p)
	}
	return packages, nil
}

// Section is the name of the custom section that holds the digest of a module's sources, as 64 lower-case hexadecimal digits.
const Section = "keywright.sources"

// sectionHead is the section up to the digest: its kind and its length, and the length of its name and the name.
const sectionHead = "\x00\x52\x11" + Section

// ErrNoDigest is the error for a module that does not end with a section named [Section]: one that this package has not built.
var ErrNoDigest = errors.New("no " + Section + " section at its end, build the plugin with tools/plugin")

// recordDigest appends the section to a module, in which custom sections may be anywhere.
func recordDigest(wasm []byte, digest string) []byte { return append(wasm, sectionHead+digest...) }

// RecordedDigest returns the digest in a module, to be compared with [SourceDigest]. The error is [ErrNoDigest] if no digest is there.
func RecordedDigest(wasm []byte) (string, error) {
	rest := wasm[:max(0, len(wasm)-hex.EncodedLen(sha256.Size))]
	if !bytes.HasSuffix(rest, []byte(sectionHead)) {
		return "", ErrNoDigest
	}
	digest := string(wasm[len(rest):])
	if strings.Trim(digest, "0123456789abcdef") != "" {
		return "", fmt.Errorf("section %s does not hold a SHA-256 digest", Section)
	}
	return digest, nil
}
