package testworld

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// File writes a file with a text into a new directory of the test, and returns its path.
func File(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	Check(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// InSharedDir sets dir to a new directory for all tests of a package, and calls run, which is the Run of a testing.M. It returns
// the exit code. Hosts whose code cache is in the directory compile each plugin once: with the race detector, compiling takes most
// of a test's time.
func InSharedDir(dir *string, run func() int) int {
	var err error
	if *dir, err = os.MkdirTemp("", "keywright-tests-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := run()
	if err := os.RemoveAll(*dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
