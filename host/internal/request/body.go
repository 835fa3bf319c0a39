package request

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/keywright/keywright/host/internal/lease"
	"github.com/keywright/keywright/internal/urlcheck"
)

// Body is the body of a request that is being sent. It streams, unless a plugin reads it and it can be read
// only once, or adds to it. Then the host keeps it.
type Body struct {
	// Form is the text that mutations add to the body.
	Form string

	// Turns are the turns that the request has taken, by their partitions. Release ends them.
	Turns map[[32]byte]*lease.Serial

	// limit is the maximum size of a body that is kept.
	limit int64
	// Second is set when the request is sent for the second time.
	Second bool
	// closed is set when the request's own body has been read and closed.
	closed bool
	// buffer is nil while the body streams.
	buffer *keptBody
}

// Kept reports whether the body is kept.
func (b *Body) Kept() bool { return b.buffer != nil }

// Reader returns a function that returns new readers of the kept body without Form, and its length.
func (b *Body) Reader() (open func() (io.ReadCloser, error), size int64) {
	return b.buffer.open, b.buffer.size
}

// Close closes the body of a request that is not sent, as a RoundTripper must even after an error. It does so once.
func (b *Body) Close(r *http.Request) {
	if !b.Second && !b.closed && r.Body != nil {
		_ = r.Body.Close()
	}
}

// CanRepeat reports whether a request has no body, or one that can be read again.
func (b *Body) CanRepeat(r *http.Request) bool {
	return r.Body == nil || r.Body == http.NoBody || r.GetBody != nil || b.buffer != nil
}

var errGone = errors.New("the request's body cannot be had again for a second attempt")

