package host

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"sync"
)

// payload is a request's body on its way: it streams, unless a plugin asks for its digest and nobody can read it twice.
// Then the host keeps it.
type payload struct {
	again bool      // the request is sent for the second time
	taken bool      // the request's own body was read and closed
	kept  *keptBody // nil while the body streams
}

// keep reads the request's body to its end and closes it. Errors of a body that is too large wrap [http.MaxBytesError].
// When the context ends first, the body is closed once its reader comes back: a body of [http.Server] cannot be closed while
// it is waited for.
func (p *payload) keep(ctx context.Context, r *http.Request, most int64) error {
	p.taken = true
	body, declared := r.Body, r.ContentLength
	stop := context.AfterFunc(ctx, func() { _ = body.Close() }) // which ends the waiting of other bodies
	kept := &keptBody{users: 1}
	read := make(chan error)
	go func() {
		err := kept.read(body, declared, most)
		if stop() {
			_ = body.Close()
		}
		select {
		case read <- err:
		case <-ctx.Done(): // nobody takes it
			kept.release()
		}
	}()
	select {
	case err := <-read:
		if err != nil {
			kept.release()
			return cmp.Or(context.Cause(ctx), err)
		}
		p.kept = kept
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// attach sets the body of a copy of the request: the one that is kept, or on the second attempt another one of GetBody.
func (p *payload) attach(r *http.Request) (err error) {
	switch {
	case p.kept != nil:
	case p.again && r.Body != nil && r.Body != http.NoBody:
		if r.Body, err = r.GetBody(); err != nil {
			return errors.New("the request's body cannot be had again for a second attempt")
		}
		return nil
	default:
		return nil
	}
	r.GetBody = p.kept.open
	if r.Body, err = p.kept.open(); err != nil || len(r.Trailer) > 0 { // which only chunks can have after them
		return err
	}
	r.ContentLength, r.TransferEncoding = p.kept.size, nil
	if p.kept.size == 0 {
		r.Body = http.NoBody // any other is of unknown length
	}
	return nil
}

// release lets go of the body that is kept. Whoever sends it may go on reading.
func (p *payload) release() {
	if p.kept != nil {
		p.kept.release()
	}
}

// maxInMemory is how many bytes of a kept body are in memory. It is little, since all requests under way may have so
// much. It is enough for most requests that are signed: documents, not uploads.
const maxInMemory = 64 << 10

// keptBody is a body that was read to its end: in memory if it is short, and else in a file that has no name any more.
type keptBody struct {
	digest string // SHA-256, in hex
	size   int64
	memory []byte

	mu    sync.Mutex
	users int      // who may still read: the request under way, and each reader that is not closed
	file  *os.File // nil when memory has it
	name  string   // of a file that could not be removed while it is open
}

// read reads a request's body, and at most one byte more than it may have. The length that is declared is not above 0 when
// it is not known.
func (k *keptBody) read(body io.Reader, declared, most int64) error {
	if declared > most {
		return tooLarge(most)
	}
	allowed := min(most, math.MaxInt64-1)
	if declared > 0 { // 0 may also say that nobody knows
		allowed = declared
	}
	from := io.LimitReader(body, allowed+1)
	hash := sha256.New()
	var memory bytes.Buffer
	size, err := memory.ReadFrom(io.TeeReader(io.LimitReader(from, maxInMemory+1), hash))
	if err == nil && size > maxInMemory {
		if err = k.create(); err != nil {
			return err
		}
		var rest int64
		if _, err = memory.WriteTo(k.file); err == nil {
			rest, err = io.Copy(io.MultiWriter(hash, k.file), from)
		}
		size += rest
	}
	switch {
	case err != nil:
		return fmt.Errorf("the request's body cannot be read and kept: %w", err)
	case size > most:
		return tooLarge(most)
	case declared > 0 && size != declared:
		return fmt.Errorf("the request's body has not the %d bytes that its ContentLength says", declared)
	}
	k.size, k.digest = size, hex.EncodeToString(hash.Sum(nil))
	if k.file == nil {
		k.memory = memory.Bytes()
	}
	return nil
}

func tooLarge(most int64) error {
	return fmt.Errorf("the request's body is too large to be signed, as it is kept for that: it has more than %d bytes: %w", most, &http.MaxBytesError{Limit: most})
}

// create makes the file. Nobody else can open it: its mode is 0600, and its name is gone before anything is written.
func (k *keptBody) create() error {
	file, err := os.CreateTemp("", "keywright-body-*")
	if err != nil {
		return fmt.Errorf("the request's body cannot be kept: %w", err)
	}
	k.file = file
	if err := os.Remove(file.Name()); err != nil { // as on Windows
		k.name = file.Name()
	}
	return nil
}

// open returns one more reader of the body, which is kept until that is closed.
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
	return &keptReader{Reader: content, close: sync.OnceFunc(k.release)}, nil
}

// release is called once by each user. The last one closes the file.
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

// keptReader is one reading of a kept body.
type keptReader struct {
	io.Reader
	close func()
}

// Close implements [io.Closer].
func (k *keptReader) Close() error {
	k.close()
	return nil
}
