package secretstore_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/keywright/keywright/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A clock stands still until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)} }

func (c *clock) time() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// canaries holds random secrets. No error may contain one in any encoding.
type canaries struct {
	t   *testing.T
	mu  sync.Mutex
	all []string
}

func (c *canaries) make() string {
	random := make([]byte, 15)
	_, _ = rand.Read(random)
	return c.hide("canary+" + base64.RawURLEncoding.EncodeToString(random) + "/~")
}

// word returns a new canary of letters and digits, which can be a token.
func (c *canaries) word() string {
	random := make([]byte, 15)
	_, _ = rand.Read(random)
	return c.hide("canary" + hex.EncodeToString(random))
}

func (c *canaries) hide(text string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, text)
	return text
}

// search fails the test if an error contains a canary (threats.md 18, 19, 20).
func (c *canaries) search(err error) {
	c.t.Helper()
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	said := err.Error() + fmt.Sprintf("%+v %#v", err, err)
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		said += inner.Error()
	}
	for _, canary := range c.all {
		for _, form := range []string{
			canary, hex.EncodeToString([]byte(canary)), url.QueryEscape(canary), url.PathEscape(canary),
			base64.StdEncoding.EncodeToString([]byte(canary))[:16], base64.URLEncoding.EncodeToString([]byte(canary))[:16],
		} {
			if strings.Contains(said, form) {
				c.t.Errorf("an error holds a canary: %s", said)
			}
		}
	}
}

// want checks that a store has a secret.
func (c *canaries) want(store host.Secrets, name, value string) {
	c.t.Helper()
	got, err := store.Secret(c.t.Context(), name)
	c.search(err)
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
	c.search(err)
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
	if err := os.WriteFile(fresh, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(fresh, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(fresh, name); err != nil {
		t.Fatal(err)
	}
}
