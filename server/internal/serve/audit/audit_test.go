package audit_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/serve/audit"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

var subject = audit.NewSubject("orders", "api_key", "built-in", "abc", []string{"key", "tenants/*/orders"})

// directory is a directory with an audit log.
type directory struct {
	t   *testing.T
	dir string
	log testworld.Log
}

func newDirectory(t *testing.T) *directory { return &directory{t: t, dir: t.TempDir()} }

func (w *directory) path(name string) string { return filepath.Join(w.dir, name) }

func (w *directory) open(name string, change ...func(*audit.Config)) *audit.Log {
	w.t.Helper()
	return testworld.Must(audit.Open(w.config(name, change...)))(w.t)
}

func (w *directory) config(name string, change ...func(*audit.Config)) audit.Config {
	c := audit.Config{Path: w.path(name), Node: "node-1", Logger: slog.New(slog.NewJSONHandler(&w.log, nil)), Clock: func() time.Time { return noon }}
	for _, f := range change {
		f(&c)
	}
	return c
}

// uses adds the use of a credential for each user, and waits until they are written.
func uses(l *audit.Log, users ...string) {
	for _, user := range users {
		l.Add(&audit.Record{Time: noon, Use: "request", RequestID: "0af7", Tenant: "acme", User: user, Subject: subject, Origin: "https://api.example.com", Method: "GET", Pattern: "/orders/*", Status: 200, UpstreamStatus: 200, Sent: 1})
	}
	l.Flush()
}

// fill adds a number of uses, which wait to be written.
func fill(l *audit.Log, n int) {
	for range n {
		l.Add(&audit.Record{Time: noon, Use: "request", Subject: subject, User: "ann"})
	}
}

// record adds the use of a credential for each user to a log that is opened and closed.
func (w *directory) record(name string, users ...string) {
	w.t.Helper()
	l := w.open(name)
	uses(l, users...)
	w.close(l)
}

// refuses checks the error of opening a log.
func (w *directory) refuses(name, want string) {
	w.t.Helper()
	if _, err := audit.Open(w.config(name)); err == nil || !strings.Contains(err.Error(), want) {
		w.t.Errorf("the error for %s is %v, want %q", name, err, want)
	}
}

func (w *directory) close(l *audit.Log) {
	w.t.Helper()
	testworld.Check(w.t, l.Close())
}

func (w *directory) read(name string) string {
	w.t.Helper()
	return string(testworld.Must(os.ReadFile(w.path(name)))(w.t))
}

func (w *directory) write(name, text string) {
	w.t.Helper()
	testworld.Check(w.t, os.WriteFile(w.path(name), []byte(text), 0o600))
}

func (w *directory) rename(from, to string) {
	w.t.Helper()
	testworld.Check(w.t, os.Rename(w.path(from), w.path(to)))
}

// verify returns the report of files, as "lines uses torn ended: FILE:LINE why".
func (w *directory) verify(names ...string) string {
	w.t.Helper()
	paths := make([]string, len(names))
	for i, name := range names {
		paths[i] = w.path(name)
	}
	r := testworld.Must(audit.Verify(paths, ""))(w.t)
	text := fmt.Sprint(r.Lines, r.Uses, r.Torn, r.Ended)
	if r.Broken != nil {
		text += fmt.Sprintf(": %s:%d %s", filepath.Base(r.Broken.File), r.Broken.Line, r.Broken.Why)
	}
	return text
}

func (w *directory) check(want string, names ...string) {
	w.t.Helper()
	if got := w.verify(names...); got != want {
		w.t.Errorf("verified: %s\nwant:     %s", got, want)
	}
}

