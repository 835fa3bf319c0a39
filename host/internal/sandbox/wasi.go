package sandbox

import (
	"bytes"
	"strings"
)

// Behind WASI are the host's clock, its random bytes, and stderr, which goes to the log. There are no arguments, no
// environment, no input and no files: those functions answer so, and what opens a file or a socket is not admitted.

// wasiWrite is the function of WASI that writes to stderr.
const wasiWrite = "fd_write"

// lines cuts what a guest writes to stderr into lines, and hands each one to write. What a line has beyond
// maxLineBytes is dropped.
type lines struct {
	write   func(line string)
	proceed func() // ends the call when its time is over: one fd_write may have millions of parts
	begun   []byte // the line that has not ended yet
}

// Write never fails, other than by ending the call in write.
func (l *lines) Write(text []byte) (int, error) {
	n := len(text)
	l.proceed()
	for {
		line, rest, ended := bytes.Cut(text, []byte{'\n'})
		l.begun = append(l.begun, line[:min(len(line), maxLineBytes-len(l.begun))]...)
		if !ended {
			return n, nil
		}
		l.flush()
		text = rest
	}
}

// flush hands over the line that has been begun, if any.
func (l *lines) flush() {
	if len(l.begun) == 0 {
		return
	}
	line := strings.ToValidUTF8(string(l.begun), "\uFFFD")
	l.begun = l.begun[:0]
	l.write(line)
}
