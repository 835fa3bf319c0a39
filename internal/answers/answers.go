// Package answers has the rules for the answers that clients get, whatever they ask for.
package answers

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/keywright/keywright/internal/files"
)

// ErrSwitched is the error of Final.
var ErrSwitched = errors.New("it switches to another protocol, which was not asked for")

// Final passes on the result of sending a request, such as that of an [http.RoundTripper]. An informational answer (1xx) is
// ErrSwitched in its place. What net/http returns as the body of a 101 is the connection, which reads on after the context of the
// request has ended. So nobody may read it who has not asked for an upgrade.
func Final(response *http.Response, err error) (*http.Response, error) {
	if err != nil || response.StatusCode < 100 || response.StatusCode > 199 {
		return response, err
	}
	if response.Body != nil {
		_ = response.Body.Close()
	}
	return nil, ErrSwitched
}

// A Coding returns a reader of what a content coding has encoded (RFC 9110 section 8.4.1). It reads nothing before its reader is
// read. What it keeps in memory is bounded.
type Coding = func(io.Reader) (io.ReadCloser, error)

// ErrCoding is the error of an answer whose content codings are not undone. Its texts quote nothing of the answer.
var ErrCoding = errors.New("the answer's Content-Encoding cannot be undone")

const (
	// maxCodings bounds the codings of an answer, of which each has a window in memory. More than one is rare.
	maxCodings = 2
	// maxOfDocument bounds those of Read.
	maxOfDocument = 1
	// maxRatio is the most bytes that a byte of the wire may become, beyond the first maxBurst. Apache's mod_deflate has the same
	// default for bodies that it inflates (DeflateInflateRatioLimit); texts become 5 to 20 times as long.
	maxRatio = 200
	maxBurst = 1 << 20
)

// builtin are the codings that need nothing but the standard library.
var builtin = map[string]Coding{
	"gzip": func(r io.Reader) (io.ReadCloser, error) { return gzip.NewReader(r) },
	// RFC 9110 section 8.4.1.2 means the zlib format. Some servers send deflate data without it, as the section says.
	"deflate": func(r io.Reader) (io.ReadCloser, error) {
		in := bufio.NewReader(r)
		if head, _ := in.Peek(2); len(head) == 2 && head[0]&0x0f == 8 && (int(head[0])<<8|int(head[1]))%31 == 0 {
			return zlib.NewReader(in)
		}
		return flate.NewReader(in), nil
	},
}

// Decode undoes the content codings of an answer: gzip, deflate, and those of extra, by their names in lower
// case. The rest of the answer is then right for a body without a coding: it has no length, and its ETag is weak. Decode returns an
// error that wraps ErrCoding for an unknown coding, for too many, and for a part of a body. A body that becomes far larger than it
// was sent, at any of its codings, ends with such an error.
func Decode(r *http.Response, extra map[string]Coding) error {
	return decode(r, extra, maxCodings)
}

func decode(r *http.Response, extra map[string]Coding, limit int) error {
	codings, err := codingsOf(r.Header, extra, limit)
	empty := r.Body == nil || r.Body == http.NoBody || r.Request != nil && r.Request.Method == http.MethodHead
	switch {
	case err != nil && !empty:
		return err
	case len(codings) == 0 && err == nil:
		return nil
	case r.StatusCode == http.StatusPartialContent:
		return fmt.Errorf("%w: it is a part of an answer", ErrCoding)
	}
	for _, name := range []string{"Content-Encoding", "Content-Length", "Accept-Ranges"} {
		delete(r.Header, name)
	}
	if tag := r.Header.Get("Etag"); tag != "" && !strings.HasPrefix(tag, "W/") { // RFC 9110 section 8.8.1: other bytes, the same meaning
		r.Header["Etag"] = []string{"W/" + tag}
	}
	r.ContentLength, r.Uncompressed = -1, true
	if empty {
		return nil
	}
	wire := &wire{ReadCloser: r.Body}
	body := io.ReadCloser(wire)
	for _, coding := range codings {
		body = &undone{coding: coding, from: body, wire: wire}
	}
	r.Body = body
	return nil
}

// codingsOf returns the codings of Content-Encoding, the one that was applied last first.
func codingsOf(header http.Header, extra map[string]Coding, limit int) (codings []Coding, err error) {
	for _, line := range header["Content-Encoding"] {
		for name := range strings.SplitSeq(line, ",") {
			name = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(name)), "x-") // RFC 9110 section 8.4.1.3: x-gzip is gzip
			coding := builtin[name]
			if coding == nil {
				coding = extra[name]
			}
			switch {
			case name == "" || name == "identity":
				continue
			case coding == nil:
				return nil, fmt.Errorf("%w: it is not known", ErrCoding)
			case len(codings) == limit:
				return nil, fmt.Errorf("%w: there are more than %d", ErrCoding, limit)
			}
			codings = append([]Coding{coding}, codings...)
		}
	}
	return codings, nil
}

// wire is a body as it is sent. It counts its bytes.
type wire struct {
	io.ReadCloser
	read int64
	// err is its error, if that is not the end.
	err error
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	w.read += int64(n)
	if err != io.EOF {
		w.err = err
	}
	return n, err
}

