package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/gofrs/flock"

	"github.com/keywright/keywright/internal/files"
)

// file is a target that is a file. It is locked, so that no other process writes to it. While no process writes, another file beside it
// has the head of the chain, so that the chain goes on if the file is moved away meanwhile.
type file struct {
	path     string
	syncFile func(*os.File) error
	// open is nil after the file could not be opened.
	open *os.File
	// reopened is the same file, for writing lines anew at their place, or nil if the file can only be appended to.
	reopened *os.File
	lock     *flock.Flock
	// size is the size of the file after the last write, in bytes, and found that before the first one.
	size, found int64
	// unsynced has the bytes that were written since the last sync. doubtful reports whether a sync has failed since, so that nobody knows how
	// much of it is on the disk.
	unsynced []byte
	doubtful bool
	// end describes the end of the file when it was opened.
	end ending
	// cut reports whether the head of the chain is after the last line of the file: lines were cut off.
	cut bool
}

func openFile(path string, syncFile func(*os.File) error) (*file, error) {
	f := &file{path: path, syncFile: syncFile}
	if err := f.reopen(); err != nil {
		return nil, err
	}
	f.found = f.size
	if err := f.begin(); err != nil {
		return nil, errors.Join(err, f.shut())
	}
	return f, nil
}

// begin finds the place in the chain: the end of the file, or the head beside it if that is further.
func (f *file) begin() (err error) {
	if f.end, err = endOf(f.open, f.size); err != nil {
		return err
	}
	headLink, err := readHead(f.path)
	if err != nil {
		return err
	}
	if last := &f.end.last; headLink.n > last.n || headLink.n == last.n && headLink.hash != last.hash {
		f.cut = f.size > 0
		*last = headLink
	}
	return nil
}

// reopen opens and locks the file at the path, and creates it if there is none.
func (f *file) reopen() error {
	if info, err := os.Lstat(f.path); err == nil && !info.Mode().IsRegular() {
		return errors.New("is no regular file: name the file itself if it is a symbolic link; with stdout: true, the lines go to stdout")
	}
	f2, err := os.OpenFile(f.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("cannot be opened: %w", err)
	}
	info, err := f2.Stat()
	if err != nil {
		return errors.Join(err, f2.Close())
	}
	lock, err := lockFile(f.path, info)
	if err != nil {
		return errors.Join(err, f2.Close())
	}
	f.open, f.lock, f.size, f.unsynced = f2, lock, info.Size(), f.unsynced[:0]
	// A file that can only be appended to, as after chattr +a, cannot be opened so.
	if reopened, err := os.OpenFile(f.path, os.O_WRONLY, 0); err == nil {
		if reopenedInfo, _ := reopened.Stat(); os.SameFile(info, reopenedInfo) { // none after an error
			f.reopened = reopened
		} else {
			_ = reopened.Close()
		}
	}
	return nil
}

// lockFile locks the file at a path, which must be that of opened, and no link to it.
func lockFile(path string, opened fs.FileInfo) (*flock.Flock, error) {
	lock := flock.New(path, flock.SetFlag(os.O_RDWR|os.O_APPEND))
	locked, err := lock.TryLock()
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot be locked: %w", err)
	case !locked:
		return nil, errors.New("belongs to another process: let each have a file of its own")
	}
	there, err := os.Lstat(path)
	if own, ownErr := lock.Stat(); !os.SameFile(there, opened) || !os.SameFile(own, opened) { // after an error, they are not
		return nil, errors.Join(errors.New("was moved while it was opened: try again"), err, ownErr, lock.Close())
	}
	return lock, nil
}

// Write implements [io.Writer]. It is not called after a failed sync until turn has synced what was written.
func (f *file) Write(text []byte) (int, error) {
	if f.open == nil {
		return 0, fs.ErrClosed
	}
	if len(f.unsynced) >= maxPending {
		if err := f.sync(); err != nil {
			return 0, err
		}
	}
	n, err := f.open.Write(text)
	f.size += int64(n)
	f.unsynced = append(f.unsynced, text[:n]...)
	return n, err
}

