// Package codings has the content codings of answers that the standard library does not undo: br (RFC 7932) and zstd (RFC 8878).
package codings

import (
	"bufio"
	"errors"
	"io"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// Window is the largest window of an answer in bytes, and so about what undoing a coding takes in memory. RFC 9659 section 3 sets it
// for zstd. A window of br may be twice as large; the default of its encoders is half of it.
const Window = 8 << 20

// Further returns the codings by their names. The caller may change the map.
func Further() map[string]func(io.Reader) (io.ReadCloser, error) {
	return map[string]func(io.Reader) (io.ReadCloser, error){"br": br, "zstd": unzstd}
}

func br(r io.Reader) (io.ReadCloser, error) {
	in := bufio.NewReader(r)
	if head, err := in.Peek(1); err == nil && head[0]&0x0f == 0x0f { // RFC 7932 section 9.1: 1111 is the window of 24 bits
		return nil, errors.New("its window is larger than 8 MiB")
	}
	return io.NopCloser(brotli.NewReader(in)), nil
}

func unzstd(r io.Reader) (io.ReadCloser, error) {
	d, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(Window))
	if err != nil {
		return nil, err
	}
	return d.IOReadCloser(), nil
}
