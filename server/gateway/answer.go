package gateway

import (
	"bytes"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// passed are the headers of an answer that callers get (threats.md 45). What an API says besides, in headers of its own,
// may be about the account that the connector uses.
var passed = []string{
	"Accept-Ranges", "Age", "Allow", "Cache-Control", "Content-Disposition", "Content-Language", "Content-Length", "Content-Location",
	"Content-Range", "Content-Type", "Date", "Etag", "Expires", "Last-Modified", "Link", "Location", "Retry-After", "Vary",
}

// answer turns the API's answer into the one that the caller gets. Its error says why the answer does not pass.
func (c *call) answer(response *http.Response) error {
	if response.StatusCode < 200 || response.StatusCode > 599 {
		return &httpProblem{status: http.StatusBadGateway, kind: "answer-refused", detail: "the API's answer has a status that none has"}
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") && response.Body != http.NoBody {
		return &httpProblem{status: http.StatusBadGateway, kind: "answer-refused", detail: "the API's answer is encoded, though that was not asked for"}
	}
	header := http.Header{}
	for _, name := range passed {
		if values, ok := response.Header[name]; ok {
			header[name] = values
		}
	}
	private(header)
	header.Set("Server-Timing", c.timing())
	response.Header = header
	c.event.Status = response.StatusCode
	if shaped, err := c.shapeResponse(response); shaped {
		return err
	}
	return lookedAt(response)
}

// always sets the headers that each answer has.
func (c *call) always(header http.Header) {
	header.Set("X-Request-Id", c.id)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Content-Security-Policy", "default-src 'none'; sandbox") // an answer that is HTML is no page of this origin
}

// pass writes an answer to the caller. When the body breaks off, pass logs why and panics with [http.ErrAbortHandler], so that
// the caller's connection breaks off too.
func (c *call) pass(w http.ResponseWriter, response *http.Response) {
	header := w.Header()
	vary := header["Vary"]
	maps.Copy(header, response.Header)
	header["Vary"] = slices.Concat(vary, response.Header["Vary"])
	if _, typed := header["Content-Type"]; !typed && response.StatusCode != http.StatusNoContent && response.StatusCode != http.StatusNotModified {
		header.Set("Content-Type", "application/octet-stream") // rather than what net/http takes it for
	}
	w.WriteHeader(response.StatusCode)
	kind, _, _ := mime.ParseMediaType(header.Get("Content-Type"))
	flush := func() error { return nil }
	if kind == "text/event-stream" || response.ContentLength < 0 {
		flush = http.NewResponseController(w).Flush
		_ = flush() // the body may begin much later than the header
	}
	buffer := c.gateway.buffers.get()
	defer c.gateway.buffers.put(buffer)
	for {
		n, err := response.Body.Read(buffer[:])
		if n > 0 {
			if _, gone := w.Write(buffer[:n]); gone != nil {
				panic(http.ErrAbortHandler)
			}
			_ = flush()
		}
		switch {
		case err == io.EOF: //nolint:errorlint // that very value is the end
			return
		case err != nil:
			ctx := response.Request.Context()
			c.tell(ctx, c.problem(ctx, err))
			panic(http.ErrAbortHandler)
		}
	}
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
// (threats.md 45) is a problem then, and not an answer that breaks off.
func lookedAt(response *http.Response) error {
	if response.ContentLength <= 0 || response.ContentLength > maxLookedAt || response.Request.Method == http.MethodHead {
		return nil
	}
	var body bytes.Buffer
	body.Grow(int(response.ContentLength) + bytes.MinRead)
	if _, err := body.ReadFrom(response.Body); err != nil {
		return err
	}
	_ = response.Body.Close()
	response.Body = io.NopCloser(&body)
	return nil
}

// private keeps an answer from caches that serve others (threats.md 47).
func private(h http.Header) {
	h.Add("Vary", "Authorization, Cookie")
	if len(h["Cache-Control"]) == 0 {
		h["Cache-Control"] = []string{"private"}
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
