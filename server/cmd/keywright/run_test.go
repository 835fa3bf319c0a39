package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

// keywright runs a command line in this process.
func keywright(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, err strings.Builder
	code = run(ctx, args, strings.NewReader(""), &out, &err, noEnvironment)
	return code, out.String(), err.String()
}

// exitsWith runs a command line, and checks its exit code and whether stderr has a text.
func exitsWith(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	if got, _, stderr := keywright(t.Context(), args...); got != code || !strings.Contains(stderr, want) {
		t.Errorf("%q: exit %d, want %d, and %q in stderr:\n%s", args, got, code, want, stderr)
	}
}

// Each command has a section in help.txt, and each section is that of a command.
func TestCommandWords(t *testing.T) {
	commands := 0
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if commands++; c.Short == "" {
			t.Errorf("help.txt has no section %q", c.CommandPath())
		}
		for _, below := range c.Commands() {
			visit(below)
		}
	}
	visit(newApp(nil, io.Discard, io.Discard, noEnvironment).root())
	if sections := strings.Count("\n"+helpText, "\n# "); sections != commands {
		t.Errorf("help.txt has %d sections, and there are %d commands", sections, commands)
	}
}

// Ctrl-C ends a running request.
func TestInterrupt(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		interrupt()
		<-r.Context().Done() // the client has closed the connection
		close(gone)
	}))
	defer server.Close()
	file := testworld.File(t, "c.yaml", "connectors: [{name: a, url: '"+server.URL+"', auth: {type: none}}]\n")
	code, stdout, stderr := keywright(ctx, "request", "--dev", "-c", file, "a", "/")
	if code != exitFailure || stdout != "" || !strings.HasSuffix(stderr, "\nkeywright: interrupted\n") {
		t.Errorf("exit %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	<-gone
}

// A file of --secrets-dir is read once in a second, and its value is used no longer than that (threats.md 78).
func TestDirectorySecretCache(t *testing.T) {
	file := testworld.File(t, "crm", "the first\n")
	synctest.Test(t, func(t *testing.T) {
		options, err := newApp(nil, io.Discard, io.Discard, os.Getenv).options(&cobra.Command{}, &configFlags{secretsDir: filepath.Dir(file)})
		testworld.Check(t, err)
		want := func(store host.Secrets, want string) {
			t.Helper()
			if value, err := store.Secret(t.Context(), "crm"); value != want || want == "" != errors.Is(err, host.ErrSecretNotFound) {
				t.Errorf("the secret is %q, %v; want %q", value, err, want)
			}
		}
		want(options.First, "the first")
		want(options.Host.Secrets, "the first")
		testworld.Check(t, os.Remove(file))
		<-time.After(time.Second - time.Nanosecond) // bubble time
		want(options.First, "the first")
		want(options.Host.Secrets, "the first")
		<-time.After(time.Nanosecond)
		want(options.First, "")
		want(options.Host.Secrets, "")
	})
}
