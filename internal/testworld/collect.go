package testworld

import (
	"fmt"
	"runtime"
	"sync"
)

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
