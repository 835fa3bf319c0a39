package docs

import (
	"bytes"
	"context"
	"go/format"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
)

// TestREADME follows the instructions of README.md in a copy of this checkout. All blocks are one session, and each section
// begins in the checkout. The reader's own directories are created beside the copy.
//
//   - A block of sh is run as a whole.
//   - A block under <!-- file: PATH --> is written to that file. The path is relative to the checkout.
//   - A block under <!-- output --> is the output of the commands before it. In a line, … stands for any text; a line … stands
//     for any lines.
//   - A block under <!-- excerpt: PATH --> is a part of the block of that file, which may be indented more.
//   - A block under <!-- picture --> is a drawing.
//
// Any other block fails the test. For make, the test only checks that the target exists, because `make test` runs this test
// and needs what make installs. After the module cache is filled, the session has no network except loopback.
func TestREADME(t *testing.T) {
	dir := testworld.Must(filepath.EvalSymlinks(t.TempDir()))(t)
	checkout := filepath.Join(dir, "keywright")
	r := &reader{checkout: checkout, dir: checkout}
	r.copy(t)
	r.modules(t)
	r.publish(t)
	all := blocks(t, "README.md")
	for _, b := range all {
		if b.section != r.section && r.dir != r.checkout {
			t.Errorf("README.md:%d: who has pasted all so far is in %s here, and not in the checkout", b.line, r.dir)
		}
		r.section = b.section
		file, isFile := strings.CutPrefix(b.marker, "file: ")
		excerpt, isExcerpt := strings.CutPrefix(b.marker, "excerpt: ")
		switch {
		case b.marker == "picture":
		case isExcerpt:
			if !strings.Contains(flat(fileOf(all, excerpt)), flat(b.text)) {
				t.Errorf("README.md:%d: this is not in %s, as README.md has that further down", b.line, excerpt)
			}
		case isFile:
			r.write(t, file, b.text)
		case b.marker == "output":
			r.compare(t, b)
		case b.info == "sh":
			r.run(t, b)
		default:
			t.Errorf("README.md:%d: this block of %q is not tested: write it to a file, run it, or compare it with an output", b.line, b.info)
		}
		if t.Failed() {
			return // the following blocks depend on this one
		}
	}
}

// fileOf returns the text of the block that is written to a file, or "" if there is none.
func fileOf(all []block, file string) string {
	for _, b := range all {
		if b.marker == "file: "+file {
			return b.text
		}
	}
	return ""
}

// flat returns a text without the indentation of its lines.
func flat(text string) string {
	return regexp.MustCompile(`(?m)^\t+`).ReplaceAllString(text, "")
}

// reader is a user who follows README.md.
type reader struct {
	checkout string
	section  string
	dir      string // the current directory of the shell
	output   string // the output of the last block of commands
	proxy    string // where the go command finds published modules
}

// copy copies the checkout without what was installed or built. It shares TinyGo with the original.
func (r *reader) copy(t *testing.T) {
	t.Helper()
	testworld.Check(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, _ := filepath.Rel(root, path)
		target := filepath.Join(r.checkout, relative)
		switch base := entry.Name(); {
		case entry.IsDir() && relative != "." && (strings.HasPrefix(base, ".") || base == "node_modules"):
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(target, 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, info.Mode().Perm())
	}))
	tools := testworld.Must(filepath.Abs(filepath.Join(root, ".build")))(t)
	testworld.Check(t, os.Symlink(tools, filepath.Join(r.checkout, ".build")))
}

// modules fills the module cache, as any go command would. The commands after it have no network.
func (r *reader) modules(t *testing.T) {
	t.Helper()
	for _, module := range []string{".", "server"} {
		cmd := exec.Command("go", "mod", "download")
		cmd.Dir = filepath.Join(r.checkout, module)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("go mod download in %s: %v\n%s", module, err, output)
		}
	}
}

// publish publishes the last commit as a version, for this reader alone. The modules of others come from the module cache.
func (r *reader) publish(t *testing.T) {
	t.Helper()
	dir := filepath.Join(filepath.Dir(r.checkout), "release")
	cmd := exec.CommandContext(t.Context(), "go", "run", ".", "-modules", "v0.1.0", dir)
	cmd.Dir = filepath.Join(root, "tools", "release")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("err = %v\noutput = %s", err, output)
	}
	cache := testworld.Must(exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output())(t)
	r.proxy = "file://" + filepath.Join(dir, "proxy") + ",file://" + filepath.Join(strings.TrimSpace(string(cache)), "cache", "download") + ","
}

