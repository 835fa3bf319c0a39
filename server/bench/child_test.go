package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// Some rows measure a separate process: one that has just started, that holds nothing else, or that has one processor. For
// these, the test runs itself with childVerb, and reads the number that the child writes.

const childVerb = "child"

var children = map[string]func(ctx context.Context, args []string) (float64, error){
	"start": childStart, "compile": childCompile, "idle": childIdle, "throughput": childThroughput,
}

func runChild(ctx context.Context, args []string, stdout io.Writer) error {
	if len(args) == 0 || children[args[0]] == nil {
		return errors.New("this is for the command itself to use")
	}
	value, err := children[args[0]](ctx, args[1:])
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, value)
	return err
}

// child runs one of children with additional environment variables, and returns its number.
func child(ctx context.Context, environment []string, args ...string) (float64, error) {
	path, err := os.Executable()
	if err != nil {
		return 0, err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, path, append([]string{childVerb}, args...)...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("child %s: %w: %s", strings.Join(args, " "), err, &stderr)
	}
	return strconv.ParseFloat(strings.TrimSpace(stdout.String()), 64)
}
