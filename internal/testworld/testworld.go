// Package testworld has test doubles for the surroundings of the code under test: a clock, a log, servers without a network, an
// authority for certificates, and canaries, which are secrets that are searched for in all output, in all their forms.
package testworld

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Clock is a clock that stands still until it is advanced. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that shows start.
func NewClock(start time.Time) *Clock { return &Clock{now: start} }

// Now returns the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock by d, which may be negative.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Log keeps everything that is logged, on all levels. The zero value is ready for use. It is safe for concurrent use.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Logger returns a logger that writes each record to the log twice, as text and as JSON.
func (l *Log) Logger() *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.Level(-100)}
	return slog.New(slog.NewMultiHandler(slog.NewTextHandler(l, options), slog.NewJSONHandler(l, options)))
}

// Write appends p to the log.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns what has been logged so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TB is the part of testing.TB that Must and Check use.
type TB interface {
	Helper()
	Fatal(args ...any)
}

// Must returns a function that returns v, and ends the test if err is not nil: Must(os.ReadFile(name))(t).
func Must[T any](v T, err error) func(TB) T {
	return func(t TB) T {
		if err != nil { // Helper takes longer than what some benchmarks measure
			t.Helper()
			t.Fatal(err)
		}
		return v
	}
}

// Fails returns a function that checks that err has a text: Fails(os.ReadFile(name))(t, "no such file").
func Fails[T any](_ T, err error) func(t testing.TB, want string) {
	return func(t testing.TB, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("err = %v, want %q in it", err, want)
		}
	}
}

// Check ends the test if err is not nil.
func Check(t TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// ErrorOf returns the error of a call with two results.
func ErrorOf[T any](_ T, err error) error { return err }

// WantError checks that err has a text, or that it is nil if the text is empty. name is the name of the case.
func WantError(t testing.TB, name string, err error, text string) {
	t.Helper()
	if (err == nil) != (text == "") || err != nil && !strings.Contains(err.Error(), text) {
		t.Errorf("%s: the error is %v, want %q", name, err, text)
	}
}

// Trial lets package conform run many cases with one host.
type Trial struct {
	// HideSecret sets a secret of the host, of which only a part is searched for.
	HideSecret func(name, value, part string)
	// Begin begins a case, whose connectors have the name.
	Begin func(connection string)
	// Reseed has the randomness of the host begin anew.
	Reseed func(seed string)
	// Dropped reports whether the host has dropped the text of an error.
	Dropped func(err error) bool
	// End forgets the case, and returns its leaks.
	End func() (leaks []string)
}

// NewTrial returns the Trial of a *hosttest.Harness that has not been used. Package hosttest sets it.
var NewTrial func(harness any) Trial

// File writes a file with a text into a new directory of the test, and returns its path.
func File(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	Check(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// InSharedDir sets dir to a new directory for all tests of a package, and calls run, which is the Run of a testing.M. It returns
// the exit code. Hosts whose code cache is in the directory compile each plugin once: with the race detector, compiling takes most
// of a test's time.
func InSharedDir(dir *string, run func() int) int {
	var err error
	if *dir, err = os.MkdirTemp("", "keywright-tests-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	code := run()
	if err := os.RemoveAll(*dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
