package audit_test

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/serve/audit"
)

// disk is a writer that takes some bytes and then no more, until it has space again.
type disk struct {
	mu    sync.Mutex
	text  bytes.Buffer
	space int
}

var errFull = errors.New("no space left on device")

func (d *disk) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(p), d.space)
	d.space -= n
	d.text.Write(p[:n])
	if n < len(p) {
		return n, errFull
	}
	return n, nil
}

func (d *disk) free(bytes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.space = bytes
}

// threats.md 179: while the disk is full, no further credential is used, and the lines of those that were in use are written once it
// has space. No line is torn.
func TestFullDisk(t *testing.T) {
	w, d := newDirectory(t), &disk{space: 1000}
	l := w.open("", func(c *audit.Config) { c.Path, c.Writer = "", d })
	uses(l, "ann")
	testworld.Check(t, l.Err())
	uses(l, "bob", "cid", "dan")
	if err := l.Err(); !errors.Is(err, errFull) || !errors.Is(l.Failure(), errFull) {
		t.Errorf("the error is %v", err)
	}
	uses(l, "eve")
	d.free(1 << 20)
	l.Flush()
	testworld.Check(t, l.Err())
	w.close(l)
	w.write("x", d.text.String())
	w.check("7 5 0 true", "x")
	if log := w.log.String(); strings.Count(log, "the audit log cannot be written") != 1 || !strings.Contains(log, "requests are refused") || !strings.Contains(log, "can be written again") {
		t.Errorf("the log is %s", log)
	}
}

// An operator may prefer requests to lines. Then memory is bounded, and the log says how many uses it lacks.
func TestLossyLog(t *testing.T) {
	w, d := newDirectory(t), &disk{space: 1000}
	l := w.open("", func(c *audit.Config) { c.Path, c.Writer, c.Lossy = "", d, true })
	d.free(0)
	uses(l, "first")
	const many = 60_000
	for range many {
		l.Add(&audit.Record{Time: noon, Use: "request", Subject: subject, User: "ann"})
	}
	l.Flush()
	if err := l.Err(); err != nil {
		t.Errorf("a request is refused: %v", err)
	}
	_, lost := l.Lines()
	d.free(1 << 30)
	w.close(l)
	w.write("x", d.text.String())
	r, err := audit.Verify([]string{w.path("x")}, "")
	if err != nil || r.Broken != nil || lost == 0 || r.Lost != lost || r.Uses+r.Lost != many+1 || r.Uses < many/4 {
		t.Errorf("%d are lost; the report is %+v, %v", lost, r, err)
	}
}

// A lossy log that has lost one use has a line that says so.
func TestOneLostUse(t *testing.T) {
	w, d := newDirectory(t), &disk{space: 1000}
	l := w.open("", func(c *audit.Config) { c.Path, c.Writer, c.Lossy = "", d, true })
	d.free(0)
	added, lost := 0, uint64(0)
	for ; lost == 0; _, lost = l.Lines() {
		l.Add(&audit.Record{Time: noon, Use: "request", Subject: subject, User: "ann"})
		added++
	}
	d.free(1 << 30)
	w.close(l)
	w.write("x", d.text.String())
	r, err := audit.Verify([]string{w.path("x")}, "")
	if err != nil || r.Broken != nil || r.Lost != 1 || int(r.Uses) != added-1 {
		t.Errorf("of %d uses one is lost; the report is %+v, %v", added, r, err)
	}
}

// A disk that hangs stops requests too, once too many lines wait.
func TestHangingDisk(t *testing.T) {
	w := newDirectory(t)
	hangs, goes := make(chan struct{}), make(chan struct{})
	first := true
	l := w.open("", func(c *audit.Config) {
		c.Path, c.Writer = "", writerFunc(func(p []byte) (int, error) {
			if !first {
				close(hangs)
				<-goes
				hangs = make(chan struct{})
			}
			first = false
			return len(p), nil
		})
	})
	l.Add(&audit.Record{Time: noon, Use: "request"})
	<-hangs
	for range 50_000 {
		l.Add(&audit.Record{Time: noon, Use: "request", Subject: subject})
	}
	if err := l.Err(); err == nil || !strings.Contains(err.Error(), "too slowly") {
		t.Errorf("the error is %v", err)
	}
	close(goes)
	w.close(l)
	if written, lost := l.Lines(); written != 50_003 || lost != 0 {
		t.Errorf("%d lines, %d lost", written, lost)
	}
}

// What was added in a burst is not kept in memory once it is on the disk.
func TestMemoryAfterABurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDirectory(t)
		heap := func() uint64 {
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		l := w.open("audit.log")
		uses(l, "ann")
		before := heap()
		for range 10_000 {
			l.Add(&audit.Record{Time: noon, Use: "request", Subject: subject, User: "ann"})
		}
		uses(l, "bob")
		time.Sleep(2 * time.Second) // until it is synced
		uses(l, "cid")
		if after := heap(); after > before+512<<10 {
			t.Errorf("the heap has %d bytes before and %d after", before, after)
		}
		w.close(l)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
