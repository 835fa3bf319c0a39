package daemon

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/connectors"
)

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
				ctx, end := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { defer close(done); r.follow(ctx, silent) }()
				defer func() { end(); <-done }()
				<-time.After(time.Minute) // bubble time
				testworld.Check(t, change(t, root))
				<-time.After(10 * time.Second)
				if _, err := r.current().Find("other"); err != nil {
					t.Error(err)
				}
				<-time.After(time.Minute)
				r.mu.Lock()
				defer r.mu.Unlock()
				if n := len(r.sets); n != 2 {
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
