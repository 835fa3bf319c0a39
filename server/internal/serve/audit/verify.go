package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// A Report is the result of verifying the files of a log.
type Report struct {
	// OK reports whether all lines fit, and there is one, and one has the hash that was asked for.
	OK bool `json:"ok"`
	// Lines is the number of lines that fit, and Uses that of the uses among them. Torn is the number of lines that a process which
	// was killed has not written whole. Lost is the number of uses that were not recorded, because the log could not be written.
	Lines uint64 `json:"lines"`
	Uses  uint64 `json:"uses"`
	Torn  uint64 `json:"torn"`
	Lost  uint64 `json:"lost"`
	// First and Last are the numbers of the first and the last line that fit. They are 0 if there is none. If First is above 1, an
	// earlier file has the lines before it.
	First uint64 `json:"first"`
	Last  uint64 `json:"last"`
	// From and To are the first and the last time in a line that fits, in RFC 3339. They are empty if there is none. A line has the
	// time at which the use began, and is written when it has ended.
	From string `json:"from"`
	To   string `json:"to"`
	// Hash is the hash of the last line, in hex.
	Hash string `json:"hash"`
	// Ended reports whether the last line is one of a process that ended in order. If it is false, the process still runs or was
	// killed, another file has the lines after it, or lines were cut off.
	Ended bool `json:"ended"`
	// Empty has the files without a line. A gateway writes one when it begins a file.
	Empty []string `json:"empty"`
	// Broken is the first line that does not fit. It is nil if all fit, also if there is none.
	Broken *Broken `json:"broken"`
	// Found reports whether a line has the hash that was asked for. It is nil if none was.
	Found *bool `json:"hash_found,omitempty"`
}

// Broken is a line that does not fit.
type Broken struct {
	File string `json:"file"`
	// Line is the number of the line in the file, from 1.
	Line int `json:"line"`
	// Why says why it does not fit.
	Why string `json:"why"`
}

// Verify verifies a log that consists of these files. Their order does not matter. A file may be compressed with gzip. If it has a file
// with the head of the chain beside it, the log must have that line. Such a file may also be one of paths. Verify stops at the first
// line that does not fit. hash, if not empty, is the hash of a line, in hex, that the log must have. The error is that of reading.
func Verify(paths []string, hash string) (Report, error) {
	v := &verifier{expected: strings.ToLower(hash)}
	v.Empty = []string{}
	if hash != "" {
		v.Found = new(bool)
	}
	var all []*source
	defer func() {
		for _, s := range all {
			_ = s.close()
		}
	}()
	for _, path := range paths {
		if err := v.readHead(strings.TrimSuffix(path, headSuffix)); err != nil {
			return Report{}, err
		}
		if strings.HasSuffix(path, headSuffix) {
			continue
		}
		s, err := openSource(path)
		if err != nil {
			return Report{}, err
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b *source) int { return cmp.Compare(a.first, b.first) })
	for _, s := range all {
		if err := v.verify(s); err != nil {
			return v.Report, fmt.Errorf("%s cannot be read: %w", s.name, err)
		}
		if v.Broken != nil {
			break
		}
	}
	v.compareHeads()
	if v.Lines > 0 {
		v.Hash, v.Last = v.last.text(), v.last.n
		v.From, v.To = v.from.Format(time.RFC3339), v.to.Format(time.RFC3339)
	}
	v.OK = v.Broken == nil && v.Lines > 0 && (v.Found == nil || *v.Found)
	return v.Report, nil
}

// A source is a file of a log.
type source struct {
	name string
	// first is the number of its first line, or 0 if that is none.
	first uint64
	// file and text are nil while the file is not open.
	file *os.File
	text *bufio.Reader
}

// openSource returns the source at a path. A regular file is not kept open, because a log may have many.
func openSource(path string) (*source, error) {
	s := &source{name: path}
	if err := s.open(); err != nil {
		return nil, err
	}
	beginning, _ := s.text.Peek(maxTail)
	line, _, _ := bytes.Cut(beginning, []byte{'\n'})
	if first, err := parseLink(line); err == nil {
		s.first = first.n
	}
	if info, err := s.file.Stat(); err == nil && !info.Mode().IsRegular() {
		return s, nil // a pipe can be read once
	}
	return s, s.close()
}

// open opens the file, unless it is open.
func (s *source) open() error {
	if s.file != nil {
		return nil
	}
	file, err := os.Open(s.name)
	if err != nil {
		return err
	}
	text := bufio.NewReaderSize(file, 2*maxTail)
	if magic, _ := text.Peek(2); string(magic) == "\x1f\x8b" {
		unzipped, err := gzip.NewReader(text)
		if err != nil {
			return errors.Join(fmt.Errorf("%s cannot be read: %w", s.name, err), file.Close())
		}
		text = bufio.NewReaderSize(unzipped, 2*maxTail)
	}
	s.file, s.text = file, text
	return nil
}

// close closes the file, unless it is closed.
func (s *source) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file, s.text = nil, nil
	return err
}
