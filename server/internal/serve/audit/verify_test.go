package audit_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

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

// The report has the place and the time of the first line and of the last one, and the files that are empty.
func TestReport(t *testing.T) {
	w := newDirectory(t)
	now := noon
	l := w.open("audit.log", func(c *audit.Config) { c.Clock = func() time.Time { return now } })
	uses(l, "ann")
	w.rename("audit.log", "audit.log.1")
	now = noon.Add(time.Hour)
	uses(l, "bob")
	w.close(l)
	w.write("empty", "")
	var logged struct{ Hash string }
	lines := strings.Split(strings.TrimSpace(w.log.String()), "\n")
	testworld.Check(t, json.Unmarshal([]byte(lines[len(lines)-1]), &logged))
	r, err := audit.Verify([]string{w.path("audit.log"), w.path("empty")}, "")
	want := audit.Report{
		OK: true, Lines: 3, Uses: 1, First: 3, Last: 5, From: noon.Format(time.RFC3339), To: now.Format(time.RFC3339), Ended: true,
		Hash: logged.Hash, Empty: []string{w.path("empty")},
	}
	if diff := cmp.Diff(want, r); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	if r, err := audit.Verify([]string{w.path("empty")}, ""); err != nil || r.Hash != "" || r.Last != 0 {
		t.Errorf("of nothing: %+v, %v", r, err)
	}
}

// chained returns a line with these members after a line with a hash, as who knows docs/audit.md can make it.
func chained(before [32]byte, members string) string {
	sum := sha256.Sum256(append(before[:], members...))
	return members + `,"hash":"` + hex.EncodeToString(sum[:]) + "\"}\n"
}

// threats.md 177: the first line of a log says which line it continues, or is the very first.
func TestDetachedFirstLines(t *testing.T) {
	w := newDirectory(t)
	zero, full := strings.Repeat("00", 32), [32]byte{1}
	const continues = "0 0 0 false: x:1 does not say which line it continues"
	for name, c := range map[string]struct{ line, want string }{
		"the first":                   {chained([32]byte{}, `{"n":1,"use":"begin"`), "1 0 0 false"},
		"the fifth":                   {chained(full, `{"n":5,"use":"begin","continues":"`+hex.EncodeToString(full[:])+`"`), "1 0 0 false"},
		"the fifth, after nothing":    {chained([32]byte{}, `{"n":5,"use":"begin"`), continues},
		"the fifth, after no hash":    {chained([32]byte{}, `{"n":5,"use":"begin","continues":"`+zero[:62]+`"`), continues},
		"the fifth, after a text":     {chained([32]byte{}, `{"n":5,"use":"begin","continues":"`+zero+`x"`), continues},
		"the first, after another":    {chained(full, `{"n":1,"use":"begin","continues":"`+hex.EncodeToString(full[:])+`"`), continues},
		"one without a number at all": {chained(full, `{"n":0,"use":"begin","continues":"`+hex.EncodeToString(full[:])+`"`), continues},
	} {
		w.write("x", c.line)
		if got := w.verify("x"); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