func (f *file) turn() (more bool, err error) {
	if f.open == nil {
		return f.next()
	}
	if f.doubtful {
		if err := f.sync(); err != nil {
			return false, err
		}
	}
	there, err := os.Lstat(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	switch own, ownErr := f.open.Stat(); {
	case ownErr != nil:
		return false, ownErr
	case err == nil && os.SameFile(there, own):
		shrunk := own.Size() < f.size // somebody has emptied it
		if f.size = own.Size(); shrunk {
			f.unsynced = f.unsynced[:0]
		}
		return shrunk, nil
	}
	if err := f.sync(); err != nil {
		return false, err
	}
	_ = f.shut() // all of it is on the disk
	return f.next()
}

// next opens the file at the path, after the one before was moved away. Nothing of it may be from somebody else.
func (f *file) next() (more bool, err error) {
	if err := f.reopen(); err != nil {
		return false, fmt.Errorf("the next file %w", err)
	}
	if f.size > 0 {
		return false, errors.Join(errors.New("the next file is not empty: move it away"), f.shut())
	}
	return true, nil
}

// sync syncs what was written. The kernel reports a failed sync once, and takes what it could not write for written. Therefore all of
// it is written again before the next sync.
func (f *file) sync() error {
	if f.open == nil || len(f.unsynced) == 0 {
		return nil
	}
	err := f.rewrite()
	if err == nil {
		err = f.syncFile(f.open)
	}
	if f.doubtful = err != nil; f.doubtful {
		return fmt.Errorf("the last %d bytes may not be on the disk: %w", len(f.unsynced), err)
	}
	f.unsynced = reuse(f.unsynced)
	return nil
}

// rewrite writes what is doubtful again, at the same place.
func (f *file) rewrite() error {
	if !f.doubtful {
		return nil
	}
	info, err := f.open.Stat()
	if err != nil {
		return err
	}
	if info.Size() < f.size {
		return nil // somebody has emptied the file, and turn sees it
	}
	if f.reopened == nil {
		return errors.New("a sync has failed, and the file cannot be written again, only appended to: restart the gateway")
	}
	_, err = f.reopened.WriteAt(f.unsynced, f.size-int64(len(f.unsynced)))
	return err
}

func (f *file) started() error {
	if err := f.sync(); err != nil {
		return err
	}
	err := os.Remove(f.path + headSuffix) // after a crash, there must be no old head
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (f *file) undo() error { return errors.Join(f.open.Truncate(f.found), f.shut()) }

func (f *file) close(head *link) error {
	err := f.sync()
	if head != nil {
		err = errors.Join(err, files.Replace(f.path+headSuffix, fmt.Appendf(nil, "{\"n\":%d,\"hash\":%q}\n", head.n, head.text()), 0o600))
	}
	return errors.Join(err, f.shut())
}

func (f *file) shut() (err error) {
	if f.open == nil {
		return nil
	}
	if f.reopened != nil {
		err = f.reopened.Close()
	}
	err = errors.Join(err, f.open.Close(), f.lock.Close())
	f.open, f.reopened, f.lock = nil, nil, nil
	return err
}

type ending struct {
	// last is the last whole line. It is the zero link if there is none.
	last link
	// torn is the number of bytes after it, of lines that were not written whole, without a line feed at their end.
	torn int
	// feed reports whether a line feed is missing at the end.
	feed bool
}

const maxTail = 64 << 10 // bytes of the longest line

var errNoLog = errors.New("does not end with a line of an audit log: move it away, or name another file")

// endOf returns how a file ends. Each process that was killed while it wrote a line may have left a part of one.
func endOf(file *os.File, size int64) (e ending, err error) {
	text := make([]byte, min(size, 2*maxTail))
	if _, err := file.ReadAt(text, size-int64(len(text))); err != nil {
		return e, fmt.Errorf("cannot be read: %w", err)
	}
	e.feed = len(text) > 0 && text[len(text)-1] != '\n'
	rest := text
	for len(rest) > 0 {
		line := bytes.TrimSuffix(rest, []byte{'\n'})
		line = line[bytes.LastIndexByte(line, '\n')+1:]
		var ok bool
		if e.last, ok = parseLink(line); ok {
			break
		}
		if !partial(line) {
			return e, errNoLog
		}
		rest = rest[:bytes.LastIndexByte(rest[:len(rest)-1], '\n')+1]
	}
	if len(rest) == 0 && int64(len(text)) < size {
		return e, errNoLog
	}
	e.torn = len(bytes.TrimSuffix(text[len(rest):], []byte{'\n'}))
	return e, nil
}

// partial reports whether a text may be the beginning of a line. After a loss of power, zeros may follow it.
func partial(text []byte) bool {
	begin := bytes.TrimRight(text, "\x00")
	return len(text) > 0 && len(text) <= maxTail && !json.Valid(begin) && (bytes.HasPrefix(begin, []byte(beginNumber)) || bytes.HasPrefix([]byte(beginNumber), begin))
}

// headSuffix ends the path of the file with the head of the chain, which is beside the log.
const headSuffix = ".head"

// readHead returns the head beside the log at a path. It returns the zero link if there is none.
func readHead(path string) (link, error) {
	path += headSuffix
	info, err := os.Lstat(path)
	var text []byte
	if err == nil && info.Mode().IsRegular() && info.Size() <= maxTail { // a pipe or a device may have no end
		text, err = os.ReadFile(path)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return link{}, nil
	case err != nil:
		return link{}, fmt.Errorf("has a head that cannot be read: %w", err)
	}
	head, ok := parseLink(bytes.TrimSuffix(text, []byte{'\n'}))
	if !ok {
		return link{}, fmt.Errorf("has a file %s that was changed: remove that, and the chain goes on with the last line of the log, or begins anew without one", path)
	}
	return head, nil
}
