// Package testworld has test doubles for the surroundings of the code under test: a clock, a log, servers without a network, an
// authority for certificates, and canaries, which are secrets that are searched for in all output, in all their forms.
package testworld

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
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

// Collector is a hosttest.TB for programs that are no tests of Go. The zero value is ready for use.
type Collector struct {
	mu             sync.Mutex
	failures, logs []string
	cleanups       []func()
}

// Collect calls f with a new Collector, and then End.
func Collect(f func(c *Collector)) *Collector {
	c := &Collector{}
	c.Run(func() { f(c) })
	c.End()
	return c
}

// Helper does nothing.
func (*Collector) Helper() {}

// Logf adds a text to the log.
func (c *Collector) Logf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logs = append(c.logs, fmt.Sprintf(format, args...))
}

// Errorf adds a failure.
func (c *Collector) Errorf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures = append(c.failures, fmt.Sprintf(format, args...))
}

// Fatalf adds a failure, and ends the function that Run calls.
func (c *Collector) Fatalf(format string, args ...any) {
	c.Errorf(format, args...)
	runtime.Goexit()
}

// Cleanup adds a function for End.
func (c *Collector) Cleanup(f func()) { c.cleanups = append(c.cleanups, f) }

// Run calls f on a goroutine that Fatalf may end, and reports whether f has returned.
func (c *Collector) Run(f func()) (returned bool) {
	var done sync.WaitGroup
	done.Go(func() {
		f()
		returned = true
	})
	done.Wait()
	return returned
}

// End calls the functions of Cleanup, the last first.
func (c *Collector) End() {
	for len(c.cleanups) > 0 {
		last := len(c.cleanups) - 1
		f := c.cleanups[last]
		c.cleanups = c.cleanups[:last]
		c.Run(f)
	}
}

// Failures returns the texts of Errorf and Fatalf since it was last called.
func (c *Collector) Failures() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	failures := c.failures
	c.failures = nil
	return failures
}

// Logs returns the texts of Logf.
func (c *Collector) Logs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.logs
}

// Trial lets package conform run many cases with one host.
type Trial struct {
	// HideSecret sets a secret of the host. Of a key, only one line is searched for, since there are hundreds of cases.
	HideSecret func(name, value string)
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

// InSharedDir sets dir to a new directory for all tests of a package, and calls run, which is the Run of a testing.M. It returns the exit
// code. Hosts whose code cache is in the directory compile each plugin once: with the race detector, compiling takes most of a test's time.
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