// undone is a body without one of its codings. It opens the coding when it is first read, since that may wait for the server.
type undone struct {
	coding Coding
	from   io.ReadCloser
	wire   *wire

	mu      sync.Mutex
	decoder io.ReadCloser
	size    int64
	err     error
	closed  bool
}

func (u *undone) Read(p []byte) (n int, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	if u.err == nil && u.decoder == nil {
		in := bufio.NewReader(u.from)
		if _, u.err = in.Peek(1); u.err == nil { // nothing at all is an empty body, which some servers send with the header
			if u.decoder, u.err = u.coding(in); u.err != nil {
				u.decoder = nil // which may be a nil pointer of gzip
			}
		}
	}
	if u.err == nil {
		n, u.err = u.decoder.Read(p)
	}
	u.size += int64(n)
	switch {
	case u.size > maxBurst+maxRatio*u.wire.read:
		n, u.err = 0, fmt.Errorf("%w: it becomes more than %d times as long", ErrCoding, maxRatio)
	case u.wire.err != nil && u.err != nil:
		u.err = u.wire.err
	case u.err != nil && !errors.Is(u.err, io.EOF) && !errors.Is(u.err, ErrCoding):
		u.err = &damaged{u.err}
	}
	return n, u.err
}

// damaged is an error of a coding. Its text is not that of the coding, which may quote.
type damaged struct{ err error }

func (d *damaged) Error() string   { return ErrCoding.Error() + ": it is damaged, or breaks off" }
func (d *damaged) Unwrap() []error { return []error{ErrCoding, d.err} }

// Close closes the body first, which ends a Read that waits for it.
func (u *undone) Close() error {
	err := u.from.Close()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.decoder != nil && !u.closed {
		_ = u.decoder.Close()
	}
	u.closed = true
	return err
}

// Read reads an answer that is a document: of limit bytes at most on the wire and without its coding, see Decode, and without a byte
// order mark. It undoes one coding, so that one window is in memory: 8 MiB, and up to 16 for br. If the document is longer, it returns
// limit+1 bytes of it. It does not close the body.
func Read(r *http.Response, extra map[string]Coding, limit int) ([]byte, error) {
	bounded := *r
	bounded.Header = r.Header.Clone()
	bounded.Body = io.NopCloser(io.LimitReader(r.Body, int64(limit)+1))
	if err := decode(&bounded, extra, maxOfDocument); err != nil {
		return nil, err
	}
	defer bounded.Body.Close()
	document, err := files.ReadAll(bounded.Body, limit)
	return TrimBOM(document), err
}

// TrimBOM returns a text in UTF-8 without a byte order mark. RFC 8259 section 8.1 lets parsers of JSON ignore one.
func TrimBOM(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")) }

// WholeAnswer is the place of a text that is all of an answer.
const WholeAnswer = "text:"

// IsPlace reports whether a text is WholeAnswer, or the place of a value in an answer: json: and a JSON pointer (RFC 6901), as in
// json:/data/token. In it [NAME=TEXT] stands for the item of a list whose member NAME is TEXT.
func IsPlace(text string) bool {
	pointer, found := strings.CutPrefix(text, "json:")
	return text == WholeAnswer || found && strings.HasPrefix(pointer, "/") && jsontext.Pointer(pointer).IsValid()
}

// TextAt returns the text at a place of an answer.
func TextAt(answer []byte, place string) (text string, ok bool) {
	if place == WholeAnswer {
		text = string(bytes.TrimSpace(answer))
		return text, text != ""
	}
	return Text(ValueAt(answer, place))
}

// ValueAt returns the JSON value at a place in a document. If there is none, it is empty.
func ValueAt(document []byte, place string) jsontext.Value {
	raw := jsontext.Value(bytes.TrimSpace(document))
	for token := range jsontext.Pointer(strings.TrimPrefix(place, "json:")).Tokens() {
		switch raw.Kind() {
		case '{':
			var members map[string]jsontext.Value
			if json.Unmarshal(raw, &members) != nil {
				return nil
			}
			raw = members[token]
		case '[':
			raw = itemAt(raw, token)
		default:
			return nil
		}
	}
	return raw
}

// itemAt returns the item of a list at an index, or the first one that has the member of [NAME=TEXT]. If there is none, it is empty.
func itemAt(list jsontext.Value, token string) jsontext.Value {
	var items []jsontext.Value
	if json.Unmarshal(list, &items) != nil {
		return nil
	}
	name, text, isMember := strings.Cut(strings.Trim(token, "[]"), "=")
	index, err := strconv.Atoi(token)
	for i, item := range items {
		var members map[string]jsontext.Value
		if !isMember && err == nil && i == index {
			return item
		}
		if !isMember || item.Kind() != '{' || json.Unmarshal(item, &members) != nil {
			continue
		}
		if value, ok := Text(members[name]); ok && value == text {
			return item
		}
	}
	return nil
}

// Text returns the text that a JSON value is.
func Text(raw jsontext.Value) (value string, ok bool) {
	if raw.Kind() != '"' || json.Unmarshal(raw, &value) != nil {
		return "", false
	}
	return value, true
}