func (r *reader) write(t *testing.T, file, text string) {
	t.Helper()
	if strings.HasSuffix(file, ".go") {
		if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text {
			t.Errorf("README.md: %s is not formatted as gofmt does: %v\n%s", file, err, formatted)
		}
	}
	path := filepath.Join(r.checkout, file)
	testworld.Check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	testworld.Check(t, os.WriteFile(path, []byte(text), 0o600))
}

var makeTarget = regexp.MustCompile(`(?m)^make ([a-z-]+)`)

// run runs a block in one shell, and records the directory in which the block ends.
func (r *reader) run(t *testing.T, b block) {
	t.Helper()
	script := "set -euo pipefail\n" + makeTarget.ReplaceAllString(b.text, "make --dry-run $1 >/dev/null") + "\npwd -P >&3\n"
	ctx := t.Context()
	if deadline, ok := t.Deadline(); ok { // stop before go test does, to report the block that has not ended
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-10*time.Second))
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.WaitDelay = time.Second
	cmd.Dir = r.dir
	bin := filepath.Join(filepath.Dir(r.checkout), "bin") // the directory of go install
	cmd.Env = append(os.Environ(), "GOBIN="+bin, "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
		"GOFLAGS=-trimpath -buildvcs=false -modcacherw", // so that the build cache serves every copy
		// All modules are in the module cache. They were verified with the checkout's go.sum when they were downloaded.
		"GOMODCACHE="+filepath.Join(filepath.Dir(r.checkout), "modules"), "GOPROXY="+r.proxy+"off", "GOSUMDB=off", "GOWORK=off", "NO_COLOR=1")
	where, end, err := os.Pipe()
	testworld.Check(t, err)
	defer where.Close()
	cmd.ExtraFiles = []*os.File{end}
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	err = cmd.Run()
	end.Close()
	r.output = output.String()
	if err != nil {
		t.Errorf("README.md:%d: %v\n%s\n%s", b.line, err, b.text, r.output)
		return
	}
	var dir bytes.Buffer
	testworld.Must(dir.ReadFrom(where))(t)
	r.dir = strings.TrimSpace(dir.String())
}

// changing matches the parts of an output that differ between runs: times, and the first characters of credentials.
var changing = regexp.MustCompile(`\d+ µs|\(\d+\.\d+s\)|[\w-]{4}…`)

func stable(text string) string { return changing.ReplaceAllLiteralString(text, "#") }

// compare compares the output of the last commands with a block.
func (r *reader) compare(t *testing.T, b block) {
	t.Helper()
	var pattern strings.Builder
	pattern.WriteString("^")
	for _, line := range strings.Split(stable(strings.TrimSuffix(b.text, "\n")), "\n") {
		if line == "…" {
			pattern.WriteString(`(?:.*\n)*?`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", `.*`) + `[ ]*\n`)
	}
	pattern.WriteString("$")
	if !regexp.MustCompile(pattern.String()).MatchString(stable(r.output)) {
		t.Errorf("README.md:%d: the output is\n%s\nand not\n%s", b.line, r.output, b.text)
	}
}

// The commands of docs/import.md, from the first to the last, write what the page says, and what they import can be loaded.
func TestThePageOfImports(t *testing.T) {
	dir := testworld.Must(filepath.EvalSymlinks(t.TempDir()))(t)
	r := &reader{checkout: filepath.Join(dir, "work"), dir: filepath.Join(dir, "work")}
	testworld.Check(t, os.Mkdir(r.checkout, 0o755))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "bin", "keywright"), "../../cmd/keywright")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("err = %v\nout = %s", err, out)
	}
	ran := 0
	for _, b := range blocks(t, "docs/import.md") {
		file, isFile := strings.CutPrefix(b.marker, "file: ")
		switch {
		case isFile:
			r.write(t, file, b.text)
		case b.marker == "output":
			r.compare(t, b)
		case b.info == "sh":
			r.run(t, b)
			ran++
		default:
			t.Errorf("docs/import.md:%d: this block of %q is not tested", b.line, b.info)
		}
	}
	if ran < 3 {
		t.Errorf("docs/import.md has %d blocks of commands", ran)
	}
}
