// Package postgrestest runs a PostgreSQL server for tests and benchmarks, with the programs of the Debian package and
// its data in a temporary directory.
package postgrestest

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/keywright/keywright/internal/testworld"
)

// Server is a PostgreSQL server that listens on a Unix socket only.
type Server struct {
	directory string
	command   func() *exec.Cmd
	stop      func()
	done      chan struct{}
	databases atomic.Int64
}

// Start creates and starts an empty server. A setting is a parameter such as "shared_buffers=1GB". The data are not
// safe from a power failure. On Linux, the server ends when this process ends for any reason.
func Start(settings ...string) (*Server, error) {
	directory, err := os.MkdirTemp("", "postgres")
	if err != nil {
		return nil, err
	}
	s := &Server{directory: directory, done: make(chan struct{})}
	if err := s.start(settings); err != nil {
		return nil, errors.Join(fmt.Errorf("start a PostgreSQL for tests: %w", err), os.RemoveAll(directory))
	}
	return s, nil
}

func (s *Server) start(settings []string) error {
	attributes, err := owner(s.directory)
	if err != nil {
		return err
	}
	initdb, err := program("initdb")
	if err != nil {
		return err
	}
	// The default collation does not sort by bytes, so that tests find columns that rely on the default.
	create := exec.CommandContext(context.Background(), initdb, "--pgdata", filepath.Join(s.directory, "data"), "--username", "test", "--auth", "trust", "--no-sync",
		"--encoding", "UTF8", "--locale", "C.UTF-8", "--locale-provider", "icu", "--icu-locale", "en")
	create.Dir, create.SysProcAttr = s.directory, attributes
	if output, err := create.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, output)
	}
	postgres := filepath.Join(filepath.Dir(initdb), "postgres")
	arguments := []string{"-D", filepath.Join(s.directory, "data"), "-k", s.directory}
	for _, setting := range append([]string{
		"listen_addresses=", "fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=100",
	}, settings...) {
		arguments = append(arguments, "-c", setting)
	}
	s.command = func() *exec.Cmd {
		command := exec.CommandContext(context.Background(), postgres, arguments...)
		command.Dir, command.SysProcAttr = s.directory, attributes
		return command
	}
	return s.run(s.command())
}

// Restart ends the server, which breaks all connections, calls meanwhile, and starts the server again with the same data.
func (s *Server) Restart(meanwhile func()) error {
	s.stop()
	<-s.done
	meanwhile()
	s.done = make(chan struct{})
	if err := s.run(s.command()); err != nil {
		return fmt.Errorf("start a PostgreSQL for tests again: %w", err)
	}
	return nil
}

// run starts the server and returns when it is ready. A goroutine keeps the thread that started it, with which Linux ends the server.
func (s *Server) run(command *exec.Cmd) error {
	log, err := command.StderrPipe()
	if err != nil {
		return err
	}
	ready := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer close(s.done)
		if err := command.Start(); err != nil {
			ready <- err
			return
		}
		s.stop = func() { _ = command.Process.Signal(syscall.SIGINT) } // a fast shutdown
		var output strings.Builder
		started := false
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if !started {
				fmt.Fprintln(&output, lines.Text())
				if started = strings.Contains(lines.Text(), "ready to accept connections"); started {
					ready <- nil
				}
			}
		}
		if err := command.Wait(); !started {
			ready <- fmt.Errorf("it ended: %w\n%s", err, output.String())
		}
	}()
	return <-ready
}

// Stop ends the server and removes its data.
func (s *Server) Stop() error {
	s.stop()
	<-s.done
	return os.RemoveAll(s.directory)
}

// Database creates an empty database and returns its URL.
func (s *Server) Database(ctx context.Context) (string, error) {
	name := "test" + strconv.FormatInt(s.databases.Add(1), 10)
	db, err := sql.Open("pgx", s.url("postgres"))
	if err != nil {
		return "", err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		return "", fmt.Errorf("make a database for a test: %w", err)
	}
	return s.url(name), nil
}

func (s *Server) url(database string) string {
	return (&url.URL{Scheme: "postgres", User: url.User("test"), Path: "/" + database, RawQuery: url.Values{"host": {s.directory}}.Encode()}).String()
}

// program returns the path of a program of PostgreSQL: from the newest Debian package that is installed, or on PATH.
func program(name string) (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name)
	if len(found) > 0 {
		return slices.Max(found), nil // each version has two digits
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("there is no %s: install the Debian package postgresql, as make deps does", name)
	}
	return filepath.EvalSymlinks(path)
}

// shared starts the server that the tests of a package share, which is running then.
var (
	shared = sync.OnceValues(func() (s *Server, err error) {
		running, err = Start()
		return running, err
	})
	running *Server
)

// Main runs the tests of a package and stops the server that [Database] has started for them. TestMain calls it.
func Main(m *testing.M) int {
	defer func() {
		if running != nil {
			_ = running.Stop()
		}
	}()
	return m.Run()
}

// Database returns the URL of an empty database in the server that the tests of a package share.
func Database(t testing.TB) string {
	t.Helper()
	return testworld.Must(testworld.Must(shared())(t).Database(context.Background()))(t)
}

// owner returns the attributes to start PostgreSQL with. It refuses to run as root, so in place of root another user
// runs it and becomes the owner of the directory.
func owner(directory string) (*syscall.SysProcAttr, error) {
	attributes := &syscall.SysProcAttr{Pdeathsig: syscall.SIGQUIT}
	if os.Geteuid() != 0 {
		return attributes, nil
	}
	who, err := user.Lookup("postgres")
	if err != nil {
		if who, err = user.Lookup("nobody"); err != nil {
			return nil, fmt.Errorf("find a user for PostgreSQL, which does not run as root: %w", err)
		}
	}
	uid, _ := strconv.ParseUint(who.Uid, 10, 32)
	gid, _ := strconv.ParseUint(who.Gid, 10, 32)
	attributes.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attributes, os.Chown(directory, int(uid), int(gid))
}

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

// Dump returns what pg_dump writes about a database, and behind it the bytes that it writes in hex.
func Dump(ctx context.Context, address string) (string, error) {
	pgDump, err := program("pg_dump")
	if err != nil {
		return "", err
	}
	command := exec.CommandContext(ctx, pgDump, "--dbname", address)
	command.Stderr = os.Stderr
	text, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("pg_dump: %w", err)
	}
	var all strings.Builder
	all.Write(text)
	for _, in := range inHex.FindAllSubmatch(text, -1) {
		value, _ := hex.DecodeString(string(in[1])) // inHex has pairs of digits
		all.WriteByte('\n')
		all.Write(value)
	}
	return all.String(), nil
}

var inHex = regexp.MustCompile(`\\\\x((?:[0-9a-f]{2})+)`)
