package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// cached is the command with a cache of its user, which nobody else can write to.
type cached struct {
	t             *testing.T
	program, file string
	// cache is the user's cache, and code the directory for compiled plugins in it.
	cache, code string
}

func newCached(t *testing.T) *cached {
	t.Helper()
	dir, err := os.MkdirTemp("", "keywright-cache-") // in /tmp and with mode 0700, whatever the umask
	testworld.Check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c := &cached{t: t, program: build(t), file: filepath.Join(t.TempDir(), "connectors.yaml"), cache: dir, code: filepath.Join(dir, "keywright", "code")}
	const text = `connectors: [{name: A, url: https://api.example.com, auth: {type: basic, config: {username: u, password: "{{ get_secret('p') }}"}}}]`
	testworld.Check(t, os.WriteFile(c.file, []byte(text), 0o600))
	return c
}

// explain runs the command, and returns what it wrote.
func (c *cached) explain(environment ...string) (output string, err error) {
	run := exec.CommandContext(c.t.Context(), c.program, "explain", "-c", c.file, "a", "/")
	run.Env = append([]string{"XDG_CACHE_HOME=" + c.cache, "KEYWRIGHT_SECRET_P=secret-of-this-test"}, environment...)
	text, err := run.CombinedOutput()
	return string(text), err
}

// files returns the times of the files of compiled plugins, by path.
func (c *cached) files() map[string]string {
	c.t.Helper()
	files := map[string]string{}
	testworld.Check(c.t, filepath.WalkDir(c.cache, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			files[path] = info.ModTime().String()
		}
		return err
	}))
	return files
}

func TestTheSecondRunCompilesNothing(t *testing.T) {
	c := newCached(t)
	first, err := c.explain()
	files := c.files()
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v: first = %s", files, err, first)
	}
	second, err := c.explain()
	if err != nil || second != first || !reflect.DeepEqual(c.files(), files) {
		t.Errorf("the second run: %v\n%s\nwrote %v, there was %v", err, second, c.files(), files)
	}
	// The second run has read the files: with damaged ones, there is a warning.
	for path := range files {
		testworld.Check(t, os.Truncate(path, 100))
	}
	if third, err := c.explain(); err != nil || !strings.Contains(third, "the code cache cannot be used") || !strings.Contains(third, c.code) {
		t.Errorf("with a damaged cache: %v\n%s", err, third)
	}
}

// threats.md 189: compiled plugins are machine code. A cache that somebody else could write to is not used, and one that the operator
// has named is an error.
func TestWritableCache(t *testing.T) {
	c := newCached(t)
	if output, err := c.explain(); err != nil {
		t.Fatalf("%v: output = %s", err, output)
	}
	for path := range c.files() { // so that reading it would show
		testworld.Check(t, os.Truncate(path, 100))
	}
	files := c.files()
	testworld.Check(t, os.Chmod(filepath.Join(c.cache, "keywright"), 0o777))
	if output, err := c.explain(); err != nil || strings.Contains(output, "cache") || !reflect.DeepEqual(c.files(), files) {
		t.Errorf("%v: %s\nwrote %v", err, output, c.files())
	}
	if output, err := c.explain(codeCacheVariable + "=" + c.code); err == nil || !strings.Contains(output, "can be written to by others") {
		t.Errorf("%v: output = %s", err, output)
	}
}

func TestWithoutACache(t *testing.T) {
	c := newCached(t)
	for name, environment := range map[string][]string{
		"off": {codeCacheVariable + "=off"}, "no home": {"XDG_CACHE_HOME=", "HOME="}, "no directory": {"XDG_CACHE_HOME=" + c.file},
	} {
		if output, err := c.explain(environment...); err != nil || strings.Contains(output, "cache") {
			t.Errorf("%s: err = %v: output = %s", name, err, output)
		}
	}
	if files := c.files(); len(files) > 0 {
		t.Errorf("there is %v", files)
	}
	other := filepath.Join(c.cache, "other")
	if output, err := c.explain(codeCacheVariable + "=" + other); err != nil {
		t.Errorf("%v: output = %s", err, output)
	}
	for path := range c.files() {
		if !strings.HasPrefix(path, other) {
			t.Errorf("there is %s", path)
		}
	}
}