// Keep reads the request's body to its end and closes it. On the second attempt that is a new body of GetBody, because the request's own
// has been sent. A request without a body has an empty one. If the body is larger than the limit, the error wraps [http.MaxBytesError]. If
// ctx ends first, Keep returns at once. The body is closed when the pending Read returns, because closing a body of [http.Server] waits
// for its reader.
func (b *Body) Keep(ctx context.Context, r *http.Request) error {
	if b.Second && r.GetBody != nil && r.Body != nil && r.Body != http.NoBody {
		repeat, err := r.GetBody()
		if err != nil {
			return errGone
		}
		copied := *r
		copied.Body = repeat
		r = &copied
	}
	b.closed = true
	if r.Body == nil {
		b.buffer = &keptBody{users: 1}
		return nil
	}
	body, declared := r.Body, r.ContentLength
	stop := context.AfterFunc(ctx, func() { _ = body.Close() }) // ends a pending Read of any other body
	buffer := &keptBody{users: 1}
	read := make(chan error)
	go func() {
		err := buffer.read(body, declared, b.limit)
		if stop() {
			_ = body.Close()
		}
		select {
		case read <- err:
		case <-ctx.Done():
			buffer.release()
		}
	}()
	select {
	case err := <-read:
		if err != nil {
			buffer.release()
			return cmp.Or(context.Cause(ctx), err)
		}
		b.buffer = buffer
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Attach sets the body of r, a copy of the request: to the kept body, or on the second attempt to one of GetBody.
func (b *Body) Attach(r *http.Request) (err error) {
	buffer := b.buffer
	if buffer == nil {
		if b.Second && r.Body != nil && r.Body != http.NoBody {
			if r.Body, err = r.GetBody(); err != nil {
				return errGone
			}
		}
		return nil
	}
	size := buffer.size
	r.GetBody = buffer.open
	if text := b.Form; text != "" {
		if err := buffer.repeats(text); err != nil {
			return err
		}
		if size > 0 {
			text = "&" + text
		}
		size += int64(len(text))
		r.GetBody = func() (io.ReadCloser, error) { return buffer.openWith(text) } // it does not hold b, so that b stays on the stack
	}
	if r.Body, err = r.GetBody(); err != nil || len(r.Trailer) > 0 { // trailers need chunked encoding, without a length
		return err
	}
	r.ContentLength, r.TransferEncoding = size, nil
	if size == 0 {
		r.Body = http.NoBody // with any other body, a ContentLength of 0 means an unknown length
	}
	return nil
}

// Late reports whether a turn of the request is nearly over, so that its number may not be sent any more.
func (b *Body) Late() bool {
	for _, turn := range b.Turns {
		if turn.Late() {
			return true
		}
	}
	return false
}

// Release releases the kept body, if there is one, and ends the turns. A reader that is still open remains valid.
func (b *Body) Release() {
	for _, turn := range b.Turns {
		turn.End()
	}
	if b.buffer != nil {
		b.buffer.release()
	}
}

// maxInMemory limits the bytes of a kept body that are held in memory. It is low because each request in flight may
// hold that many. Most requests that are signed fit in it, since they are documents rather than uploads.
const maxInMemory = 64 << 10

// keptBody is a body that was read to its end: in memory if it is short, and otherwise in an unlinked temporary file.
type keptBody struct {
	size   int64
	memory []byte

	mu sync.Mutex
	// users counts the request in flight and each open reader.
	users int
	// file has the body, unless memory has it.
	file *os.File
	// name is the name of the file if it could not be removed while it is open.
	name string
}

// read reads a body of at most limit bytes, and one byte of the rest. A declared length of 0 or less may be an unknown one.
func (k *keptBody) read(body io.Reader, declared, limit int64) error {
	if declared > limit {
		return tooLarge(limit)
	}
	length := min(limit, math.MaxInt64-1)
	if declared > 0 { // 0 may also mean an unknown length
		length = declared
	}
	from := io.LimitReader(body, length+1)
	var memory bytes.Buffer
	size, err := memory.ReadFrom(io.LimitReader(from, maxInMemory+1))
	if err == nil && size > maxInMemory {
		if err = k.create(); err != nil {
			return err
		}
		var rest int64
		if _, err = memory.WriteTo(k.file); err == nil {
			rest, err = io.Copy(k.file, from)
		}
		size += rest
	}
	switch {
	case err != nil:
		return fmt.Errorf("the request's body cannot be read and kept: %w", err)
	case size > limit:
		return tooLarge(limit)
	case declared > 0 && size != declared:
		return fmt.Errorf("the request's body has not the %d bytes that its ContentLength says", declared)
	}
	k.size = size
	if k.file == nil {
		k.memory = memory.Bytes()
	}
	return nil
}

func tooLarge(limit int64) error {
	return fmt.Errorf("the request's body is too large to be signed, as it is kept for that: it has more than %d bytes: %w", limit, &http.MaxBytesError{Limit: limit})
}

// create creates the file. No other process can open it: its mode is 0600, and it has no name when it is written.
func (k *keptBody) create() error {
	file, err := os.CreateTemp("", "keywright-body-*")
	if err != nil {
		return fmt.Errorf("the request's body cannot be kept: %w", err)
	}
	k.file = file
	if err := os.Remove(file.Name()); err != nil { // Windows cannot remove an open file
		k.name = file.Name()
	}
	return nil
}

// open returns a new reader of the body. The body is kept until the reader is closed.
func (k *keptBody) open() (io.ReadCloser, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.users == 0 {
		return nil, errors.New("the request's body is kept no longer")
	}
	k.users++
	content := io.Reader(bytes.NewReader(k.memory))
	if k.file != nil {
		content = io.NewSectionReader(k.file, 0, k.size)
	}
	return readCloser{content, closeFunc(sync.OnceFunc(k.release))}, nil
}

// repeats returns an error if the body, a form, has a member that some API may take for one of added. APIs differ in which of two such
// members counts, so it could be that of the caller (threats.md 43). It decodes the names in added once, because a body may have a
// member for each of its bytes (threats.md 119).
func (k *keptBody) repeats(added string) error {
	names := strings.Split(added, "&")
	for i := range names {
		names[i] = urlcheck.MemberName(names[i])
	}
	body, err := k.open()
	if err != nil {
		return err
	}
	defer body.Close()
	form := bufio.NewReaderSize(separated{body}, max(4<<10, 6*len(added))) // room for each name of added and its =, whatever its encoding
	for err == nil {
		var member []byte
		member, err = form.ReadSlice('&')
		name := urlcheck.MemberName(strings.TrimSuffix(string(member), "&"))
		cut := errors.Is(err, bufio.ErrBufferFull) && bytes.IndexByte(member, '=') < 0 // a name of much that means nothing, such as blanks
		switch {
		case slices.ContainsFunc(names, func(memberName string) bool {
			n := min(len(name), len(memberName))
			return urlcheck.MayBeMember(name, memberName) || cut && strings.EqualFold(name[:n], memberName[:n])
		}):
			return errors.New("the request's form has a member of the name that the credential has, and APIs differ in which one counts: leave it out")
		case strings.EqualFold(name, "_charset_"): // HTML, "Selecting a form submission encoding"
			return errors.New("the request's form has the member _charset_, which may change how an API reads the credential: leave it out")
		}
		for errors.Is(err, bufio.ErrBufferFull) { // the value is long
			_, err = form.ReadSlice('&')
		}
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return fmt.Errorf("the request's body cannot be read again: %w", err)
}

// separated is a form in which each member ends with &. Some APIs take ; for the end of a member, too (HTML 4.01, appendix B.2.2).
type separated struct{ io.Reader }

func (s separated) Read(p []byte) (int, error) {
	n, err := s.Reader.Read(p)
	for i := range p[:n] {
		if p[i] == ';' {
			p[i] = '&'
		}
	}
	return n, err
}

// openWith returns a new reader of the body and then of text.
func (k *keptBody) openWith(text string) (io.ReadCloser, error) {
	body, err := k.open()
	if err != nil {
		return nil, err
	}
	return readCloser{io.MultiReader(body, strings.NewReader(text)), body}, nil
}

// release removes a user. It is called once by each of them, and the last call closes the file.
func (k *keptBody) release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.users--; k.users > 0 || k.file == nil {
		return
	}
	_ = k.file.Close()
	if k.name != "" {
		_ = os.Remove(k.name)
	}
}

type readCloser struct {
	io.Reader
	io.Closer
}

type closeFunc func()

func (c closeFunc) Close() error {
	c()
	return nil
}
