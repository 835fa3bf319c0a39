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

// settle is the time for which the files must be unchanged before they are read, because editors write in several steps.
const settle = 200 * time.Millisecond

// pollInterval is the interval at which the files are checked without an event. Some changes cause no event: a changed link to their
// directory, a replaced directory, or a write from another machine.
const pollInterval = 5 * time.Second

// watch watches the directories of the file and of its plugins: a replaced file would not be watched any more.
func (d *daemon) watch() (*fsnotify.Watcher, error) {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watching the configuration: %w", err)
	}
	for _, name := range d.files() {
		if err := w.Add(watched(name)); err != nil {
			return nil, errors.Join(fmt.Errorf("watching %s: %w", watched(name), err), w.Close())
		}
	}
	return w, nil
}

// watched returns the directory to watch for a file: the one that it is in, or the file itself if it is a directory of connectors.
func watched(name string) string {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return name
	}
	return filepath.Dir(name)
}

// files returns the files whose changes cause a reload, and the targets of those that are links. It does not hold d.mu while
// it follows links: they may be on a disk that hangs, and the log of requests needs the lock.
func (d *daemon) files() []string {
	d.mu.Lock()
	files := slices.Concat(d.set.Files, d.refusedPlugins)
	d.mu.Unlock()
	if d.config.Text == nil {
		files = append(files, d.config.File)
	}
	for _, name := range files {
		if target, err := d.follows(name); err == nil && target != name {
			files = append(files, target)
		}
	}
	return files
}

// state returns a text that changes when one of the files does. Without files it uses d.files. It returns "" if ctx ends first,
// because the files may be on a disk that hangs.
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

// follow reloads the configuration when a file changes and on SIGHUP. Stores of secrets notice their own changes.
func (d *daemon) follow(ctx context.Context, w *fsnotify.Watcher) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	polls := time.NewTicker(pollInterval)
	defer polls.Stop()
	lastState, used := "", d.state(ctx) // the state of the files when last checked, and when last read
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			used, _ = d.renew(ctx, w)
		case done := <-d.reloads:
			var err error
			used, err = d.renew(ctx, w)
			done <- err
		case event := <-w.Events:
			if event.Op != fsnotify.Chmod && d.concerns(event.Name) {
				timer.Reset(settle)
			}
		case err := <-w.Errors:
			d.config.Logger.Warn("watching the configuration", slog.Any("error", err))
			if errors.Is(err, fsnotify.ErrEventOverflow) { // some changes are unknown
				timer.Reset(settle)
			}
		case <-polls.C:
			if state := d.state(ctx); state != used {
				used = state // so that each change causes one reload, even a failed one
				timer.Reset(settle)
			}
		case <-timer.C:
			d.watchAll(w)                                  // before the check, so that no later write is missed
			if state := d.state(ctx); state != lastState { // the files may still be being written
				lastState = state
				timer.Reset(settle)
				continue
			}
			used, _ = d.renew(ctx, w)
		}
	}
}

// ask has follow reload the configuration, and returns the error of that.
func (d *daemon) ask(ctx context.Context) error {
	done := make(chan error, 1)
	select {
	case d.reloads <- done:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// renew reloads the configuration, watches the files that it names, and logs the result. It returns the state of the files
// that were read, or "" if they have changed meanwhile, and the error of the reload.
func (d *daemon) renew(ctx context.Context, w *fsnotify.Watcher) (state string, err error) {
	files := d.files()
	oldState := d.state(ctx, files...)
	err = d.reload(ctx)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	d.watchAll(w)
	d.report(err)
	if d.state(ctx, files...) != oldState {
		return "", err
	}
	return d.state(ctx), err // the new configuration may name other files
}

// watchAll watches the current directories of the files: a plugin may have moved, or a directory may have been replaced.
func (d *daemon) watchAll(w *fsnotify.Watcher) {
	for _, name := range d.files() {
		_ = w.Add(watched(name)) // the directory may be gone; SIGHUP tries again
	}
}

// concerns reports whether a changed file belongs to the configuration. In Kubernetes, the link ..data changes.
func (d *daemon) concerns(name string) bool {
	return filepath.Base(name) == "..data" || slices.ContainsFunc(d.files(), func(file string) bool {
		return filepath.Clean(file) == filepath.Clean(name) || filepath.Clean(file) == filepath.Dir(name) // it may be in the directory of connectors
	})
}
