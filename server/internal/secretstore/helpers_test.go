package secretstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newClock() *testworld.Clock {
	return testworld.NewClock(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC))
}

// canaries are random secrets, which no error may hold in any form: threats.md 18, 19 and 20.
type canaries struct {
	*testworld.Canaries
	t *testing.T
}

func newCanaries(t *testing.T) *canaries { return &canaries{testworld.NewCanaries(t), t} }

// want checks that a store has a secret.
func (c *canaries) want(store host.Secrets, name, value string) {
	c.t.Helper()
	got, err := store.Secret(c.t.Context(), name)
	c.OutError("an error", err)
	if err != nil || got != value {
		c.t.Fatalf("secret %q is %q, %v; want %q", name, got, err, value)
	}
}

// wantMissing checks that a store does not have a secret, and that the error contains words.
func (c *canaries) wantMissing(store host.Secrets, name, words string) {
	c.t.Helper()
	c.wantError(store, name, words, true)
}

// wantFailure checks that a lookup fails with another error than ErrSecretNotFound, which contains words.
func (c *canaries) wantFailure(store host.Secrets, name, words string) {
	c.t.Helper()
	c.wantError(store, name, words, false)
}

func (c *canaries) wantError(store host.Secrets, name, words string, missing bool) {
	c.t.Helper()
	got, err := store.Secret(c.t.Context(), name)
	c.OutError("an error", err)
	if err == nil || got != "" {
		c.t.Fatalf("secret %q is %q, %v; want an error", name, got, err)
	}
	if !strings.Contains(err.Error(), words) {
		c.t.Errorf("the error is %q, want it to say %q", err, words)
	}
	if errors.Is(err, host.ErrSecretNotFound) != missing {
		c.t.Errorf("the error is %q; is it ErrSecretNotFound? want %t", err, missing)
	}
}

type storeFunc func(context.Context, string) (string, error)

func (f storeFunc) Secret(ctx context.Context, name string) (string, error) { return f(ctx, name) }

// write replaces a file by renaming a new one.
func write(t *testing.T, name string, content []byte, mode os.FileMode) {
	t.Helper()
	fresh := filepath.Join(filepath.Dir(name), ".new")
	testworld.Check(t, os.WriteFile(fresh, content, 0o600))
	testworld.Check(t, os.Chmod(fresh, mode))
	testworld.Check(t, os.Rename(fresh, name))
}
