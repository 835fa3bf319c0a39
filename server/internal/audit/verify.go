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
	// Lines is the number of lines that fit, and Uses that of the uses among them. Torn is the number of lines that a process which
	// was killed has not written whole. Lost is the number of uses that were not recorded, because the log could not be written.
	Lines, Uses, Torn, Lost uint64
	// From and To are the first and the last time in a line that fits. They are zero if there is none. A line has the time at which
	// the use began, and is written when it has ended.
	From, To time.Time
	// First is the number of the first line. Above 1, an earlier file has the lines before it.
	First uint64
	// Head is the hash of the last line that fits, in hex, and HeadLine is its number.
	Head     string
	HeadLine uint64
	// Ended reports whether the last line is one of a process that ended in order, or of a file that was moved away. If it is
	// false, the process still runs or was killed, or lines were cut off.
	Ended bool
	// Found reports whether a line has the hash that was asked for.
	Found bool
	// Broken is the first line that does not fit. It is nil if all fit.
	Broken *Broken
}

// Broken is a line that does not fit.
type Broken struct {
	File string
	// Line is the number of the line in the file, from 1.
	Line int
	// Why says why it does not fit.
	Why string
}

// Verify verifies a log that consists of these files. Their order does not matter. A file may be compressed with gzip. Verify stops
// at the first line that does not fit. hash, if not empty, is the hash of a line, in hex, that the log must have. The error is that
// of reading.
func Verify(paths []string, hash string) (Report, error) {
	var all []*source
	defer func() {
		for _, s := range all {
			_ = s.file.Close()
		}
	}()
	for _, path := range paths {
		s, err := openSource(path)
		if err != nil {
			return Report{}, err
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b *source) int { return cmp.Compare(a.first, b.first) })
	v := &verifier{wanted: strings.ToLower(hash)}
	for _, s := range all {
		v.file, v.line = s.name, 0
		if err := v.read(s.text); err != nil {
			return v.Report, fmt.Errorf("%s cannot be read: %w", s.name, err)
		}
		if v.fragment > 0 && v.Broken == nil {
			v.broken(noLine)
		}
		if v.Broken != nil {
			break
		}
	}
	if v.Lines > 0 {
		v.Head, v.HeadLine = v.last.text(), v.last.n
	}
	return v.Report, nil
}

// A source is a file of a log.
type source struct {
	name string
	file *os.File
	text *bufio.Reader
	// first is the number of its first line, or 0 if that is none.
	first uint64
}

func openSource(path string) (*source, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	text := bufio.NewReaderSize(file, 2*maxTail)
	if magic, _ := text.Peek(2); string(magic) == "\x1f\x8b" {
		unzipped, err := gzip.NewReader(text)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s cannot be read: %w", path, err), file.Close())
		}
		text = bufio.NewReaderSize(unzipped, 2*maxTail)
	}
	s := &source{name: path, file: file, text: text}
	beginning, _ := text.Peek(maxTail)
	line, _, _ := bytes.Cut(beginning, []byte{'\n'})
	if first, err := parseLink(line); err == nil {
		s.first = first.n
	}
	return s, nil
}

type verifier struct {
	Report
	wanted string
	file   string
	line   int
	last   link
	// fragment is the length of a line that was not written whole and that the next line must be about, and 0 otherwise.
	fragment int
}

// read verifies the lines of one file.
func (v *verifier) read(r *bufio.Reader) error {
	for {
		text, err := r.ReadSlice('\n')
		ended := errors.Is(err, io.EOF)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			v.line++
			v.broken("is longer than lines of an audit log are")
			return nil
		case err != nil && !ended:
			return err
		case len(text) == 0:
			return nil
		}
		v.line++
		whole, complete := bytes.CutSuffix(text, []byte{'\n'})
		v.check(whole, complete)
		if v.Broken != nil || ended {
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

// check verifies a line. complete reports whether a line feed ends it.
func (v *verifier) check(text []byte, complete bool) {
	if v.fragment > 0 && !complete {
		v.broken("is a second line that was not written whole")
		return
	}
	if len(text) == 0 {
		v.broken("is empty")
		return
	}
	var m members
	hashed, hash, ok := split(text)
	if !ok || !complete || json.Unmarshal(text, &m) != nil {
		if v.fragment > 0 {
			v.line--
			v.broken(noLine)
			return
		}
		// A process that was killed leaves such a line, and the next one says so.
		v.fragment = len(text)
		if !complete {
			v.broken("is not all of a line: it is being written, the process that wrote it was killed, or its end was cut off")
		}
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

// fits reports whether a line may be the next one, without its hash.
func (v *verifier) fits(m *members) bool {
	begins := m.Use == "begin"
	if v.fragment > 0 {
		if !begins || m.Torn != v.fragment {
			v.line--
			v.broken(noLine)
			return false
		}
		v.fragment = 0
		v.Torn++
	} else if m.Torn > 0 {
		v.broken("says that the line before it was not written whole, and it is: a line was taken out")
		return false
	}
	if v.Lines == 0 {
		return v.starts(m, begins)
	}
	switch continues, err := hex.DecodeString(m.Continues); {
	case m.N != v.last.n+1 && begins && m.N == 1:
		v.broken("begins another log: the file before it is missing, or was removed before a process started")
	case m.N > v.last.n+1:
		v.broken("is line %d of the log, after line %d: lines are missing before it", m.N, v.last.n)
	case m.N <= v.last.n:
		v.broken("is line %d of the log, after line %d: it was moved or is there twice, or the files are not in order", m.N, v.last.n)
	case begins && (err != nil || !bytes.Equal(continues, v.last.hash[:])):
		v.broken("continues other lines than those before it")
	default:
		return true
	}
	return false
}

// starts reports whether a line may be the first one. What was before it is taken from the line.
func (v *verifier) starts(m *members, begins bool) bool {
	before, err := hex.DecodeString(m.Continues)
	switch {
	case !begins:
		v.broken("is not the first line of a file: lines before it are missing")
	case m.N == 1 && m.Continues == "":
		return true
	case m.N <= 1 || err != nil || len(before) != len(v.last.hash):
		v.broken("does not say which line it continues")
	default:
		v.last.n = m.N - 1
		copy(v.last.hash[:], before)
		return true
	}
	return false
}

// count counts a line that fits.
func (v *verifier) count(m *members, sum [32]byte) {
	if v.Lines == 0 {
		v.First, v.From = m.N, m.Time
	}
	v.Lines++
	v.last = link{m.N, sum}
	if m.Time.Before(v.From) {
		v.From = m.Time
	}
	if m.Time.After(v.To) {
		v.To = m.Time
	}
	v.Ended = m.Use == "end"
	switch m.Use {
	case "begin", "end":
	case "lost":
		v.Lost += m.Uses
	default:
		v.Uses++
	}
	v.Found = v.Found || v.wanted != "" && v.wanted == v.last.text()
}

// split parts a line into what is hashed and its hash.
func split(text []byte) (hashed []byte, hash [32]byte, ok bool) {
	cut := len(text) - lengthOfHash
	if cut < 0 || !bytes.HasPrefix(text, []byte(beginNumber)) || !bytes.HasPrefix(text[cut:], []byte(beginHash)) || !bytes.HasSuffix(text, []byte(endHash)) {
		return nil, hash, false
	}
	_, err := hex.Decode(hash[:], text[cut+len(beginHash):len(text)-len(endHash)])
	return text[:cut], hash, err == nil
}
