package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

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