// Each use is a line with its own members, and all lines fit.
func TestLines(t *testing.T) {
	w := newDirectory(t)
	l := w.open("audit.log")
	uses(l, "ann", "bö\"b\n")
	l.Add(&audit.Record{Time: noon.Add(time.Second), Use: "token", Subject: subject, Stage: "token", TokenRequests: 2})
	w.close(l)
	lines := strings.SplitAfter(w.read("audit.log"), "\n")
	if len(lines) != 6 {
		t.Fatalf("the lines are %q", lines)
	}
	want := `{"n":2,"time":"2026-05-04T12:00:00.000000Z","use":"request","node":"node-1","request_id":"0af7","tenant":"acme","user":"ann",` +
		`"connector":"orders","type":"api_key","plugin":"built-in","plugin_sha256":"abc","secrets":["key","tenants/*/orders"],"origin":"https://api.example.com",` +
		`"method":"GET","pattern":"/orders/*","status":200,"upstream_status":200,"sent":1,"hash":"`
	if !strings.HasPrefix(lines[1], want) {
		t.Errorf("the line is %s", lines[1])
	}
	var second, third map[string]any
	if err := errors.Join(json.Unmarshal([]byte(lines[2]), &second), json.Unmarshal([]byte(lines[3]), &third)); err != nil || second["user"] != "bö\"b\n" || third["token_requests"] != 2.0 || third["stage"] != "token" {
		t.Errorf("the lines are %v and %v: %v", second, third, err)
	}
	w.check("5 3 0 true", "audit.log")
	if !strings.Contains(w.log.String(), `"the audit log is closed","file":"`+w.path("audit.log")+`","line":5,"hash":"`) {
		t.Errorf("the log is %s", w.log.String())
	}
}

// threats.md 177: a line that is changed, taken out, put in or moved shows, and so does a beginning that is cut off.
func TestTampering(t *testing.T) {
	w := newDirectory(t)
	w.record("audit.log", "ann", "bob", "cid")
	lines := strings.SplitAfter(w.read("audit.log"), "\n")
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"whole":            {lines, "5 3 0 true"},
		"changed":          {[]string{lines[0], strings.Replace(lines[1], "ann", "eve", 1), lines[2], lines[3], lines[4]}, "1 0 0 false: x:2 was changed, or is not the one after the line before it: its hash does not fit"},
		"hash changed too": {[]string{lines[0], lines[1][:len(lines[1])-70] + lines[2][len(lines[2])-70:], lines[2]}, "1 0 0 false: x:2 was changed, or is not the one after the line before it: its hash does not fit"},
		"taken out":        {[]string{lines[0], lines[1], lines[3], lines[4]}, "2 1 0 false: x:3 is line 4 of the log, after line 2: lines are missing before it"},
		"there twice":      {[]string{lines[0], lines[1], lines[1], lines[2]}, "2 1 0 false: x:3 is line 2 of the log, after line 2: it was moved or is there twice, or the files are not in order"},
		"moved":            {[]string{lines[0], lines[2], lines[1]}, "1 0 0 false: x:2 is line 3 of the log, after line 1: lines are missing before it"},
		"put in":           {[]string{lines[0], "{}\n", lines[1]}, "1 0 0 false: x:2 is no line of an audit log, or not all of one"},
		"empty line":       {[]string{lines[0], "\n", lines[1]}, "1 0 0 false: x:2 is empty"},
		"beginning gone":   {lines[1:], "0 0 0 false: x:1 is not the first line of a file: lines before it are missing"},
		"end gone":         {lines[:4], "4 3 0 false"}, // a chain cannot show it, and the report says that it has not ended
		"last line torn":   {[]string{lines[0], lines[1][:40]}, "1 0 0 false: x:2 is not all of a line: it is being written, the process that wrote it was killed, or its end was cut off"},
		"last line no log": {[]string{lines[0], "x\n"}, "1 0 0 false: x:2 is no line of an audit log, or not all of one"},
		"too long":         {[]string{lines[0], strings.Repeat("x", 1<<18)}, "1 0 0 false: x:2 is longer than lines of an audit log are"},
		"nothing":          {nil, "0 0 0 false"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectory(t)
			w.write("x", strings.Join(c.lines, ""))
			w.check(c.want, "x")
		})
	}
	for i := range len(w.read("audit.log")) - 1 {
		changed := []byte(w.read("audit.log"))
		changed[i] ^= 1
		w.write("x", string(changed))
		if got := w.verify("x"); !strings.Contains(got, ": x:") {
			t.Fatalf("a change of byte %d is not seen: %s", i, got)
		}
	}
}

