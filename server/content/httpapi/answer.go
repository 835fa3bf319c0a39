package httpapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// answer is a successful response that has not been written yet.
type answer struct {
	status int
	// tag is the value of ETag.
	tag string
	// encoding is the value of Content-Encoding. It is "" if the body is not compressed.
	encoding string
	body     []byte
	// next is the value of Link (RFC 8288). It is "" if there is no next page.
	next string
}

// found returns the response with a JSON document as its body, or a response 304 if the client has this document
// already.
func found(r *http.Request, body []byte) *answer {
	digest := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(digest[:16]) + `"`
	a := &answer{status: http.StatusOK, tag: "W/" + tag, body: body} // weak, because it is the same for all encodings
	if matches(strings.Join(r.Header.Values("If-None-Match"), ","), tag) {
		a.status, a.body = http.StatusNotModified, nil
	} else if len(body) >= worthGzip && takesGzip(strings.Join(r.Header.Values("Accept-Encoding"), ",")) {
		a.encoding, a.body = "gzip", compress(body)
	}
	return a
}

func (a *answer) write(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("ETag", a.tag)
	if a.next != "" {
		header.Set("Link", a.next)
	}
	if a.status == http.StatusNotModified {
		w.WriteHeader(a.status)
		return
	}
	header.Set("Content-Type", "application/json")
	if a.encoding != "" {
		header.Set("Content-Encoding", a.encoding)
	}
	write(w, r, a.status, a.body)
}

func write(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body) // an error means that the client is gone
	}
}

// matches reports whether the value of If-None-Match contains a tag, by weak comparison (RFC 9110 section 13.1.2). A
// tag may contain commas.
func matches(list, tag string) bool {
	if strings.Trim(list, " \t") == "*" {
		return true
	}
	for {
		list = strings.TrimLeft(list, " \t,")
		list = strings.TrimPrefix(list, "W/")
		if !strings.HasPrefix(list, `"`) {
			return false // the end of the list, or a malformed list
		}
		end := strings.IndexByte(list[1:], '"') + 2
		if end < 2 {
			return false
		}
		if list[:end] == tag {
			return true
		}
		list = list[end:]
	}
}

// worthGzip is the minimum length in bytes of a body that is compressed. Shorter ones fit into one packet anyway.
const worthGzip = 1024

var compressors = sync.Pool{New: func() any {
	c, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // it fails only for an unknown level
	return c
}}

// compress returns body in gzip. The whole result is in memory, so that, unlike with middleware, responses to HEAD and
// GET have a Content-Length.
func compress(body []byte) []byte {
	c := compressors.Get().(*gzip.Writer)
	defer compressors.Put(c)
	var to bytes.Buffer
	to.Grow(len(body) / 3)
	c.Reset(&to)
	_, _ = c.Write(body) // writing to memory does not fail
	_ = c.Close()
	return to.Bytes()
}

// takesGzip reports whether the value of Accept-Encoding contains gzip or * with a weight other than zero (RFC 9110
// section 12.5.3).
func takesGzip(list string) bool {
	accepted := false
	for entry := range strings.SplitSeq(list, ",") {
		coding, parameters, _ := strings.Cut(entry, ";")
		name, weight, _ := strings.Cut(parameters, "=")
		zero := strings.EqualFold(strings.TrimSpace(name), "q") && strings.Trim(strings.TrimSpace(weight), "0.") == ""
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip":
			return !zero
		case "*":
			accepted = !zero
		}
	}
	return accepted
}
