package audit_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
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

// A process can be killed at each byte of its last line. What it has written stays, and all fits after the next start.
func TestKilledAtEachByte(t *testing.T) {
	w := newDirectory(t)
	w.record("audit.log", "ann")
	text := w.read("audit.log")
	last := strings.LastIndex(text[:len(text)-1], "\n") + 1
	for cut := last; cut < len(text); cut++ {
		w := newDirectory(t)
		w.write("audit.log", text[:cut])
		w.close(w.open("audit.log"))
		want := "4 1 1 true" // begin, the use, begin, end
		switch cut {
		case last:
			want = "4 1 0 true"
		case len(text) - 1: // all but the line feed
			want = "5 1 0 true"
		}
		w.check(want, "audit.log")
	}
}

// A last line that lacks its line feed alone is whole.
func TestLineWithoutLineFeed(t *testing.T) {
	w := newDirectory(t)
	w.record("audit.log", "ann")
	w.write("x", strings.TrimSuffix(w.read("audit.log"), "\n"))
	w.check("3 1 0 true", "x")
	w.write("x", strings.Replace(strings.TrimSuffix(w.read("audit.log"), "\n"), `"end"`, `"eve"`, 1))
	w.check("2 1 0 false: x:3 was changed, or is not the one after the line before it: its hash does not fit", "x")
}

// Processes that are killed while they write their first line leave parts of it, and the next one that writes it counts them.
func TestTornBeginnings(t *testing.T) {
	for name, c := range map[string]struct{ torn, want string }{
		"two":                   {`{"n":3,"time":"2026` + "\n" + `{"n":3,"ti`, "4 1 2 true"},
		"three":                 {`{"n":3,"time":"2026` + "\n" + `{"n":3,"ti` + "\n" + `{`, "4 1 3 true"},
		"a line feed at last":   {`{"n":3,"time":"2026` + "\n", "4 1 1 true"},
		"zeros":                 {`{"n":3,"ti` + strings.Repeat("\x00", 4096), "4 1 1 true"},
		"zeros of a whole line": {`{"n":3,"ti` + strings.Repeat("\x00", 64<<10-10), "4 1 1 true"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectory(t)
			w.record("whole.log", "ann")
			text := w.read("whole.log")
			whole := text[:strings.LastIndex(text[:len(text)-1], "\n")+1]
			w.write("audit.log", whole+c.torn)
			w.close(w.open("audit.log"))
			w.check(c.want, "audit.log")
			w.write("x", strings.Replace(w.read("audit.log"), `{"n":3,"ti`, `{"n":3,"t`, 1))
			if got := w.verify("x"); !strings.HasPrefix(got, "2 1 0 false: x:3 is no line of an audit log") {
				t.Errorf("a changed part of a line: %s", got)
			}
		})
	}
	w := newDirectory(t)
	w.write("audit.log", `{"n":1,"time"`+"\n"+`{"n":1`) // of the first process ever
	w.close(w.open("audit.log"))
	w.check("2 0 2 true", "audit.log")
}

// A start that fails changes nothing: the next one goes on with the chain.
func TestFailedStart(t *testing.T) {
	w := newDirectory(t)
	w.record("audit.log", "ann")
	w.rename("audit.log", "audit.log.1")
	broken := func(c *audit.Config) { c.Sync = func(*os.File) error { return errFull } }
	for range 2 {
		if _, err := audit.Open(w.config("audit.log", broken)); !errors.Is(err, errFull) {
			t.Fatalf("the error is %v", err)
		}
	}
	w.record("audit.log", "bob")
	w.check("6 2 0 true", "audit.log.1", "audit.log")
}

// A process does not start beside an old head that it cannot remove: after a crash, the next one would go on from there.
func TestUnchangedHead(t *testing.T) {
	w := newDirectory(t)
	config := w.config("audit.log", func(c *audit.Config) {
		c.Sync = func(*os.File) error { return os.MkdirAll(w.path("audit.log.head/full"), 0o700) }
	})
	if _, err := audit.Open(config); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Errorf("the error is %v", err)
	}
}

