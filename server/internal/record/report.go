package record

import (
	"fmt"
	"runtime"
	"sync"

	"github.com/keywright/keywright/host/hosttest"
)

// report collects the failures of a case.
type report struct {
	mu       sync.Mutex
	failures []string
	cleanups []func()
}

var _ hosttest.TB = (*report)(nil)

// run calls f and then the functions of Cleanup, each on a goroutine that Fatalf may end, and returns the report.
func run(f func(*report)) *report {
	r := &report{}
	finish(func() { f(r) })
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		finish(last)
	}
	return r
}

func finish(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// Helper implements hosttest.TB.
func (*report) Helper() {}

// Logf implements hosttest.TB.
func (*report) Logf(string, ...any) {}

// Cleanup implements hosttest.TB.
func (r *report) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }

// Errorf implements hosttest.TB.
func (r *report) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures = append(r.failures, fmt.Sprintf(format, args...))
}

// Fatalf implements hosttest.TB.
func (r *report) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}
