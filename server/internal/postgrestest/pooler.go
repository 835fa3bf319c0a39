package postgrestest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Pooler returns the URL of the database at address behind a PgBouncer, which lends one of two connections for each transaction.
func Pooler(t testing.TB, address string) string {
	t.Helper()
	database, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	directory, err := os.MkdirTemp("", "pgbouncer")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	attributes, err := owner(directory)
	if err != nil {
		t.Fatal(err)
	}
	configuration := filepath.Join(directory, "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\n* = host=%s user=test\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = %s\nauth_type = any\n"+
		"pool_mode = transaction\ndefault_pool_size = 2\n", database.Query().Get("host"), directory)
	if err := os.WriteFile(configuration, []byte(text), 0o644); err != nil { //nolint:gosec // another user reads it
		t.Fatal(err)
	}
	attributes.Pdeathsig = 0 // the thread that starts it may end
	command := exec.CommandContext(context.Background(), "pgbouncer", configuration)
	command.Dir, command.SysProcAttr = directory, attributes
	log, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatalf("start a PgBouncer, from the Debian package pgbouncer, as make deps does: %v", err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	var output strings.Builder
	for lines := bufio.NewScanner(log); !strings.Contains(output.String(), "process up"); {
		if !lines.Scan() {
			t.Fatalf("PgBouncer ended: %s", &output)
		}
		output.WriteString(lines.Text() + "\n")
	}
	go func() { _, _ = io.Copy(io.Discard, log) }()
	database.RawQuery = url.Values{"host": {directory}, "port": {"6432"}}.Encode()
	return database.String()
}
