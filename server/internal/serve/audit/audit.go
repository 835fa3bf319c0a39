// Package audit writes a log of the uses of credentials, and verifies it. Each line is a JSON object, and has a hash over the line
// before it, so that a line that was changed, taken out, put in or moved shows. docs/audit.md describes the lines.
package audit

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Config configures [Open].
type Config struct {
	// Path is the path of the file. If it is empty, the lines go to Writer.
	Path   string
	Writer io.Writer
	// Node names this process in the lines.
	Node string
	// Lossy keeps Err nil while the log cannot be written: uses that do not fit into memory are then counted and not recorded.
	Lossy  bool
	Logger *slog.Logger
	Clock  func() time.Time
	// Sync syncs a file to the disk. If it is nil, the method of the file does.
	Sync func(*os.File) error
}

const (
	// batchDelay is the time for which a line waits for others, so that they are written together.
	batchDelay = 50 * time.Millisecond
	// headInterval is the interval at which the head of the chain is logged if there are new lines.
	headInterval = 10 * time.Minute
	// syncInterval is the interval at which written lines are synced to the disk, and at which what has failed is tried again.
	syncInterval = time.Second
	// closeTimeout is the time for which Close waits for a disk that hangs.
	closeTimeout = 5 * time.Second
	// maxPending is the maximum number of bytes of lines that wait to be written, apart from those of requests that had begun.
	maxPending = 4 << 20
	// maxRetained is the maximum number of bytes of memory that are kept for further lines.
	maxRetained = maxPending / 4
)

// A Log is an audit log. It is safe for concurrent use. Err, Failure and Close of a nil Log return nil.
type Log struct {
	config Config
	// wake has an element once a line waits, flush has the channels of calls of Flush, and stop is closed by Close.
	wake  chan struct{}
	flush chan chan struct{}
	stop  chan struct{}
	done  chan struct{}
	// closed is the result of Close. It is set before done is closed.
	closed error
	// lines counts the lines that were written, and all that were lost.
	lines, lost atomic.Uint64

	mu sync.Mutex
	// pending has the members of records that wait, each with a line feed.
	pending []byte
	// missing is the number of uses that were lost since the last line.
	missing int
	// err is the error of the last write. It is nil once a write has succeeded.
	err error

	// The fields below belong to the goroutine that writes.

	target target
	head   link
	// logged is the number of the line whose hash was logged last.
	logged uint64
	// writing has records that are being written, and unwritten the bytes of their lines that the target has not taken yet.
	writing, unwritten []byte
}

type target interface {
	io.Writer
	// started is called once the first line of the process is written. It returns an error if the line is not on the disk.
	started() error
	// turn closes the file and opens the next one if the file was moved away. It returns whether there are more files, which the
	// next line must begin.
	turn() (more bool, err error)
	// sync syncs the lines to the disk. After an error, it writes them again first.
	sync() error
	// undo takes back what was written since the target was opened, and ends its use.
	undo() error
	// close syncs the lines, ends the use of the target, and keeps the head for the next process, unless it is nil.
	close(head *link) error
}

// Open opens an audit log and writes its first line. It returns an error if another process writes to the file, if the file is not
// an audit log, or if it cannot be written.
func Open(c Config) (*Log, error) {
	if c.Sync == nil {
		c.Sync = (*os.File).Sync
	}
	l := &Log{
		config: c, wake: make(chan struct{}, 1), flush: make(chan chan struct{}), stop: make(chan struct{}), done: make(chan struct{}),
		target: stream{c.Writer},
	}
	torn := 0
	if c.Path != "" {
		f, err := openFile(c.Path, c.Sync)
		if err != nil {
			return nil, fmt.Errorf("the audit log %s %w", c.Path, err)
		}
		l.target, l.head, torn = f, f.end.last, f.end.torn
		if f.end.feed {
			l.unwritten = append(l.unwritten, '\n')
		}
		if f.cut {
			c.Logger.Error("lines were cut off the audit log", slog.String("file", c.Path), slog.Uint64("last_line", l.head.n),
				slog.String("then", "the chain goes on after them, so that keywright audit verify shows where they are missing"))
		}
	}
	l.begin(torn)
	err := l.writeOut()
	if err == nil {
		err = l.target.started()
	}
	if err != nil {
		return nil, fmt.Errorf("the audit log cannot be written: %w", errors.Join(err, l.target.undo()))
	}
	l.lines.Store(1)
	l.logHead("the audit log is open")
	go l.run()
	return l, nil
}