// threats.md 260: somebody cuts off the end of a log that was closed. The file with its last hash shows it, before the next start and
// after it.
func TestTruncatedEnd(t *testing.T) {
	for name, c := range map[string]struct {
		left             int
		verified, opened string
	}{
		"the last line": {2, "2 1 0 false: audit.log.head:1 says that the last line of the log is line 3, and it is line 2: its end was cut off, or is in another file", "2 1 0 false: audit.log:3 is line 4 of the log, after line 2: lines are missing before it"},
		"all lines":     {0, "0 0 0 false: audit.log.head:1 says that the last line of the log is line 3, and it is line 0: its end was cut off, or is in another file", "2 0 0 true"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectory(t)
			w.record("audit.log", "ann")
			w.write("audit.log", strings.Join(strings.SplitAfter(w.read("audit.log"), "\n")[:c.left], ""))
			w.check(c.verified, "audit.log")
			w.check(c.verified, "audit.log.head", "audit.log")
			w.close(w.open("audit.log"))
			w.check(c.opened, "audit.log")
			if said := strings.Contains(w.log.String(), `"lines were cut off the audit log"`); said != (c.left > 0) {
				t.Errorf("the log is %s", w.log.String())
			}
		})
	}
	w := newDirectory(t)
	for _, user := range []string{"ann", "eve"} {
		testworld.Check(t, errors.Join(os.RemoveAll(w.path("audit.log")), os.RemoveAll(w.path("head")), os.RemoveAll(w.path("audit.log.head"))))
		w.record("audit.log", user)
		if user == "ann" {
			w.write("kept", w.read("audit.log.head"))
		}
	}
	w.rename("kept", "audit.log.head")
	w.check("3 1 0 true: audit.log.head:1 has the hash of another line 3 than that of the log: the log was made anew", "audit.log")
	w.close(w.open("audit.log"))
	w.check("3 1 0 true: audit.log:4 continues other lines than those before it", "audit.log")
}

// A head that a process could not remove before it was killed is older than the last line, and does not count.
func TestOldHead(t *testing.T) {
	w := newDirectory(t)
	w.close(w.open("audit.log"))
	head := w.read("audit.log.head")
	w.close(w.open("audit.log"))
	w.write("audit.log.head", head)
	w.check("4 0 0 true", "audit.log")
	w.close(w.open("audit.log"))
	w.check("6 0 0 true", "audit.log")
	w.write("audit.log.head", "{")
	w.refuses("audit.log", "audit.log.head that was changed: remove that")
	if _, err := audit.Verify([]string{w.path("audit.log")}, ""); err == nil || !strings.Contains(err.Error(), "audit.log.head that was changed") {
		t.Errorf("the error is %v", err)
	}
}

// threats.md 262: a pipe or a link in the place of the head delays neither a start nor a verification, and is not followed.
func TestIrregularHead(t *testing.T) {
	for name, put := range map[string]func(path string) error{
		"a pipe":      func(path string) error { return syscall.Mkfifo(path, 0o600) },
		"a link":      func(path string) error { return os.Symlink("/dev/zero", path) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
		"a long file": func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte(" "), 1<<20), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectory(t)
			l := w.open("audit.log")
			testworld.Check(t, put(w.path("audit.log.head")))
			const want = "audit.log.head that was changed: remove that"
			if _, err := audit.Verify([]string{w.path("audit.log")}, ""); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("to verify, the error is %v", err)
			}
			_ = l.Close() // which replaces it, but for a directory
			testworld.Check(t, errors.Join(os.RemoveAll(w.path("audit.log.head")), put(w.path("audit.log.head"))))
			w.refuses("audit.log", want)
		})
	}
}

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
		fill(l, block)
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
