package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settle is how long the files have to stay as they are before they are read: editors write in several steps.
const settle = 200 * time.Millisecond

// glance is how often the files are looked at without an event. Some changes cause none: a link on the way to their
// directory leads elsewhere, the directory is replaced, or another machine writes a file.
const glance = 5 * time.Second

// watch watches the directories of the file and of its plugins: a file that is replaced is another one.
func (d *daemon) watch() (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watching the configuration: %w", err)
	}
	for _, name := range d.files() {
		if err := w.Add(filepath.Dir(name)); err != nil {
			return nil, errors.Join(fmt.Errorf("watching %s: %w", filepath.Dir(name), err), w.Close())
		}
	}
	return w, nil
}

// files returns the files whose changes matter: as they are named, and where links of that name lead. The lock is free
// while the links are followed: they may be on a disk that hangs, and requests that are logged take the lock.
func (d *daemon) files() []string {
	files := d.named()
	for _, name := range files {
		if target, err := d.follows(name); err == nil && target != name {
			files = append(files, target)
		}
	}
	return files
}

// named returns the files whose changes matter, as they are named.
func (d *daemon) named() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	files := slices.Concat(d.set.PluginFiles, d.tried)
	if d.config.Text == nil {
		files = append(files, d.config.File)
	}
	return files
}

// state returns a text that is another one when a file has changed: one of those given, or else one of d.files. It returns
// "" when the context ends first: the files may be on a disk that hangs.
func (d *daemon) state(ctx context.Context, files ...string) string {
	states := make(chan string, 1)
	go func() {
		var state strings.Builder
		if files == nil {
			files = d.files()
		}
		for _, name := range files {
			if info, err := os.Stat(name); err == nil {
				_, _ = fmt.Fprintln(&state, name, info.Size(), info.ModTime().UnixNano())
			} else {
				_, _ = fmt.Fprintln(&state, name)
			}
		}
		states <- state.String()
	}()
	select {
	case state := <-states:
		return state
	case <-ctx.Done():
		return ""
	}
}

// follow reloads when a file has changed, or on SIGHUP. (Stores of secrets see their own changes.)
func (d *daemon) follow(ctx context.Context, w *fsnotify.Watcher) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	glances := time.NewTicker(glance)
	defer glances.Stop()
	seen, used := "", d.state(ctx) // the files when they were last looked at, and when they were last read
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			used = d.renew(ctx, w)
		case event := <-w.Events:
			if event.Op != fsnotify.Chmod && d.concerns(event.Name) {
				timer.Reset(settle)
			}
		case err := <-w.Errors:
			d.config.Logger.Warn("watching the configuration", slog.Any("error", err))
			if errors.Is(err, fsnotify.ErrEventOverflow) { // what has changed is not known
				timer.Reset(settle)
			}
		case <-glances.C:
			if state := d.state(ctx); state != used {
				used = state // so that each change brings one reading, also when it came to nothing
				timer.Reset(settle)
			}
		case <-timer.C:
			d.watchAll(w)                             // what is written from now on is seen
			if state := d.state(ctx); state != seen { // somebody may still be at it
				seen = state
				timer.Reset(settle)
				continue
			}
			used = d.renew(ctx, w)
		}
	}
}

// renew reads the file again, and says so once what it names is watched. It returns the state of the files that were read,
// or "" when they have changed meanwhile.
func (d *daemon) renew(ctx context.Context, w *fsnotify.Watcher) string {
	files := d.files()
	before := d.state(ctx, files...)
	err := d.reload(ctx)
	if ctx.Err() != nil {
		return ""
	}
	d.watchAll(w)
	d.report(err)
	if d.state(ctx, files...) != before {
		return ""
	}
	return d.state(ctx) // of other files perhaps: those that the new configuration names
}

// watchAll watches what is there now: a plugin may be in another directory, or a directory be another one.
func (d *daemon) watchAll(w *fsnotify.Watcher) {
	for _, name := range d.files() {
		_ = w.Add(filepath.Dir(name)) // an error is of one that is gone; SIGHUP tries again
	}
}

// concerns reports whether a file that changed is one of the configuration's. In Kubernetes, the link ..data changes.
func (d *daemon) concerns(name string) bool {
	if filepath.Base(name) == "..data" {
		return true
	}
	for _, file := range d.files() {
		if filepath.Clean(file) == filepath.Clean(name) {
			return true
		}
	}
	return false
}
