package daemon

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/gateway"
	"github.com/keywright/keywright/server/internal/operate/difference"
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
	r.daemon = newDaemon(Config{File: r.file, Logger: slog.New(slog.NewTextHandler(r, nil))})
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

// refuses replaces the file, which must not come into use.
func (r *reader) refuses(text string) {
	r.t.Helper()
	r.write(text)
	if err := r.reload(r.t.Context()); err == nil {
		r.t.Fatalf("this is in use:\n%s", text)
	}
}

// following follows the file until the function that it returns is called.
func (r *reader) following(w *fsnotify.Watcher) (stop func()) {
	ctx, end := context.WithCancel(r.t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.follow(ctx, w) }()
	return func() { end(); <-done }
}

// count returns the number of sets that were read.
func (r *reader) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sets)
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
	for end := time.Now().Add(time.Minute); r.count() != 2 || r.open() != 1; {
		if time.Now().After(end) {
			t.Fatalf("%d sets were read, %d are open", r.count(), r.open())
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
	defer r.following(watcher)()
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

// The console knows what the last change altered, and what a file alters that waits for a restart. Of a bad file it has the problems.
func TestFileChanges(t *testing.T) {
	r := newReader(t, file)
	first := r.consoleState()
	if first.Changed != nil || first.Waiting != nil || len(first.Set.SHA256) != 64 {
		t.Errorf("at first there is %+v", first)
	}
	path := []difference.Connector{{Permalink: "echo", Members: []difference.Member{{Path: "method", Before: "GET", After: "POST", Wider: "callers may use POST"}}}}
	has := func(what string, d *difference.Document) {
		t.Helper()
		if d == nil || !slices.EqualFunc(d.Changed, path, func(a, b difference.Connector) bool {
			return a.Permalink == b.Permalink && slices.Equal(a.Members, b.Members)
		}) {
			t.Errorf("%s changes %+v", what, d)
		}
	}
	changed := strings.Replace(file, "    auth:", "    method: POST\n    auth:", 1)
	r.refuses("gateway: {traces: 'https://collector.example.com/v1/traces'}\n" + changed)
	waiting := r.consoleState()
	has("the file that waits", waiting.Waiting)
	if len(waiting.Problems) != 1 || waiting.Problems[0].Text != "gateway.traces cannot be changed while this runs: restart it" || len(waiting.Waiting.Others) != 1 || waiting.Waiting.Others[0].Path != "gateway.traces" {
		t.Errorf("a file that waits is shown as %+v", waiting)
	}
	r.refuses("gateway: {traces: 'https://collector.example.com/v1/traces', tls: {cert: none.pem, key: none.pem}}\n" + changed)
	if missing := r.consoleState(); missing.Waiting != nil || len(missing.Problems) != 1 || !strings.HasPrefix(missing.Problems[0].Text, "gateway.tls: ") {
		t.Errorf("a file that no restart puts in use is shown as %+v", missing)
	}
	r.refuses(strings.Replace(changed, "method", "metod", 1))
	bad := r.consoleState()
	if bad.Waiting != nil || len(bad.Problems) != 1 || bad.Problems[0].Line != "    metod: …" || bad.Problems[0].Indent != "    " || bad.Set.SHA256 != first.Set.SHA256 {
		t.Errorf("a bad file is shown as %+v", bad)
	}
	r.write(changed)
	testworld.Check(t, r.reload(t.Context()))
	used := r.consoleState()
	has("the file in use", used.Changed)
	if used.Waiting != nil || len(used.Problems) > 0 || used.Set.SHA256 == first.Set.SHA256 {
		t.Errorf("the file in use is shown as %+v", used)
	}
}

// While the lines of a bad file are read again, which a disk may delay, the console and /readyz answer.
func TestBadFileLinesWithoutLock(t *testing.T) {
	r := newReader(t, file)
	slow := filepath.Join(t.TempDir(), "slow.yaml")
	testworld.Check(t, syscall.Mkfifo(slow, 0o600))
	r.read = func(context.Context) (*connectors.Set, error) {
		return nil, &connectors.Error{File: r.file, Problems: []connectors.Problem{{File: slow, Line: 1, Column: 1, Message: "is wrong"}}}
	}
	refused := make(chan error)
	go func() { refused <- r.reload(t.Context()) }()
	pipe, err := os.OpenFile(slow, os.O_WRONLY, 0) // waits for the reader
	testworld.Check(t, err)
	if state := r.consoleState(); len(state.Problems) > 0 {
		t.Errorf("the problems are %+v", state.Problems)
	}
	_, err = pipe.WriteString("url: x")
	if err = errors.Join(err, pipe.Close()); err != nil {
		t.Error(err)
	}
	if <-refused == nil {
		t.Error("the file is in use")
	}
	if state := r.consoleState(); len(state.Problems) != 1 || state.Problems[0].Line != "url: …" {
		t.Errorf("the problems are %+v", state.Problems)
	}
}

// A change without an event is noticed, and read once.
func TestPolledChanges(t *testing.T) {
	hangup := make(chan os.Signal, 1) // so that os/signal creates its channels outside of the bubble
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	other := strings.Replace(file, "Echo", "Other", 1)
	put := func(t *testing.T, dir, text string) {
		t.Helper()
		testworld.Check(t, errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "connectors.yaml"), []byte(text), 0o600)))
	}
	for name, change := range map[string]func(t *testing.T, root string) error{
		"a link on the way leads elsewhere": func(t *testing.T, root string) error {
			put(t, filepath.Join(root, "v2"), other)
			return errors.Join(os.Symlink("v2", filepath.Join(root, "new")), os.Rename(filepath.Join(root, "new"), filepath.Join(root, "current")))
		},
		"the directory is replaced": func(t *testing.T, root string) error {
			put(t, filepath.Join(root, "new"), other)
			return errors.Join(os.Rename(filepath.Join(root, "v1"), filepath.Join(root, "old")), os.Rename(filepath.Join(root, "new"), filepath.Join(root, "v1")))
		},
		"the directory is removed and made again": func(t *testing.T, root string) error {
			if err := os.RemoveAll(filepath.Join(root, "v1")); err != nil {
				return err
			}
			put(t, filepath.Join(root, "v1"), other)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			put(t, filepath.Join(root, "v1"), file)
			testworld.Check(t, os.Symlink("v1", filepath.Join(root, "current")))
			silent := testworld.Must(fsnotify.NewWatcher())(t)
			testworld.Check(t, silent.Close())
			silent.Events, silent.Errors = nil, nil
			synctest.Test(t, func(t *testing.T) {
				r := newReaderOf(t, filepath.Join(root, "current", "connectors.yaml"))
				defer r.following(silent)()
				<-time.After(time.Minute) // bubble time
				testworld.Check(t, change(t, root))
				<-time.After(10 * time.Second)
				if _, err := r.current().Find("other"); err != nil {
					t.Error(err)
				}
				<-time.After(time.Minute)
				if n := r.count(); n != 2 {
					t.Errorf("it was read %d times, want 2", n)
				}
			})
		})
	}
}

