package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
)

const file = `connectors:
  - name: Echo
    url: https://api.example.com
    auth: {type: none}
`

// A reader is a daemon without servers, with all sets that it has read.
type reader struct {
	*daemon
	t     *testing.T
	file  string
	mu    sync.Mutex
	sets  []*connectors.Set
	lines chan string
}

// Write implements the log.
func (r *reader) Write(line []byte) (int, error) {
	r.lines <- string(bytes.TrimSpace(line))
	return len(line), nil
}

func newReader(t *testing.T, text string) *reader {
	t.Helper()
	name := filepath.Join(t.TempDir(), "connectors.yaml")
	(&reader{t: t, file: name}).write(text)
	return newReaderOf(t, name)
}

// newReaderOf is like newReader for an existing file.
func newReaderOf(t *testing.T, name string) *reader {
	t.Helper()
	r := &reader{t: t, file: name, lines: make(chan string, 100)}
	r.daemon = testworld.Must(newDaemon(Config{File: r.file, Logger: slog.New(slog.NewTextHandler(r, nil))}))(t)
	read := r.read
	r.read = func(ctx context.Context) (*connectors.Set, error) {
		set, err := read(ctx)
		if set != nil {
			r.mu.Lock()
			r.sets = append(r.sets, set)
			r.mu.Unlock()
		}
		return set, err
	}
	r.gateway = gateway.New(gateway.Config{})
	first := testworld.Must(r.heard(t.Context()))(t)
	r.use(first)
	t.Cleanup(func() {
		r.end()
		if n := r.open(); n != 0 {
			t.Errorf("%d hosts are open at the end", n)
		}
	})
	return r
}

func (r *reader) write(text string) {
	r.t.Helper()
	testworld.Check(r.t, os.WriteFile(r.file, []byte(text), 0o600))
}

// open returns the number of hosts that are not closed.
func (r *reader) open() (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, set := range r.sets {
		if _, err := set.Host.NewConnector(context.Background(), host.ConnectorConfig{}); !errors.Is(err, host.ErrClosed) {
			n++
		}
	}
	return n
}

// A file that is read and then refused leaves no host open, however often it is read.
func TestNothingOfARefusedFileStaysOpen(t *testing.T) {
	users := "gateway: {user: {type: header, header: {proxies: [192.0.2.1], email: X-Email}}}\n"
	keys := "gateway: {user: {type: jwt, jwt: {bearer: true, jwks_file: none.json, issuer: https://id.example.com, audiences: gateway}}}\n"
	cert, key := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	certText, keyText := testworld.NewAuthority(t).Client("gateway", time.Now().Add(time.Hour))
	testworld.Check(t, errors.Join(os.WriteFile(cert, []byte(certText), 0o600), os.WriteFile(key, []byte(keyText), 0o600)))
	for name, c := range map[string]struct{ first, next, want string }{
		"users are taken away":  {users + file, file, "gateway.user cannot be taken away"},
		"TLS is added":          {file, "gateway: {tls: {cert: " + cert + ", key: " + key + "}}\n" + file, "gateway.tls cannot be added"},
		"TLS has no files":      {file, "gateway: {tls: {cert: a, key: b}}\n" + file, "gateway.tls: "},
		"traces are added":      {file, "gateway: {traces: 'http://localhost/v1/traces'}\n" + file, "gateway.traces cannot be changed"},
		"keys are not there":    {file, keys + file, "the file of keys cannot be read"},
		"a connector is wrong":  {file, strings.Replace(file, "none", "nome", 1), "there is no auth type"},
		"plugins are not there": {file, "plugins: [{path: none.wasm}]\n" + file, "does not exist"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReader(t, c.first)
			r.write(c.next)
			for range 3 {
				testworld.WantError(t, "", r.reload(t.Context()), c.want)
			}
			if n := r.open(); n != 1 {
				t.Errorf("%d hosts are open, want the one in use", n)
			}
			r.write(c.first)
			if err := r.reload(t.Context()); err != nil || !r.since().IsZero() {
				t.Errorf("with the file as it was: %v, refused since %v", err, r.since())
			}
		})
	}
}

// A set that is read after its reload was given up is closed.
func TestLateSetClosed(t *testing.T) {
	r := newReader(t, file)
	read, ctx, late := r.read, t.Context(), make(chan struct{})
	ctx, end := context.WithCancel(ctx)
	r.read = func(context.Context) (*connectors.Set, error) {
		end()
		<-late
		return read(context.Background())
	}
	if err := r.reload(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	close(late)
	for end := time.Now().Add(time.Minute); ; {
		r.mu.Lock()
		n := len(r.sets)
		r.mu.Unlock()
		if n == 2 && r.open() == 1 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d sets were read, %d are open", n, r.open())
		}
	}
	if !r.since().IsZero() {
		t.Error("the end of the program is taken for a fault of the file")
	}
}

// When the system has lost events, the file is read, because any file may have changed.
func TestAnOverflowOfEventsHasTheFileRead(t *testing.T) {
	r := newReader(t, file)
	watcher := testworld.Must(fsnotify.NewWatcher())(t)
	defer watcher.Close()
	ctx, end := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.follow(ctx, watcher) }()
	defer func() { end(); <-done }()
	r.write(strings.Replace(file, "Echo", "Other", 1)) // not watched
	watcher.Errors <- fsnotify.ErrEventOverflow
	for {
		select {
		case line := <-r.lines:
			if strings.Contains(line, "the configuration is in use") {
				if _, err := r.current().Find("other"); err != nil {
					t.Error(err)
				}
				return
			}
		case <-time.After(time.Minute):
			t.Fatal("the file was not read")
		}
	}
}