// A process that starts again continues the chain of the file. A line that the one before could not write whole stays, and counts.
func TestRestart(t *testing.T) {
	w := newDirectory(t)
	w.record("audit.log", "ann")
	w.record("audit.log", "bob")
	w.check("6 2 0 true", "audit.log")
	w.write("audit.log", w.read("audit.log")+`{"n":7,"time":"2026-05-04T12`)
	w.record("audit.log", "cid")
	w.check("9 3 1 true", "audit.log")
	if strings.Contains(w.log.String(), "cut off") {
		t.Errorf("the log is %s", w.log.String())
	}
	w.write("x", strings.Replace(w.read("audit.log"), `{"n":7,"time":"2026-05-04T12`+"\n", "", 1))
	w.check("6 2 0 true: x:7 says that the line before it was not written whole, and it is: a line was taken out", "x")
	w.write("x", strings.Replace(w.read("audit.log"), `{"n":7,"time":"2026-05-04T12`+"\n", `{"n":7,"time"`+"\n", 1))
	w.check("6 2 0 true: x:7 is no line of an audit log, or not all of one", "x")
}

// A log that a newer version has written, with a member and a use of its own, fits, and this version continues it.
func TestLogOfANewerVersion(t *testing.T) {
	w, hash := newDirectory(t), make([]byte, sha256.Size)
	var text strings.Builder
	for i, members := range []string{`"use":"begin","newer":{"a":[1]}`, `"use":"newer","newer":true`} {
		line := fmt.Sprintf(`{"n":%d,"time":"2026-05-04T12:00:00.000000Z",%s`, i+1, members)
		sum := sha256.Sum256(append(hash, line...))
		hash = sum[:]
		fmt.Fprintf(&text, `%s,"hash":"%x"}`+"\n", line, sum)
	}
	w.write("audit.log", text.String())
	w.check("2 1 0 false", "audit.log")
	w.record("audit.log", "ann")
	w.check("5 2 0 true", "audit.log")
}

// When the file is moved away, the next one goes on with the chain, also if the process was not running then.
func TestRotation(t *testing.T) {
	w := newDirectory(t)
	l := w.open("audit.log")
	uses(l, "ann")
	w.rename("audit.log", "audit.log.2")
	uses(l, "bob")
	w.close(l)
	w.rename("audit.log", "audit.log.1")
	w.record("audit.log", "cid")
	w.check("8 3 0 true", "audit.log", "audit.log.1", "audit.log.2")
	w.check("6 2 0 true", "audit.log", "audit.log.1")
	w.check("2 1 0 false: audit.log:1 is line 6 of the log, after line 2: lines are missing before it", "audit.log", "audit.log.2")
	w.zip("audit.log.1", "audit.log.1.gz")
	w.check("8 3 0 true", "audit.log", "audit.log.1.gz", "audit.log.2")
	testworld.Check(t, errors.Join(os.Remove(w.path("audit.log")), os.Remove(w.path("audit.log.head"))))
	w.close(w.open("audit.log")) // nothing is left to continue
	w.check("2 1 0 false: audit.log:1 begins another log: the file before it is missing, or was removed before a process started", "audit.log.2", "audit.log")
}

// A file that was emptied, as logrotate's copytruncate does, goes on with the chain. The copy shows whether a line is missing.
func TestEmptiedFile(t *testing.T) {
	w := newDirectory(t)
	l := w.open("audit.log")
	uses(l, "ann")
	w.write("copy", w.read("audit.log"))
	testworld.Check(t, os.Truncate(w.path("audit.log"), 0))
	uses(l, "bob")
	w.close(l)
	w.check("5 2 0 true", "copy", "audit.log")
}

// threats.md 178: two processes would break the chain of one file, so that only one can open it.
func TestFileInUse(t *testing.T) {
	w := newDirectory(t)
	l := w.open("audit.log")
	w.refuses("audit.log", "belongs to another process: let each have a file of its own")
	w.close(l)
	w.close(w.open("audit.log"))
	w.check("4 0 0 true", "audit.log")
}

