package audit_test

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/serve/audit"
)

// A log of many lines is verified in constant memory, also from a pipe, and the report has the number of the line that does not fit.
func TestVerifyLargeLog(t *testing.T) {
	w := newDirectory(t)
	testworld.Check(t, syscall.Mkfifo(w.path("pipe"), 0o600))
	type result struct {
		audit.Report
		err error
	}
	verified := make(chan result, 1)
	go func() {
		r, err := audit.Verify([]string{w.path("pipe")}, "")
		verified <- result{r, err}
	}()
	pipe := testworld.Must(os.OpenFile(w.path("pipe"), os.O_WRONLY, 0))(t)
	l := w.open("", func(c *audit.Config) { c.Path, c.Writer = "", pipe })
	const block, blocks = 1000, 100
	heap := make([]uint64, blocks)
	for i := range blocks {
		for range block {
			l.Add(&audit.Record{Time: noon, Use: "request", Subject: subject, User: "ann"})
		}
		l.Flush()
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		heap[i] = m.HeapAlloc
	}
	w.close(l)
	testworld.Must(io.WriteString(pipe, "{\"n\":2}\n{}\n"))(t)
	_ = pipe.Close()
	if early, late := heap[blocks/10], heap[blocks-1]; late > early+1<<20 {
		t.Errorf("after %d lines, the heap has %d bytes, and after %d lines %d", block*blocks/10, early, block*blocks, late)
	}
	r := <-verified
	if r.err != nil || r.Lines != block*blocks+2 || r.Broken == nil || r.Broken.Line != block*blocks+3 {
		t.Errorf("the report is %+v, %v", r.Report, r.err)
	}
}

// A log may have more files than a process may have open.
func TestVerifyManyFiles(t *testing.T) {
	w := newDirectory(t)
	before, names := syscall.Rlimit{}, []string{}
	l := w.open("audit.log")
	for i := range 60 {
		uses(l, "ann")
		name := fmt.Sprintf("audit.log.%d", i)
		w.rename("audit.log", name)
		names = append(names, name)
	}
	w.close(l)
	testworld.Check(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before))
	limit := before
	limit.Cur = 50
	testworld.Check(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	defer func() { _ = syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before) }()
	w.check("120 60 0 false", names...)
}
