package files_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/files"
	"github.com/keywright/keywright/internal/testworld"
)

// Of what is longer than it may be, one byte more is read, and no more.
func TestRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	for _, c := range []struct{ content, want string }{{"", ""}, {"abc", "abc"}, {"abcd", "abcd"}, {"abcdef", "abcd"}} {
		testworld.Check(t, os.WriteFile(name, []byte(c.content), 0o600))
		if got, err := files.Read(name, 3); string(got) != c.want || err != nil {
			t.Errorf("Read of %q = %q, %v, want %q", c.content, got, err, c.want)
		}
		if got, err := files.ReadAll(strings.NewReader(c.content), int64(3)); string(got) != c.want || err != nil {
			t.Errorf("ReadAll of %q = %q, %v, want %q", c.content, got, err, c.want)
		}
	}
	if _, err := files.Read(name+"x", 3); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Read of a missing file: err = %v, want ErrNotExist", err)
	}
}

// A file is replaced with its mode, and nothing else is left in its directory. After an error, it is as it was.
func TestReplace(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	for _, content := range []string{"first", "second"} {
		testworld.Check(t, files.Replace(name, []byte(content), 0o644))
		if got, err := os.ReadFile(name); string(got) != content || err != nil {
			t.Errorf("content = %q, %v, want %q", got, err, content)
		}
	}
	if info, err := os.Stat(name); err != nil || info.Mode() != 0o644 {
		t.Errorf("mode = %v, %v, want 0644", info.Mode(), err)
	}
	if err := files.Replace(dir, nil, 0o644); err == nil {
		t.Error("a directory is replaced, want an error")
	}
	if all, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(all) != 1 {
		t.Errorf("the directory has %v, %v, want file alone", all, err)
	}
	if all, _ := filepath.Glob(filepath.Join(dir, ".*")); len(all) > 0 {
		t.Errorf("the directory has %v, want no temporary file", all)
	}
}
