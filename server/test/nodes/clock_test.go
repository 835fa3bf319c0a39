package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/connectors"
	"github.com/keywright/keywright/server/internal/secretstore"
	"github.com/keywright/keywright/server/internal/serve/daemon"
)

const (
	// wrong is the node whose clock is wrong.
	wrong = 0
	// skew is added to its time, and at each second start subtracted.
	skew = 2 * time.Minute
	// clockEnv is set in a process of this test that is a node. Its value is added to the time.
	clockEnv = "KEYWRIGHT_TEST_CLOCK"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(clockEnv); text != "" {
		if err := serve(text, os.Args[1], os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// command returns the command that runs a node. A Go program takes the time from the kernel, where nothing but the kernel can
// change it for a single process. So the node whose clock is wrong is this test, with the daemon that keywright serve runs.
func (c *cluster) command(i int) (*exec.Cmd, error) {
	if i != wrong {
		return exec.Command(c.program, "serve", "-c", c.file, "--secrets-dir", c.secrets, "--dev", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"), nil
	}
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	off := skew
	if c.skewed++; c.skewed%2 == 0 {
		off = -skew
	}
	command := exec.Command(program, c.file, c.secrets)
	command.Env = append(os.Environ(), clockEnv+"="+off.String())
	return command, nil
}

// serve does what keywright serve does, with a clock that is wrong.
func serve(off, file, secrets string) error {
	d, err := time.ParseDuration(off)
	if err != nil {
		return err
	}
	clock := func() time.Time { return time.Now().Add(d) }
	logger := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	files := secretstore.Dir(secrets, clock)
	return daemon.Run(context.Background(), daemon.Config{
		File: file, Listen: "127.0.0.1:0", Admin: "127.0.0.1:0", Logger: logger,
		Options: connectors.Options{First: files, Host: host.Config{
			Secrets: files, Clock: clock, Logger: logger, Egress: host.Egress{AllowHTTP: true, AllowPrivate: true},
		}},
		Started: func(callers, _ string) { fmt.Println("callers: " + callers + "/connectors/") },
	})
}
