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

	"github.com/keywright/keywright/internal/testworld"
)

// Pooler returns the URL of the database at address behind a PgBouncer, which lends one of two connections for each transaction.
func Pooler(t testing.TB, address string) string {
	t.Helper()
	database := testworld.Must(url.Parse(address))(t)
	directory := testworld.Must(os.MkdirTemp("", "pgbouncer"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(directory) })
	attributes := testworld.Must(owner(directory))(t)
	configuration := filepath.Join(directory, "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\n* = host=%s user=test\n[pgbouncer]\nlisten_addr =\nunix_socket_dir = %s\nauth_type = any\n"+
		"pool_mode = transaction\ndefault_pool_size = 2\n", database.Query().Get("host"), directory)
	testworld.Check(t, os.WriteFile(configuration, []byte(text), 0o644)) //nolint:gosec // another user reads it
	attributes.Pdeathsig = 0                                             // the thread that starts it may end
	command := exec.CommandContext(context.Background(), "pgbouncer", configuration)
	command.Dir, command.SysProcAttr = directory, attributes
	log := testworld.Must(command.StderrPipe())(t)
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
