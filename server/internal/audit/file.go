package audit

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/gofrs/flock"
)

// file is a target that is a file. A lock file beside it keeps other processes away. While no process writes, another file beside it
// has the head of the chain, so that the chain goes on if the file is moved away meanwhile.
type file struct {
	path string
	lock *flock.Flock
	// open is nil after the file could not be opened.
	open *os.File
	// size is the size of the file after the last write, in bytes, and found that before the first one.
	size, found int64
	// last is the last line before this process, and torn the number of bytes of a line after it that was not written whole.
	last link
	torn int
}

// openFile opens a file and its lock.
func openFile(path string) (*file, error) {
	f := &file{path: path, lock: flock.New(path+".lock", flock.SetPermissions(0o600))}
	locked, err := f.lock.TryLock()
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot be locked: %w", err)
	case !locked:
		return nil, errors.New("belongs to another process: let each have a file of its own")
	}
	if err := f.begin(); err != nil {
		return nil, errors.Join(err, f.close(nil))
	}
	return f, nil
}

// begin opens the file and finds the place in the chain.
func (f *file) begin() error {
	if err := f.reopen(); err != nil {
		return fmt.Errorf("cannot be opened: %w", err)
	}
	f.found = f.size
	if info, err := f.open.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.New("is no regular file: with stdout: true, the lines go to stdout")
	}
	if err := f.tail(); err != nil {
		return err
	}
	kept, err := os.ReadFile(f.headPath())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("has a head that cannot be read: %w", err)
	}
	if f.last.n == 0 {
		if f.last, err = parseLink(kept); err != nil {
			return fmt.Errorf("has a file %s that was changed: remove that, and the chain begins anew", f.headPath())
		}
	}
	return os.Remove(f.headPath()) // after a crash, there must be no old head
}

// headPath returns the path of the file with the head of the chain.
func (f *file) headPath() string { return f.path + ".head" }

// maxTail is the maximum length of a line, in bytes.
const maxTail = 64 << 10

// tail reads the last line of the file, and the bytes after it.
func (f *file) tail() error {
	length := min(f.size, 2*maxTail)
	text := make([]byte, length)
	if _, err := f.open.ReadAt(text, f.size-length); err != nil && err != io.EOF {
		return fmt.Errorf("cannot be read: %w", err)
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	f.torn = len(text) - whole
	if whole == 0 {
		if length > maxTail {
			return errNoLog
		}
		return nil
	}
	line := text[:whole-1]
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	var err error
	if f.last, err = parseLink(line); err != nil {
		return errNoLog
	}
	return nil
}

var errNoLog = errors.New("does not end with a line of an audit log: move it away, or name another file")

// parseLink returns the number and the hash of a line.
func parseLink(line []byte) (l link, err error) {
	var members struct {
		N    uint64 `json:"n"`
		Hash string `json:"hash"`
	}
	if err := json.Unmarshal(line, &members); err != nil {
		return link{}, err
	}
	if n, err := hex.Decode(l.hash[:], []byte(members.Hash)[:min(len(members.Hash), 2*len(l.hash))]); err != nil || n != len(l.hash) || members.N == 0 {
		return link{}, errors.New("it has no number and no hash")
	}
	l.n = members.N
	return l, nil
}

// reopen opens the file at the path, and creates it if there is none.
func (f *file) reopen() error {
	opened, err := os.OpenFile(f.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := opened.Stat()
	if err != nil {
		return errors.Join(err, opened.Close())
	}
	f.open, f.size = opened, info.Size()
	return nil
}

// Write implements [io.Writer].
func (f *file) Write(text []byte) (int, error) {
	if f.open == nil {
		return 0, fs.ErrClosed
	}
	n, err := f.open.Write(text)
	f.size += int64(n)
	return n, err
}

func (f *file) turn(end func()) (another bool, err error) {
	if f.open == nil {
		return true, f.reopen()
	}
	there, err := os.Stat(f.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	own, ownErr := f.open.Stat()
	switch {
	case ownErr != nil:
		return false, ownErr
	case err == nil && os.SameFile(there, own):
		shrunk := own.Size() < f.size // somebody has emptied it
		f.size = own.Size()
		return shrunk, nil
	}
	end()
	_, _ = f.open.Sync(), f.open.Close()
	f.open = nil
	return true, f.reopen()
}

func (f *file) sync() error {
	if f.open == nil {
		return nil
	}
	return f.open.Sync()
}

func (f *file) undo() error {
	return errors.Join(f.open.Truncate(f.found), f.close(nil))
}

func (f *file) close(head *link) (err error) {
	if head != nil {
		text := fmt.Appendf(nil, "{\"n\":%d,\"hash\":%q}\n", head.n, head.text())
		err = os.WriteFile(f.headPath(), text, 0o600)
	}
	if f.open != nil {
		err = errors.Join(err, f.open.Close())
	}
	return errors.Join(err, f.lock.Unlock())
}