// Add adds a record. It does not wait for the disk.
func (l *Log) Add(r *Record) {
	var buffer [1024]byte
	text := append(appendRecord(buffer[:0], l.config.Node, r), '\n')
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.config.Lossy && len(l.pending) >= maxPending {
		l.missing++
		l.lost.Add(1)
		return
	}
	first := len(l.pending) == 0
	l.pending = append(l.pending, text...)
	if first { // the others are written with it
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// Flush writes the records that wait, and returns an error if they are not written.
func (l *Log) Flush() error {
	end := make(chan struct{})
	select {
	case l.flush <- end:
		<-end
	case <-l.done:
	}
	return l.Failure()
}

// Err returns an error if no credential must be used now, because its use could not be recorded.
func (l *Log) Err() error {
	if l == nil || l.config.Lossy {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && len(l.pending) >= maxPending {
		return errors.New("the audit log is written too slowly")
	}
	return l.err
}

// Failure returns the error of the last write, or nil.
func (l *Log) Failure() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Lines returns the number of lines written by this process, and that of uses that it has not recorded.
func (l *Log) Lines() (lines, lost uint64) { return l.lines.Load(), l.lost.Load() }

// Close writes all records and the last line. No record may be added afterwards. It returns an error if not all could be written,
// also if the disk hangs.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	close(l.stop)
	select {
	case <-l.done:
		return l.closed
	case <-time.After(closeTimeout):
		return fmt.Errorf("the audit log is not complete: the disk has not taken its last lines within %v", closeTimeout)
	}
}

// end writes what waits and the last line, and ends the use of the target.
func (l *Log) end() error {
	err := l.write()
	if err == nil {
		l.unwritten = l.head.appendLine(l.unwritten, appendBeginning(nil, l.config.Clock(), "end", l.config.Node))
		err = l.writeOut()
	}
	l.logHead("the audit log is closed")
	head := &l.head
	if err != nil {
		head = nil // it is that of a line that is not in the file
	}
	if err = errors.Join(err, l.target.close(head)); err != nil {
		return fmt.Errorf("the audit log is not complete: %w", err)
	}
	return nil
}

func (l *Log) run() {
	defer close(l.done)
	head, sync := time.NewTicker(headInterval), time.NewTicker(syncInterval)
	defer head.Stop()
	defer sync.Stop()
	var timer <-chan time.Time
	for {
		select {
		case <-l.wake:
			if timer == nil {
				timer = time.After(batchDelay)
			}
		case <-timer:
			timer = nil
			_ = l.write() // noted, and tried again
		case done := <-l.flush:
			_ = l.write()
			close(done)
		case <-sync.C:
			// This also tries again after an error, and leaves a file that was moved away if no line comes.
			if l.write() == nil {
				l.note(l.target.sync())
			}
		case <-head.C:
			if l.logged != l.head.n {
				l.logHead("the head of the audit log")
			}
		case <-l.stop:
			l.closed = l.end()
			return
		}
	}
}

// write writes the records that wait, and notes whether it can.
func (l *Log) write() error {
	err := l.writeRecords()
	l.note(err)
	return err
}

func (l *Log) writeRecords() error {
	if err := l.writeOut(); err != nil {
		return err
	}
	more, err := l.target.turn()
	if err != nil {
		return err
	}
	if more {
		l.begin(0)
		l.logHead("the audit log goes on in a new file")
	}
	l.mu.Lock()
	missing := l.missing
	l.writing, l.pending, l.missing = l.pending, l.writing, 0
	l.mu.Unlock()
	for rest := l.writing; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		l.unwritten = l.head.appendLine(l.unwritten, rest[:end])
		rest = rest[end+1:]
	}
	l.writing = reuse(l.writing)
	if missing > 0 {
		l.unwritten = l.head.appendLine(l.unwritten, appendNumber(appendBeginning(nil, l.config.Clock(), "lost", l.config.Node), "uses", missing))
	}
	return l.writeOut()
}

// begin adds the first line of a file or of a process. torn is the number of bytes of a line that was not written whole.
func (l *Log) begin(torn int) {
	members := appendBeginning(nil, l.config.Clock(), "begin", l.config.Node)
	if l.head.n > 0 {
		members = appendMember(members, "continues", l.head.text())
	}
	l.unwritten = l.head.appendLine(l.unwritten, appendNumber(members, "torn", torn))
}

// writeOut writes the bytes that the target has not taken. After an error, the rest stays, so that no line gets a gap.
func (l *Log) writeOut() error {
	if len(l.unwritten) == 0 {
		return nil
	}
	n, err := l.target.Write(l.unwritten)
	complete := l.unwritten[:max(0, min(n, len(l.unwritten)))]
	l.lines.Add(uint64(bytes.Count(complete, []byte{'\n'})))
	if l.unwritten = append(l.unwritten[:0], l.unwritten[len(complete):]...); len(l.unwritten) == 0 {
		l.unwritten = reuse(l.unwritten)
	}
	return err
}

// reuse returns an empty slice with the memory of b, or without memory if that is large, as after a burst.
func reuse(b []byte) []byte {
	if cap(b) > maxRetained {
		return nil
	}
	return b[:0]
}

func (l *Log) note(err error) {
	l.mu.Lock()
	previous := l.err
	l.err = err
	l.mu.Unlock()
	switch then := "until it can be, requests are refused"; {
	case err != nil && previous == nil:
		if l.config.Lossy {
			then = "uses that do not fit into memory until it can be are not recorded"
		}
		l.config.Logger.Error("the audit log cannot be written", slog.String("file", l.name()), slog.Any("error", err), slog.String("then", then))
	case err == nil && previous != nil:
		l.config.Logger.Info("the audit log can be written again", slog.String("file", l.name()))
	}
}

// logHead logs the number and the hash of the last line. A copy elsewhere shows whether lines before it were changed.
func (l *Log) logHead(message string) {
	l.logged = l.head.n
	l.config.Logger.Info(message, slog.String("file", l.name()), slog.Uint64("line", l.head.n), slog.String("hash", l.head.text()))
}

func (l *Log) name() string { return cmp.Or(l.config.Path, "stdout") }

// stream is a target that is not a file.
type stream struct{ io.Writer }

func (stream) started() error      { return nil }
func (stream) turn() (bool, error) { return false, nil }
func (stream) sync() error         { return nil }
func (stream) undo() error         { return nil }
func (stream) close(*link) error   { return nil }
