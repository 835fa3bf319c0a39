package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

var written struct {
	once sync.Once
	dir  string
	err  error
}

// output returns the directory of the site of the repository, which it writes once.
func output(t *testing.T) string {
	t.Helper()
	written.once.Do(func() {
		if written.dir, written.err = os.MkdirTemp("", "site"); written.err == nil {
			written.err = run([]string{"0.1", written.dir})
		}
	})
	testworld.Check(t, written.err)
	return written.dir
}

func TestMain(m *testing.M) {
	code := m.Run()
	_ = os.RemoveAll(written.dir)
	os.Exit(code)
}

// pages returns the HTML files below a directory, by their names.
func pages(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	testworld.Check(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".html") {
			all[strings.TrimPrefix(filepath.ToSlash(path), filepath.ToSlash(dir)+"/")] = string(testworld.Must(os.ReadFile(path))(t))
		}
		return err
	}))
	return all
}