// A reload that hangs is ended: the file is refused, and the next one is read.
func TestHangingReload(t *testing.T) {
	name := testworld.File(t, "connectors.yaml", file)
	synctest.Test(t, func(t *testing.T) {
		r := newReaderOf(t, name)
		read, late := r.read, make(chan struct{})
		var hangs atomic.Bool
		hangs.Store(true)
		r.read = func(ctx context.Context) (*connectors.Set, error) {
			if hangs.Load() {
				<-late
				return nil, errors.New("it came too late")
			}
			return read(ctx)
		}
		began := time.Now()
		if err := r.reload(t.Context()); !errors.Is(err, errSlow) || r.since().IsZero() {
			t.Errorf("the error is %v, refused since %v", err, r.since())
		}
		if took := time.Since(began); took != readTime {
			t.Errorf("it took %v", took)
		}
		hangs.Store(false)
		if err := r.reload(t.Context()); err != nil || !r.since().IsZero() {
			t.Errorf("the next one: %v, refused since %v", err, r.since())
		}
		close(late)
	})
}

// A check of files on a disk that hangs blocks nothing else, and ends with the program.
func TestHangingDisk(t *testing.T) {
	name := testworld.File(t, "connectors.yaml", file)
	synctest.Test(t, func(t *testing.T) {
		r := newReaderOf(t, name)
		disk, looked := make(chan struct{}), make(chan string, 1)
		r.follows = func(name string) (string, error) { <-disk; return name, nil }
		ctx, end := context.WithCancel(t.Context())
		go func() { looked <- r.state(ctx) }()
		synctest.Wait() // until the check hangs
		if !r.daemon.mu.TryLock() {
			t.Error("requests wait for the disk")
		} else {
			r.daemon.mu.Unlock()
		}
		end()
		if state := <-looked; state != "" {
			t.Errorf("the files are %s", state)
		}
		close(disk)
	})
}
