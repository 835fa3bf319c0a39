package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// A command is the keywright command in a temporary directory. It is compiled for the first row that needs it, and kept for the
// others.
type command struct{ directory string }

// path returns the path of the command.
func (c *command) path(ctx context.Context) (string, error) {
	if c.directory == "" {
		directory, err := os.MkdirTemp("", "keywright-bench-")
		if err != nil {
			return "", err
		}
		build := exec.CommandContext(ctx, "go", "build", "-o", directory, "./cmd/keywright")
		build.Dir = ".." // go run -C server/bench and go test run in server/bench
		if out, err := build.CombinedOutput(); err != nil {
			return "", errors.Join(fmt.Errorf("go build: %w: %s", err, out), os.RemoveAll(directory))
		}
		c.directory = directory
	}
	return filepath.Join(c.directory, "keywright"), nil
}

func (c *command) remove() error {
	if c.directory == "" {
		return nil
	}
	return os.RemoveAll(c.directory)
}

// versionRows returns the row for what every run of the command costs: the processor time of "keywright version".
func versionRows(keywright *command) []row {
	const most = 20 * time.Millisecond
	return []row{{
		work: "keywright version: processor time ÷ 20 ms", against: "20 ms", unit: nanoseconds, goal: 1,
		measure: func(ctx context.Context, s session) (result, error) {
			path, err := keywright.path(ctx)
			if err != nil {
				return result{}, err
			}
			return s.bound(ctx, float64(most), func() (float64, error) { return processorTime(ctx, path, "version") })
		},
	}}
}

// processorTime runs a program, which has to write something, and returns its time in nanoseconds on all processors.
func processorTime(ctx context.Context, path string, args ...string) (float64, error) {
	cmd := exec.CommandContext(ctx, path, args...)
	out, err := cmd.Output()
	if err == nil && len(out) == 0 {
		err = errors.New("it wrote nothing")
	}
	if err != nil {
		return 0, fmt.Errorf("%s: %w", cmd, err)
	}
	return float64(cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()), nil
}
