package audit

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
)

// A log that is replaced by a link to it after it was opened is not written under that name.
func TestLogReplacedByLink(t *testing.T) {
	dir := t.TempDir()
	moved, path := filepath.Join(dir, "moved.log"), filepath.Join(dir, "audit.log")
	testworld.Check(t, os.WriteFile(moved, nil, 0o600))
	opened := testworld.Must(os.Stat(moved))(t)
	testworld.Check(t, os.Symlink(moved, path))
	if lock, err := lockFile(path, opened); err == nil {
		t.Error("the file is locked under the name of a link")
		_ = lock.Close()
	}
	lock := testworld.Must(lockFile(moved, opened))(t)
	_ = lock.Close()
}
