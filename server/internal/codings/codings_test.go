package codings_test

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/keywright/keywright/internal/answers"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/internal/codings"
)

// encoders encode a text, by the value of Content-Encoding.
var encoders = map[string]func(w io.Writer) io.WriteCloser{
	"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	"br":      func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) },
	"zstd":    func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z },
}

func encoded(coding string, text []byte) []byte {
	var b bytes.Buffer
	w := encoders[coding](&b)
	_, _ = w.Write(text)
	_ = w.Close()
	return b.Bytes()
}

// counting counts the bytes that are read of it.
type counting struct {
	io.Reader
	read, closed int
}

func (c *counting) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += n
	return n, err
}

func (c *counting) Close() error { c.closed++; return nil }

func answer(encoding string, body []byte) *http.Response {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Encoding": {encoding}, "Content-Length": {fmt.Sprint(len(body))}, "Etag": {`"a"`}, "Accept-Ranges": {"bytes"}},
		Body: &counting{Reader: bytes.NewReader(body)}, ContentLength: int64(len(body)), Request: &http.Request{Method: http.MethodGet},
	}
}

// RFC 9110 section 8.4: codings are undone in the reverse of their order, and the headers fit what is left.
func TestDecodedCodings(t *testing.T) {
	const text = `{"items":[1,2,3]}`
	var raw bytes.Buffer
	w, _ := flate.NewWriter(&raw, -1)
	_, _ = io.WriteString(w, text)
	_ = w.Close()
	for name, c := range map[string]struct {
		encoding string
		body     []byte
	}{
		"gzip": {"gzip", encoded("gzip", []byte(text))}, "deflate": {"deflate", encoded("deflate", []byte(text))}, "br": {"br", encoded("br", []byte(text))}, "zstd": {"zstd", encoded("zstd", []byte(text))},
		"x-gzip":                {"X-GZip", encoded("gzip", []byte(text))},
		"deflate without zlib":  {"deflate", raw.Bytes()},
		"two codings":           {"br, gzip", encoded("gzip", encoded("br", []byte(text)))},
		"identity among others": {"identity, gzip,", encoded("gzip", []byte(text))},
		"members":               {"gzip", append(encoded("gzip", []byte(text[:5])), encoded("gzip", []byte(text[5:]))...)},
		"frames":                {"zstd", append(encoded("zstd", []byte(text[:5])), encoded("zstd", []byte(text[5:]))...)},
	} {
		r := answer(c.encoding, c.body)
		wire, _ := r.Body.(*counting)
		if err := answers.Decode(r, codings.Further()); err != nil {
			t.Errorf("%s: err = %v", name, err)
			continue
		}
		got, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if string(got) != text || err != nil || wire.closed != 1 {
			t.Errorf("%s: %q, %v, closed %d times", name, got, err, wire.closed)
		}
		if len(r.Header) != 1 || r.Header.Get("Etag") != `W/"a"` || r.ContentLength != -1 {
			t.Errorf("%s: the header is %v, the length %d", name, r.Header, r.ContentLength)
		}
	}
}

func TestUntouchedAnswers(t *testing.T) {
	for name, change := range map[string]func(r *http.Response){
		"identity":    func(r *http.Response) { r.Header.Set("Content-Encoding", "Identity") },
		"no encoding": func(r *http.Response) { r.Header.Del("Content-Encoding") },
	} {
		r := answer("", []byte("text"))
		change(r)
		err := answers.Decode(r, nil)
		got, _ := io.ReadAll(r.Body)
		if err != nil || string(got) != "text" || r.Header.Get("Etag") != `"a"` || r.ContentLength != 4 {
			t.Errorf("%s: got = %q, err = %v, r.Header = %v", name, got, err, r.Header)
		}
	}
	for name, change := range map[string]func(r *http.Response){
		"HEAD":     func(r *http.Response) { r.Request.Method = http.MethodHead },
		"no body":  func(r *http.Response) { r.Body = http.NoBody },
		"HEAD, br": func(r *http.Response) { r.Request.Method = http.MethodHead; r.Header.Set("Content-Encoding", "br") },
	} {
		r := answer("gzip", nil)
		change(r)
		err := answers.Decode(r, codings.Further())
		got, _ := io.ReadAll(r.Body)
		if err != nil || len(got) > 0 || r.Header.Get("Content-Length")+r.Header.Get("Content-Encoding") != "" || r.Header.Get("Etag") != `W/"a"` {
			t.Errorf("%s: got = %q, err = %v, r.Header = %v", name, got, err, r.Header)
		}
	}
	r := answer("gzip", nil) // some servers send the header with an empty body
	testworld.Check(t, answers.Decode(r, nil))
	if got, err := io.ReadAll(r.Body); len(got) > 0 || err != nil {
		t.Errorf("got = %q, err = %v", got, err)
	}
}

