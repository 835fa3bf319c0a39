package host_test

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// codeCache is the code cache of all worlds.
var codeCache string

func TestMain(m *testing.M) { os.Exit(testworld.InSharedDir(&codeCache, m.Run)) }

// cachedIn returns the time of the last change of each file in a code cache, by path.
func cachedIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	check(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
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

// works checks that a host sends a key.
func (w *world) works() {
	w.t.Helper()
	if got := w.get(w.connect("api_key", key("{{ get_secret('s') }}"))).Header.Get("X-Key"); got != w.secrets["s"] {
		w.t.Errorf("the API got %q", got)
	}
}

func TestCodeCacheSingleWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "made", "yet")
	var first map[string]string
	for range 3 {
		w := newWorld(t, func(c *host.Config) { c.CodeCache = dir })
		w.works()
		files := cachedIn(t, dir)
		if first == nil {
			first = files
		}
		if len(files) != len(w.host.Plugins()) || fmt.Sprint(files) != fmt.Sprint(first) {
			t.Errorf("the cache has %v, and had %v", files, first)
		}
	}
}

// If files in the code cache are damaged, the host compiles again and warns the operator.
func TestDamagedCodeCache(t *testing.T) {
	for name, damage := range map[string]func(string) error{
		"empty":     func(path string) error { return os.Truncate(path, 0) },
		"cut":       func(path string) error { return os.Truncate(path, 100) },
		"no header": func(path string) error { return os.WriteFile(path, make([]byte, 4096), 0o600) },
		"a directory": func(path string) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			return os.Mkdir(path, 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			with := func(c *host.Config) { c.CodeCache = dir }
			newWorld(t, with)
			for path := range cachedIn(t, dir) {
				check(t, damage(path))
			}
			w := newWorld(t, with)
			w.works()
			if log := w.log.String(); !strings.Contains(log, "the code cache cannot be used") || !strings.Contains(log, dir) {
				t.Errorf("the log does not say so: %s", log)
			}
		})
	}
}

// Cached code runs outside of the sandbox. Another user who could put code there, or put another directory in its
// place, could run code in the host's process.
func TestWritableCodeCache(t *testing.T) {
	cached := func(t *testing.T) (parent, dir string) {
		parent = t.TempDir()
		dir = filepath.Join(parent, "cache")
		newWorld(t, func(c *host.Config) { c.CodeCache = dir })
		return parent, dir
	}
	inside := func(dir, pattern string) string {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("nothing is like %s: %v", pattern, err)
		}
		return found[0]
	}
	// Package sandbox tests the modes.
	for name, place := range map[string]func(parent, dir string) string{
		"the directory":         func(_, dir string) string { return dir },
		"a directory within it": func(_, dir string) string { return inside(dir, "*") },
		"a file within it":      func(_, dir string) string { return inside(dir, "*/*") },
		"the directory above":   func(parent, _ string) string { return parent },
	} {
		t.Run(name, func(t *testing.T) {
			parent, dir := cached(t)
			check(t, os.Chmod(place(parent, dir), 0o702))
			testworld.WantError(t, "", testworld.ErrorOf(host.New(context.Background(), host.Config{CodeCache: dir})), place(parent, dir)+" can be written to by others")
		})
	}
	parent, dir := cached(t)
	if err := os.Chmod(parent, 0o777|fs.ModeSticky); err != nil { // like /tmp
		t.Fatal(err)
	}
	newWorld(t, func(c *host.Config) { c.CodeCache = dir })
	file := filepath.Join(t.TempDir(), "file")
	check(t, os.WriteFile(file, nil, 0o600))
	testworld.WantError(t, "a file", testworld.ErrorOf(host.New(context.Background(), host.Config{CodeCache: file})), "code cache")
}
