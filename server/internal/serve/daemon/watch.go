package daemon

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

// pollInterval is the interval at which the files are looked at. A change is read once they have stayed as they are for that long, because
// editors write in several steps. Events of the system would tell of no changed link, replaced directory, or write from another machine. Tests
// have a shorter one.
var pollInterval = time.Second

// files returns the files whose changes cause a reload.
func (d *daemon) files() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	files := slices.Concat(d.set.Files, d.refusedPlugins)
	if d.config.Text == nil {
		files = append(files, d.config.File)
	}
	return files
}

// state returns a text that changes when one of the files does. Without files it uses d.files. It returns "" if ctx ends first,
// because the files may be on a disk that hangs.
func (d *daemon) state(ctx context.Context, files ...string) string {
	if files == nil {
		files = d.files()
	}
	states := make(chan string, 1)
	go func() {
		var state strings.Builder
		for _, name := range files {
			target, err := d.follows(name)
			if info, statErr := os.Stat(target); err == nil && statErr == nil {
				_, _ = fmt.Fprintln(&state, name, target, info.Size(), info.ModTime().UnixNano())
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

// follow reloads the configuration when a file changes and on SIGHUP. used is the state of the files when last read. Stores of secrets notice
// their own changes.
func (d *daemon) follow(ctx context.Context, used string) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	polls := time.NewTicker(pollInterval)
	defer polls.Stop()
	lastState := "" // when last looked at
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			used, _ = d.renew(ctx)
		case done := <-d.reloads:
			var err error
			used, err = d.renew(ctx)
			done <- err
		case <-polls.C:
			switch state := d.state(ctx); state {
			case used:
			case lastState: // nothing is being written any more
				used, _ = d.renew(ctx)
			default:
				lastState = state
			}
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

// renew reloads the configuration, and logs the result. It returns the state of the files that were read, or "" if they have changed
// meanwhile, and the error of the reload.
func (d *daemon) renew(ctx context.Context) (state string, err error) {
	files := d.files()
	oldState := d.state(ctx, files...)
	err = d.reload(ctx)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	d.report(err)
	state = d.state(ctx) // of the files that the new configuration names
	if d.state(ctx, files...) != oldState {
		return "", err
	}
	return state, err
}
