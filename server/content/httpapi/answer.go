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

// answer is an answer that has yet to be written.
type answer struct {
	status   int
	tag      string // for ETag
	encoding string // "" is none
	body     []byte
}

// found makes the answer that is a JSON document, or says that the caller has it already.
func found(r *http.Request, body []byte) *answer {
	digest := sha256.Sum256(body)
	tag := `"` + hex.EncodeToString(digest[:16]) + `"`
	a := &answer{status: http.StatusOK, tag: "W/" + tag, body: body} // weak: it is the same for all encodings
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
		_, _ = w.Write(body) // a caller that does not read it has gone
	}
}

// matches reports whether an If-None-Match names a tag, compared weakly (RFC 9110 section 13.1.2). A tag may have
// commas.
func matches(list, tag string) bool {
	if strings.Trim(list, " \t") == "*" {
		return true
	}
	for {
		list = strings.TrimLeft(list, " \t,")
		list = strings.TrimPrefix(list, "W/")
		if !strings.HasPrefix(list, `"`) {
			return false // the end, or no list of tags
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

// worthGzip is how many bytes a body must have to be compressed: less fits into one packet anyway.
const worthGzip = 1024

var compressors = sync.Pool{New: func() any {
	c, _ := gzip.NewWriterLevel(nil, gzip.BestSpeed) // of a level that exists
	return c
}}

// compress is for bodies that are whole in memory. So, unlike with middleware, HEAD and GET can tell the length.
func compress(body []byte) []byte {
	c := compressors.Get().(*gzip.Writer)
	defer compressors.Put(c)
	var to bytes.Buffer
	to.Grow(len(body) / 3)
	c.Reset(&to)
	_, _ = c.Write(body) // into memory
	_ = c.Close()
	return to.Bytes()
}

// takesGzip reports whether an Accept-Encoding has gzip with a weight that is not zero (RFC 9110 section 12.5.3).
func takesGzip(list string) bool {
	taken := false
	for entry := range strings.SplitSeq(list, ",") {
		coding, parameters, _ := strings.Cut(entry, ";")
		name, weight, _ := strings.Cut(parameters, "=")
		refused := strings.EqualFold(strings.TrimSpace(name), "q") && strings.Trim(strings.TrimSpace(weight), "0.") == ""
		switch strings.ToLower(strings.TrimSpace(coding)) {
		case "gzip", "x-gzip":
			return !refused
		case "*":
			taken = !refused
		}
	}
	return taken
}