func TestRefusedCodings(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789"), 1000)
	whole := encoded("gzip", text)
	for name, c := range map[string]struct {
		status   int
		encoding string
		body     []byte
	}{
		"a part":          {206, "gzip", whole},
		"an unknown one":  {200, "secret-coding", whole},
		"one of two":      {200, "gzip, compress", whole},
		"three":           {200, "gzip, gzip, gzip", encoded("gzip", encoded("gzip", whole))},
		"cut off":         {200, "gzip", whole[:len(whole)-9]},
		"no checksum":     {200, "gzip", whole[:len(whole)-1]},
		"no gzip":         {200, "gzip", text},
		"no br":           {200, "br", bytes.Repeat([]byte{0xfe}, 100)},
		"br cut off":      {200, "br", encoded("br", text)[:20]},
		"no zstd":         {200, "zstd", text},
		"zstd cut off":    {200, "zstd", encoded("zstd", text)[:20]},
		"a large window":  {200, "br", []byte{0x0f, 0, 0, 0}},
		"a larger window": {200, "zstd", append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0, 14 << 3}, make([]byte, 20)...)}, // 2^(10+14) bytes
	} {
		r := answer(c.encoding, c.body)
		r.StatusCode = c.status
		err := answers.Decode(r, codings.Further())
		if err == nil {
			_, err = io.ReadAll(r.Body)
		}
		_ = r.Body.Close()
		if !errors.Is(err, answers.ErrCoding) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: err = %v", name, err)
		}
	}
	broken := errors.New("the connection broke")
	r := answer("gzip", nil)
	r.Body = io.NopCloser(io.MultiReader(bytes.NewReader(whole[:20]), failing{broken}))
	testworld.Check(t, answers.Decode(r, nil))
	if _, err := io.ReadAll(r.Body); !errors.Is(err, broken) || errors.Is(err, answers.ErrCoding) {
		t.Errorf("a connection that breaks is the error %v", err)
	}
}

type failing struct{ error }

func (f failing) Read([]byte) (int, error) { return 0, f.error }

// A body that becomes far larger than it was sent ends with an error, in whatever coding, and in two. It makes a bounded number of
// bytes before (threats.md 321). The work between two codings is bounded, too: here, the inner one makes nothing.
func TestBombs_threats_321(t *testing.T) {
	zeros := make([]byte, 32<<20)
	bodies := map[string][]byte{"gzip, br": encoded("br", bytes.Repeat(encoded("gzip", nil), 2<<20))}
	for coding := range encoders {
		bodies[coding] = encoded(coding, zeros)
		bodies[coding+", gzip"] = encoded("gzip", encoded(coding, zeros))
	}
	for encoding, body := range bodies {
		r := answer(encoding, body)
		wire, _ := r.Body.(*counting)
		testworld.Check(t, answers.Decode(r, codings.Further()))
		made, err := io.Copy(io.Discard, r.Body)
		if !errors.Is(err, answers.ErrCoding) || !strings.Contains(err.Error(), "200 times") || made > 1<<20+200*int64(wire.read) {
			t.Errorf("%s: %d bytes on the wire made %d: %v", encoding, wire.read, made, err)
		}
	}
	r := answer("gzip", encoded("gzip", zeros)) // of a document, no more is made than may be
	if got, err := answers.Read(r, nil, 1000); len(got) != 1001 || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	endless := answer("gzip", bytes.Repeat(encoded("gzip", nil), 1<<20)) // which makes nothing
	wire, _ := endless.Body.(*counting)
	if got, err := answers.Read(endless, nil, 1000); len(got) > 0 || err == nil || wire.read > 1001 {
		t.Errorf("%d bytes of %d on the wire, %v", len(got), wire.read, err)
	}
}

// A body may be closed while it is read, as when a caller leaves. The Read ends, and the coding is closed.
func TestCloseDuringRead(t *testing.T) {
	for coding := range encoders {
		from, to := io.Pipe()
		r := answer(coding, nil)
		r.Body = from
		testworld.Check(t, answers.Decode(r, codings.Further()))
		reading := make(chan error)
		go func() {
			_, err := io.Copy(io.Discard, r.Body)
			reading <- err
		}()
		body := encoded(coding, []byte("text"))
		_, _ = to.Write(body[:len(body)-1]) // the rest does not come
		testworld.Check(t, r.Body.Close())
		if err := <-reading; err == nil {
			t.Errorf("%s: the Read has no error", coding)
		}
		if n, err := r.Body.Read(make([]byte, 1)); n > 0 || !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("%s: after Close, Read returns %d, %v", coding, n, err)
		}
	}
}

func TestByteOrderMark(t *testing.T) {
	if got, err := answers.Read(answer("gzip", encoded("gzip", []byte("\ufeff{}"))), nil, 100); string(got) != "{}" || err != nil {
		t.Errorf("got = %q, err = %v", got, err)
	}
}

// A document has one coding, so that an answer holds one window (threats.md 321).
func TestDocumentOfTwoCodings_threats_321(t *testing.T) {
	for encoding, body := range map[string][]byte{"gzip, br": encoded("br", encoded("gzip", []byte("{}"))), "br, br": nil} {
		r := answer(encoding, body)
		wire, _ := r.Body.(*counting)
		if got, err := answers.Read(r, codings.Further(), 100); len(got) > 0 || !errors.Is(err, answers.ErrCoding) || wire.read > 0 {
			t.Errorf("%s: read %d bytes of %d, err = %v, want ErrCoding", encoding, len(got), wire.read, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for coding := range encoders {
		f.Add(coding, encoded(coding, []byte(`{"a":1}`)))
	}
	f.Fuzz(func(t *testing.T, encoding string, body []byte) {
		r := answer(encoding, body)
		if answers.Decode(r, codings.Further()) != nil {
			return
		}
		made, _ := io.Copy(io.Discard, r.Body)
		if most := int64(1<<20 + 200*len(body)); r.Uncompressed && made > most {
			t.Errorf("%d bytes made %d", len(body), made)
		}
		_ = r.Body.Close()
	})
}
