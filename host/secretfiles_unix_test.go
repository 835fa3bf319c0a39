//go:build unix

package host_test

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/keywright/keywright/host"
)

// A pipe in the directory is an error, and reading it does not block (threats.md 79).
func TestSecretFromPipe(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	if value, err := host.DirSecrets(dir).Secret(t.Context(), "pipe"); err == nil || value != "" || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("the secret is %q, %v", value, err)
	}
}
