package audit_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/serve/audit"
)

// losing is a disk that loses what it was to sync, as the kernel does after a failed fsync: it takes the lost pages for written.
type losing struct {
	fails atomic.Bool
	// synced is the size of the file after the last sync.
	synced atomic.Int64
}

var errLost = errors.New("input/output error")

func (d *losing) sync(file *os.File) error {
	info, err := file.Stat()
	if err != nil || !strings.HasSuffix(file.Name(), ".log") {
		return err
	}
	if !d.fails.Load() {
		d.synced.Store(info.Size())
		return nil
	}
	lost, err := os.OpenFile(file.Name(), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = lost.WriteAt(make([]byte, info.Size()-d.synced.Load()), d.synced.Load())
	return errors.Join(errLost, err, lost.Close())
}

// Nobody else on the machine reads who used what: the mode of the log and of the head beside it is 0600, whatever the umask lets through.
func TestOnlyTheUserReadsTheLog(t *testing.T) {
	w := newDirectory(t)
	w.record("audit.log", "ann")
	for _, name := range []string{"audit.log", "audit.log.head"} {
		if info, err := os.Stat(w.path(name)); err != nil || info.Mode() != 0o600 {
			t.Errorf("%s is %v, %v", name, info, err)
		}
	}
}

// threats.md 261, specification.md "audit log after a failed sync": after a failed sync, nobody knows what is on the disk. No credential is used until all of it was written again and
// synced, however often something else succeeds meanwhile.
func TestFailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newDirectory(t), &losing{}
		l := w.open("audit.log", func(c *audit.Config) { c.Sync = d.sync })
		uses(l, "ann")
		d.fails.Store(true)
		time.Sleep(1500 * time.Millisecond)
		for range 3 {
			if err := l.Err(); !errors.Is(err, errLost) || !errors.Is(l.Failure(), errLost) {
				t.Errorf("the error is %v", err)
			}
			uses(l, "bob") // a request that had begun
			time.Sleep(time.Second)
		}
		d.fails.Store(false)
		time.Sleep(time.Second)
		testworld.Check(t, l.Err())
		w.check("5 4 0 false", "audit.log")
		w.close(l)
		w.check("6 4 0 true", "audit.log")
		if log := w.log.String(); strings.Count(log, "the audit log cannot be written") != 1 || !strings.Contains(log, "bytes may not be on the disk: input/output error") || strings.Count(log, "can be written again") != 1 {
			t.Errorf("the log is %s", log)
		}
	})
}

// What is added waits for 50 ms at most, whether others came before or not, so that a process that is killed loses no more.
func TestBatchDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDirectory(t)
		l := w.open("audit.log")
		l.Add(&audit.Record{Time: noon, Use: "request", Subject: subject})
		time.Sleep(50*time.Millisecond + 1)
		synctest.Wait()
		if n := strings.Count(w.read("audit.log"), "\n"); n != 2 {
			t.Errorf("after the first use, the log has %d lines", n)
		}
		for i := range 10 {
			l.Add(&audit.Record{Time: noon, Use: "request", Subject: subject})
			time.Sleep(time.Duration(i) * 7 * time.Millisecond)
			l.Add(&audit.Record{Time: noon, Use: "request", Subject: subject})
			time.Sleep(50*time.Millisecond + 1)
			synctest.Wait()
			if n := strings.Count(w.read("audit.log"), "\n"); n != 2+2*(i+1) {
				t.Errorf("after round %d, the log has %d lines", i, n)
			}
		}
		w.close(l)
	})
}

// Lines are synced every second, also while others come all the time.
func TestSyncUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDirectory(t)
		var syncs atomic.Int64
		l := w.open("audit.log", func(c *audit.Config) { c.Sync = func(*os.File) error { syncs.Add(1); return nil } })
		before := syncs.Load()
		for range 350 {
			l.Add(&audit.Record{Time: noon, Use: "request", Subject: subject})
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		if n := syncs.Load() - before; n != 3 {
			t.Errorf("%d syncs in 3.5 seconds", n)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		before = syncs.Load()
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := syncs.Load() - before; n != 0 {
			t.Errorf("%d syncs of nothing", n)
		}
		w.close(l)
	})
}

