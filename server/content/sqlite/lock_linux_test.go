package sqlite_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content/sqlite"
)

// lockEnv is the environment variable that makes the test binary print whether a database is locked.
const lockEnv = "SQLITE_TEST_LOCK"

func TestMain(m *testing.M) {
	if path := os.Getenv(lockEnv); path != "" {
		fmt.Print(locked(path))
		return
	}
	os.Exit(m.Run())
}

// locked reports whether another process holds SQLite's shared lock, which means that it has the database open.
func locked(path string) bool {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	lock := syscall.Flock_t{Type: syscall.F_WRLCK, Start: 1<<30 + 2, Len: 510}
	return syscall.FcntlFlock(file.Fd(), syscall.F_GETLK, &lock) == nil && lock.Type != syscall.F_UNLCK
}

// Opening a file twice in a process does not release the lock of the first store.
func TestTwoStoresOfOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "content.db")
	for n := range 2 {
		store := testworld.Must(sqlite.Open(t.Context(), path))(t)
		defer store.Close()
		other := exec.CommandContext(t.Context(), os.Args[0])
		other.Env = append(os.Environ(), lockEnv+"="+path)
		if out, err := other.Output(); err != nil || string(out) != "true" {
			t.Errorf("with %d stores, it is %s that the file is locked; %v", n+1, out, err)
		}
	}
}