func TestOtherFiles(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"other lines":   {"hello\n", "does not end with a line of an audit log: move it away, or name another file"},
		"no lines":      {strings.Repeat("x", 1<<17), "does not end with a line of an audit log"},
		"no whole line": {strings.Repeat(`{"n":1`+"\n", 1<<15), "does not end with a line of an audit log"},
		"an empty line": {"\n", "does not end with a line of an audit log"},
		"no hash":       {`{"n":1,"hash":"00"}` + "\n", "does not end with a line of an audit log"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectory(t)
			w.write("audit.log", c.text)
			w.refuses("audit.log", c.want)
			if w.read("audit.log") != c.text {
				t.Error("the file was changed")
			}
		})
	}
	w := newDirectory(t)
	if _, err := audit.Open(w.config("none/audit.log")); err == nil {
		t.Error("a directory that does not exist is no error")
	}
}

// A log that is longer than what is read of its end goes on, too.
func TestRestartOfALongLog(t *testing.T) {
	w := newDirectory(t)
	l := w.open("audit.log")
	fill(l, 1000)
	w.close(l)
	if n := len(w.read("audit.log")); n < 1<<18 {
		t.Fatalf("the log has %d bytes", n)
	}
	w.close(w.open("audit.log"))
	w.check("1004 1000 0 true", "audit.log")
	if strings.Contains(w.log.String(), "cut off") {
		t.Errorf("the log is %s", w.log.String())
	}
}

// None of the uses of many goroutines is lost when the log is closed, and all fit.
func TestManyAtOnce(t *testing.T) {
	w := newDirectory(t)
	l := w.open("audit.log")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { fill(l, 500) })
	}
	all.Wait()
	w.close(l)
	w.check("4002 4000 0 true", "audit.log")
}

// threats.md 180: the head of the chain is logged every ten minutes if there are new lines.
func TestHeadLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDirectory(t)
		l := w.open("audit.log")
		for i, user := range []string{"", "ann", "", "bob"} {
			if user != "" {
				uses(l, user)
			}
			time.Sleep(10*time.Minute + time.Millisecond)
			synctest.Wait()
			if n, want := strings.Count(w.log.String(), "the head of the audit log"), []int{0, 1, 1, 2}[i]; n != want {
				t.Errorf("after %d times ten minutes, it was logged %d times, want %d", i+1, n, want)
			}
		}
		w.close(l)
	})
}

// threats.md 180: who can write the file can make a whole new chain, and cut off its end. The hash of a line that was logged
// elsewhere shows both.
func TestHashOfTheLog(t *testing.T) {
	w := newDirectory(t)
	w.record("audit.log", "ann", "bob")
	var logged struct{ Hash string }
	lines := strings.Split(strings.TrimSpace(w.log.String()), "\n")
	testworld.Check(t, json.Unmarshal([]byte(lines[len(lines)-1]), &logged))
	found := func(text string) bool {
		t.Helper()
		w.write("x", text)
		r, err := audit.Verify([]string{w.path("x")}, logged.Hash)
		if err != nil || r.Broken != nil {
			t.Fatalf("r = %+v, err = %v", r, err)
		}
		return *r.Found
	}
	text := w.read("audit.log")
	if !found(text) || found(text[:strings.LastIndex(text[:len(text)-1], "\n")+1]) {
		t.Error("the hash is not found, or is found in a log whose end was cut off")
	}
	w.record("forged.log", "ann", "eve")
	if found(w.read("forged.log")) {
		t.Error("the hash is found in a log that was made anew")
	}
}

func BenchmarkAdd(b *testing.B) {
	l := testworld.Must(audit.Open(audit.Config{Path: filepath.Join(b.TempDir(), "audit.log"), Node: "node-1", Logger: slog.New(slog.DiscardHandler), Clock: time.Now}))(b)
	r := &audit.Record{Time: noon, Use: "request", RequestID: "0af7651916cd43dd8448eb211c80319c", Tenant: "acme", User: "ann", Subject: subject, Origin: "https://api.example.com", Method: "GET", Pattern: "/orders/*", Status: 200, UpstreamStatus: 200, Sent: 1}
	b.ReportAllocs()
	for b.Loop() {
		l.Add(r)
	}
	if err := l.Close(); err != nil { // the time to write all is part of the cost
		b.Fatal(err)
	}
}
