package audit

import (
	"os"
	"path/filepath"
	"testing"
)

// A log that is replaced by a link to it after it was opened is not written under that name.
func TestLogReplacedByLink(t *testing.T) {
	dir := t.TempDir()
	moved, path := filepath.Join(dir, "moved.log"), filepath.Join(dir, "audit.log")
	if err := os.WriteFile(moved, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	opened, err := os.Stat(moved)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(moved, path); err != nil {
		t.Fatal(err)
	}
	if lock, err := lockFile(path, opened); err == nil {
		t.Error("the file is locked under the name of a link")
		_ = lock.Close()
	}
	lock, err := lockFile(moved, opened)
	if err != nil {
		t.Fatal(err)
	}
	_ = lock.Close()
}
