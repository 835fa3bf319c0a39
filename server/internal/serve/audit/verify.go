package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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
			s.close()
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
	first, _ := parseLink(line)
	s.first = first.n
	if info, err := s.file.Stat(); err != nil || info.Mode().IsRegular() { // others, such as a pipe, can be read once
		s.close()
	}
	return s, nil
}

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

func (s *source) close() {
	_ = s.file.Close() // an error if it is closed
	s.file, s.text = nil, nil
}

type verifier struct {
	Report
	expected string
	from, to time.Time
	file     string
	line     int
	last     link
	// fragments is the number of lines before this one that were not written whole, fragment the number of their bytes, and torn the
	// number of the first one. The next whole line must be about them.
	fragments, fragment, torn int
	heads                     []head
}

// A head is a line that a file beside the log says to be the last one.
type head struct {
	link
	file string
	// foreign reports whether the log has another line with the number.
	foreign bool
}

func (v *verifier) readHead(path string) error {
	headLink, err := readHead(path)
	if err != nil {
		return fmt.Errorf("%s %w", path, err)
	}
	if headLink.n > 0 {
		v.heads = append(v.heads, head{link: headLink, file: path + headSuffix})
	}
	return nil
}

// compareHeads compares the last line with the heads, once all lines fit.
func (v *verifier) compareHeads() {
	for _, h := range v.heads {
		if v.Broken != nil {
			return
		}
		v.file, v.line = h.file, 1
		switch {
		case h.n > v.last.n:
			v.broken("says that the last line of the log is line %d, and it is line %d: its end was cut off, or is in another file", h.n, v.last.n)
		case h.foreign:
			v.broken("has the hash of another line %d than that of the log: the log was made anew", h.n)
		}
	}
}

func (v *verifier) verify(s *source) error {
	if err := s.open(); err != nil {
		return err
	}
	v.file, v.line = s.name, 0
	if err := v.read(s.text); err != nil {
		return err
	}
	if v.line == 0 {
		v.Empty = append(v.Empty, s.name)
	}
	if v.fragments > 0 && v.Broken == nil {
		v.line = v.torn
		v.broken(noLine)
	}
	s.close()
	return nil
}

func (v *verifier) read(r *bufio.Reader) error {
	for {
		text, err := r.ReadSlice('\n')
		last := errors.Is(err, io.EOF)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			v.line++
			v.broken("is longer than lines of an audit log are")
			return nil
		case err != nil && !last:
			return err
		case len(text) == 0:
			return nil
		}
		v.line++
		line, complete := bytes.CutSuffix(text, []byte{'\n'})
		v.check(line, complete)
		if v.Broken != nil || last {
			return nil
		}
	}
}

func (v *verifier) broken(format string, args ...any) {
	v.Broken = &Broken{v.file, v.line, fmt.Sprintf(format, args...)}
}

const noLine = "is no line of an audit log, or not all of one"

// members are the members of a line that its place in the chain depends on.
type members struct {
	N         uint64    `json:"n"`
	Time      time.Time `json:"time"`
	Use       string    `json:"use"`
	Continues string    `json:"continues"`
	Torn      int       `json:"torn"`
	Uses      uint64    `json:"uses"`
}

// check verifies a line. complete reports whether a line feed ends it. A process that was killed may have left a whole line without one.
func (v *verifier) check(text []byte, complete bool) {
	if len(text) == 0 {
		v.broken("is empty")
		return
	}
	var m members
	hashed, hash, ok := parse(text, &m)
	if !ok {
		v.tear(text, complete)
		return
	}
	if !v.fits(&m) {
		return
	}
	sum := hashOf(&v.last.hash, hashed)
	if sum != hash {
		v.broken("was changed, or is not the one after the line before it: its hash does not fit")
		return
	}
	v.count(&m, sum)
}

// tear notes a text that is not a whole line. A process that was killed leaves such a text, and the next whole line says so.
func (v *verifier) tear(text []byte, complete bool) {
	if v.fragments == 0 {
		v.torn = v.line
	} else {
		v.fragment++ // the line feed between them
	}
	v.fragments++
	v.fragment += len(text)
	if !complete {
		v.broken("is not all of a line: it is being written, the process that wrote it was killed, or its end was cut off")
	}
}

// fits reports whether a line may be the next one, without its hash.
func (v *verifier) fits(m *members) bool {
	begins := m.Use == "begin"
	if v.fragments > 0 {
		if !begins || m.Torn != v.fragment {
			v.line = v.torn
			v.broken(noLine)
			return false
		}
		v.Torn += uint64(v.fragments)
		v.fragments, v.fragment = 0, 0
	} else if m.Torn > 0 {
		v.broken("says that the line before it was not written whole, and it is: a line was taken out")
		return false
	}
	switch previous, err := hex.DecodeString(m.Continues); {
	case v.Lines == 0 && !begins:
		v.broken("is not the first line of a file: lines before it are missing")
	case v.Lines == 0 && m.N == 1 && m.Continues == "":
		return true
	case v.Lines == 0 && (m.N <= 1 || err != nil || len(previous) != len(v.last.hash)):
		v.broken("does not say which line it continues")
	case v.Lines == 0: // what was before it is taken from the line
		copy(v.last.hash[:], previous)
		return true
	case begins && m.N == 1:
		v.broken("begins another log: the file before it is missing, or was removed before a process started")
	case m.N > v.last.n+1:
		v.broken("is line %d of the log, after line %d: lines are missing before it", m.N, v.last.n)
	case m.N <= v.last.n:
		v.broken("is line %d of the log, after line %d: it was moved or is there twice, or the files are not in order", m.N, v.last.n)
	case begins && (err != nil || !bytes.Equal(previous, v.last.hash[:])):
		v.broken("continues other lines than those before it")
	default:
		return true
	}
	return false
}

func (v *verifier) count(m *members, sum [32]byte) {
	if v.Lines == 0 {
		v.First, v.from = m.N, m.Time
	}
	v.Lines++
	v.last = link{m.N, sum}
	if m.Time.Before(v.from) {
		v.from = m.Time
	}
	if m.Time.After(v.to) {
		v.to = m.Time
	}
	v.Ended = m.Use == "end"
	switch m.Use {
	case "begin", "end", "act":
	case "lost":
		v.Lost += m.Uses
	default:
		v.Uses++
	}
	for i := range v.heads {
		if h := &v.heads[i]; h.n == v.last.n {
			h.foreign = h.hash != v.last.hash
		}
	}
	if v.Found != nil && v.expected == v.last.text() {
		*v.Found = true
	}
}

// parse parts a line into what is hashed and its hash, and sets m.
func parse(text []byte, m *members) (hashed []byte, hash [32]byte, ok bool) {
	cut := len(text) - lengthOfHash
	if cut < 0 || !bytes.HasPrefix(text, []byte(beginNumber)) || !bytes.HasPrefix(text[cut:], []byte(beginHash)) || !bytes.HasSuffix(text, []byte(endHash)) {
		return nil, hash, false
	}
	_, err := hex.Decode(hash[:], text[cut+len(beginHash):len(text)-len(endHash)])
	return text[:cut], hash, err == nil && json.Unmarshal(text, m) == nil
}

// parseLink returns the number and the hash of a line. ok is false, and l the zero link, if it is none.
func parseLink(line []byte) (l link, ok bool) {
	var m members
	if _, hash, ok := parse(line, &m); ok && m.N > 0 {
		return link{m.N, hash}, true
	}
	return link{}, false
}