// A log leaves no file open, however often its file was moved away.
func TestClosedFiles(t *testing.T) {
	w := newDirectory(t)
	before := openFiles(t)
	l := w.open("audit.log")
	for range 5 {
		uses(l, "ann")
		w.rename("audit.log", "audit.log.1")
	}
	w.close(l)
	if after := openFiles(t); after != before {
		t.Errorf("%d files are open before and %d after", before, after)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	return len(testworld.Must(os.ReadDir("/proc/self/fd"))(t))
}

// A log that ends leaves its head, and no other file. If it cannot have the name, the log says so.
func TestHeadAtClose(t *testing.T) {
	for _, fails := range []bool{false, true} {
		w := newDirectory(t)
		l := w.open("audit.log")
		if fails {
			testworld.Check(t, os.MkdirAll(w.path("audit.log.head/full"), 0o700))
		}
		if err := l.Close(); (err != nil) != fails {
			t.Error(err)
		}
		var names []string
		for _, e := range testworld.Must(os.ReadDir(w.dir))(t) {
			names = append(names, e.Name())
		}
		if got := strings.Join(names, " "); got != "audit.log audit.log.head" {
			t.Errorf("the files are %s", got)
		}
	}
}

// A log whose lines could not be synced at the end says so.
func TestFailedSyncAtClose(t *testing.T) {
	w, d := newDirectory(t), &losing{}
	l := w.open("audit.log", func(c *audit.Config) { c.Sync = d.sync })
	uses(l, "ann")
	d.fails.Store(true)
	if err := l.Close(); !errors.Is(err, errLost) || !strings.Contains(err.Error(), "the audit log is not complete") {
		t.Errorf("the error is %v", err)
	}
	if got := w.verify("audit.log"); !strings.Contains(got, ": audit.log:2 is no") && !strings.Contains(got, ": audit.log:2 is not") {
		t.Errorf("verified: %s", got)
	}
}

// A log that could not be synced before its end does not end as if it were whole: the uses that wait are missing.
func TestEndAfterAFailedSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, d := newDirectory(t), &losing{}
		l := w.open("audit.log", func(c *audit.Config) { c.Sync = d.sync })
		uses(l, "ann")
		d.fails.Store(true)
		time.Sleep(1500 * time.Millisecond)
		uses(l, "bob")
		if err := l.Close(); !errors.Is(err, errLost) {
			t.Errorf("the error is %v", err)
		}
		if _, err := os.Stat(w.path("audit.log.head")); err == nil || strings.Contains(w.read("audit.log"), `"end"`) {
			t.Errorf("the log ends: %s", w.read("audit.log"))
		}
	})
}

// threats.md 178: a link is another name of the same file. It does not let a second process write to it.
func TestLinks(t *testing.T) {
	w := newDirectory(t)
	l := w.open("audit.log")
	testworld.Check(t, errors.Join(os.Symlink("audit.log", w.path("symbolic.log")), os.Link(w.path("audit.log"), w.path("hard.log"))))
	for name, want := range map[string]string{"symbolic.log": "is no regular file: name the file itself", "hard.log": "belongs to another process"} {
		w.refuses(name, want)
	}
	testworld.Check(t, os.Symlink("elsewhere", w.path("dangling.log")))
	if _, err := audit.Open(w.config("dangling.log")); err == nil {
		t.Error("a link that leads nowhere is no error")
	}
	if _, err := os.Stat(w.path("elsewhere")); err == nil {
		t.Error("the file that a link leads to was made")
	}
	uses(l, "ann")
	w.close(l)
	w.check("3 1 0 true", "audit.log")
}

