package gateway

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// passed are the headers of an answer that callers get (threats.md 45). What an API says besides, in headers of its own,
// may be about the account that the connector uses.
var passed = map[string]bool{
	"Accept-Ranges": true, "Age": true, "Allow": true, "Cache-Control": true, "Content-Disposition": true, "Content-Language": true,
	"Content-Length": true, "Content-Location": true, "Content-Range": true, "Content-Type": true, "Date": true, "Etag": true,
	"Expires": true, "Last-Modified": true, "Link": true, "Location": true, "Retry-After": true, "Vary": true,
}

// answer turns the API's answer into the one that the caller gets. It may use the buffer for the body. Its error says why the
// answer does not pass.
func (c *call) answer(response *http.Response, buffer *buffer) error {
	if response.StatusCode < 200 || response.StatusCode > 599 {
		return &httpProblem{status: http.StatusBadGateway, kind: "answer-refused", detail: "the API's answer has a status that none has"}
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") && response.Body != http.NoBody {
		return &httpProblem{status: http.StatusBadGateway, kind: "answer-refused", detail: "the API's answer is encoded, though that was not asked for"}
	}
	if response.Header == nil { // as from a Base that is not net/http's
		response.Header = http.Header{}
	}
	maps.DeleteFunc(response.Header, func(name string, _ []string) bool { return !passed[name] })
	private(response.Header)
	response.Header["Server-Timing"] = []string{c.timing()}
	c.event.Status = response.StatusCode
	if shaped, err := c.shapeResponse(response); shaped {
		return err
	}
	return lookedAt(response, buffer)
}

// Values of headers that each answer has, made once.
var (
	noSniff     = []string{"nosniff"}
	noPage      = []string{"default-src 'none'; sandbox"} // an answer that is HTML is no page of this origin
	justBytes   = []string{"application/octet-stream"}    // rather than what net/http takes it for
	onlyPrivate = []string{"private"}
)

// always sets the headers that each answer has.
func (c *call) always(header http.Header) {
	header["X-Request-Id"] = []string{c.id}
	header["X-Content-Type-Options"] = noSniff
	header["Content-Security-Policy"] = noPage
}

// pass writes an answer to the caller. When the body breaks off, pass logs why and panics with [http.ErrAbortHandler], so that
// the caller's connection breaks off too.
func (c *call) pass(w http.ResponseWriter, response *http.Response, buffer *buffer) {
	header := w.Header()
	vary := header["Vary"]
	maps.Copy(header, response.Header)
	header["Vary"] = append(vary, response.Header["Vary"]...)
	if _, typed := header["Content-Type"]; !typed && response.StatusCode != http.StatusNoContent && response.StatusCode != http.StatusNotModified {
		header["Content-Type"] = justBytes
	}
	w.WriteHeader(response.StatusCode)
	if whole, ok := response.Body.(io.WriterTo); ok { // it is in memory
		if _, gone := whole.WriteTo(w); gone != nil {
			panic(http.ErrAbortHandler)
		}
		return
	}
	flush := func() error { return nil }
	if response.ContentLength < 0 || isEventStream(header) {
		flush = http.NewResponseController(w).Flush
		_ = flush() // the body may begin much later than the header
	}
	for {
		n, err := response.Body.Read(buffer[:])
		if n > 0 {
			if _, gone := w.Write(buffer[:n]); gone != nil {
				panic(http.ErrAbortHandler)
			}
			_ = flush()
		}
		switch {
		case err == io.EOF:
			return
		case err != nil:
			ctx := response.Request.Context()
			c.tell(ctx, c.problem(ctx, err))
			panic(http.ErrAbortHandler)
		}
	}
}

// isEventStream reports whether an answer is Server-Sent Events, each of which the caller gets at once.
func isEventStream(header http.Header) bool {
	const kind = "text/event-stream"
	got := header.Get("Content-Type")
	return len(got) >= len(kind) && strings.EqualFold(got[:len(kind)], kind)
}

// buffers is a pool of buffers for copying bodies: a new one for each would be most of the cost of a short answer.
type buffers struct{ pool sync.Pool }

type buffer [32 << 10]byte

func (b *buffers) get() *buffer {
	if known, ok := b.pool.Get().(*buffer); ok {
		return known
	}
	return new(buffer)
}

func (b *buffers) put(used *buffer) { b.pool.Put(used) }

// maxLookedAt is how many bytes of an answer are looked at before its header is sent.
const maxLookedAt = 64 << 10

// lookedAt reads an answer that is short, and whose length is known, before its header is sent: one that holds the credential
// (threats.md 45) is a problem then, and not an answer that breaks off. It reads into the buffer, if the answer fits.
func lookedAt(response *http.Response, buffer *buffer) error {
	if response.ContentLength <= 0 || response.ContentLength > maxLookedAt || response.Request.Method == http.MethodHead {
		return nil
	}
	body := bytes.NewBuffer(buffer[:0])
	body.Grow(int(response.ContentLength) + bytes.MinRead)
	if _, err := body.ReadFrom(response.Body); err != nil {
		return err
	}
	_ = response.Body.Close()
	response.Body = io.NopCloser(body)
	return nil
}

// private keeps an answer from caches that serve others (threats.md 47).
func private(h http.Header) {
	h["Vary"] = append(h["Vary"], "Authorization, Cookie")
	if len(h["Cache-Control"]) == 0 {
		h["Cache-Control"] = onlyPrivate
		return
	}
	directives := []string{"private"}
	for _, line := range h["Cache-Control"] {
		for directive := range strings.SplitSeq(line, ",") {
			directive = strings.ToLower(strings.TrimSpace(directive))
			name, _, _ := strings.Cut(directive, "=")
			if directive != "" && !slices.Contains([]string{"public", "private", "s-maxage", "stale-while-revalidate"}, name) {
				directives = append(directives, directive)
			}
		}
	}
	h.Set("Cache-Control", strings.Join(directives, ", "))
}
