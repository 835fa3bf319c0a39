package audit

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// An ending describes the end of a file.
type ending struct {
	// last is the last whole line. It is the zero link if there is none.
	last link
	// torn is the number of bytes after it, of lines that were not written whole, without a line feed at their end.
	torn int
	// feed reports whether a line feed is missing at the end.
	feed bool
}

// maxTail is the maximum length of a line, in bytes.
const maxTail = 64 << 10

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
		if e.last, err = parseLink(line); err == nil {
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
	head, err := parseLink(text)
	if err != nil {
		return link{}, fmt.Errorf("has a file %s that was changed: remove that, and the chain goes on with the last line of the log, or begins anew without one", path)
	}
	return head, nil
}

// writeHead writes the head of the chain, all of it or nothing.
func writeHead(path string, head *link, syncFile func(*os.File) error) error {
	path += headSuffix
	fresh, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(fresh.Name()) }() // not there any more if all went well
	_, err = fmt.Fprintf(fresh, "{\"n\":%d,\"hash\":%q}\n", head.n, head.text())
	if err == nil {
		err = syncFile(fresh)
	}
	if err = errors.Join(err, fresh.Close()); err != nil {
		return err
	}
	return os.Rename(fresh.Name(), path)
}
