package sandbox

import (
	"bytes"
	"strings"
)

// A guest's WASI has the host's clock and random bytes, and a stderr that goes to the log. There are no arguments,
// environment, input or files, and the functions for these report that. A module that imports a function that opens a
// file or a socket is not admitted.

// wasiWrite is the function of WASI that writes to stderr.
const wasiWrite = "fd_write"

// lines is a writer for stderr. It splits the text into lines and calls write for each. It drops the bytes of a line
// beyond maxLineBytes.
type lines struct {
	write func(line string)
	// proceed ends the call if its time is over. It is called for each Write, since one fd_write may have millions of
	// parts.
	proceed func()
	// partial is the current, unfinished line.
	partial []byte
}

// Write returns no error. It may end the call by a panic of proceed or write.
func (l *lines) Write(text []byte) (int, error) {
	n := len(text)
	l.proceed()
	for {
		line, rest, complete := bytes.Cut(text, []byte{'\n'})
		l.partial = append(l.partial, line[:min(len(line), maxLineBytes-len(l.partial))]...)
		if !complete {
			return n, nil
		}
		l.flush()
		text = rest
	}
}

// flush writes the current line unless it is empty.
func (l *lines) flush() {
	if len(l.partial) == 0 {
		return
	}
	line := strings.ToValidUTF8(string(l.partial), "\uFFFD")
	l.partial = l.partial[:0]
	l.write(line)
}