// threats.md 262: what is put in the place of a file that was moved away is not written to, unless it is an empty file. Then no
// credential is used. The chain goes on once it is gone.
func TestPlaceOfAMovedFile(t *testing.T) {
	for name, put := range map[string]func(w *directory) error{
		"a symbolic link":            func(w *directory) error { return os.Symlink("other", w.path("audit.log")) },
		"a directory":                func(w *directory) error { return os.Mkdir(w.path("audit.log"), 0o700) },
		"a file with text":           func(w *directory) error { return os.WriteFile(w.path("audit.log"), []byte("text\n"), 0o600) },
		"the log of another process": func(w *directory) error { w.open("audit.log"); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := newDirectory(t)
			w.write("other", "")
			l := w.open("audit.log")
			uses(l, "ann")
			w.rename("audit.log", "audit.log.1")
			testworld.Check(t, put(w))
			uses(l, "bob")
			if err := l.Err(); err == nil || !strings.Contains(err.Error(), "the next file ") {
				t.Errorf("the error is %v", err)
			}
			w.rename("audit.log", "gone")
			uses(l)
			testworld.Check(t, l.Err())
			w.close(l)
			w.check("5 2 0 true", "audit.log", "audit.log.1")
			if text := w.read("other"); text != "" {
				t.Errorf("a link was followed: %s", text)
			}
		})
	}
}

// logrotate moves the file away, makes an empty one, and compresses and removes the one that was moved, maybe before the gateway
// writes again. The gateway begins the empty one within a second, also without a use, and no line is missing.
func TestRotationByLogrotate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newDirectory(t)
		l := w.open("audit.log")
		for i, user := range []string{"ann", "bob", ""} {
			if user != "" {
				uses(l, user)
			}
			moved := []string{"audit.log.3.gz", "audit.log.2.gz", "audit.log.1.gz"}[i]
			w.rename("audit.log", "moved")
			w.write("audit.log", "") // create
			w.zip("moved", moved)
			testworld.Check(t, os.Remove(w.path("moved")))
			time.Sleep(time.Second + time.Millisecond)
			if !strings.Contains(w.read("audit.log"), `"continues":"`) {
				t.Error("the new file has not begun")
			}
		}
		w.close(l)
		w.check("7 2 0 true", "audit.log", "audit.log.1.gz", "audit.log.2.gz", "audit.log.3.gz", "audit.log.head")
	})
}

// zip compresses a file.
func (w *directory) zip(from, to string) {
	w.t.Helper()
	file := testworld.Must(os.Create(w.path(to)))(w.t)
	z := gzip.NewWriter(file)
	_, err := z.Write([]byte(w.read(from)))
	testworld.Check(w.t, errors.Join(err, z.Close(), file.Close()))
}

// While the directory is away, or the new file cannot be made in it, no credential is used. The lines of uses that had begun follow.
func TestMissingDirectory(t *testing.T) {
	w := newDirectory(t)
	testworld.Check(t, os.Mkdir(w.path("logs"), 0o700))
	l := w.open("logs/audit.log")
	uses(l, "ann")
	w.rename("logs", "old")
	uses(l, "bob")
	if err := l.Err(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the error is %v", err)
	}
	testworld.Check(t, os.Mkdir(w.path("logs"), 0o700))
	uses(l, "cid")
	testworld.Check(t, l.Err())
	w.close(l)
	w.check("6 3 0 true", "logs/audit.log", "old/audit.log")
}

// threats.md 263: a disk that hangs does not keep the process from ending. The error says that lines are missing.
func TestHangingDiskAtClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, goes, first := newDirectory(t), make(chan struct{}), true
		l := w.open("", func(c *audit.Config) {
			c.Path, c.Writer = "", writerFunc(func(p []byte) (int, error) {
				if !first {
					<-goes
				}
				first = false
				return len(p), nil
			})
		})
		l.Add(&audit.Record{Time: noon, Use: "request", Subject: subject})
		began := time.Now()
		err := l.Close()
		if took := time.Since(began); err == nil || !strings.Contains(err.Error(), "the disk has not taken its last lines within 5s") || took != 5*time.Second {
			t.Errorf("after %v, the error is %v", took, err)
		}
		close(goes)
	})
}

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
	fill(l, many)
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
		fill(l, 1)
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
	fill(l, 50_000)
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
		fill(l, 10_000)
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
