package gateway_test

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
)

var encoders = map[string]func(w io.Writer) io.WriteCloser{
	"gzip":    func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) },
	"deflate": func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) },
	"br":      func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) },
	"zstd":    func(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z },
}

// An API may encode its answers, whatever it is asked for. Callers get them as they are without the coding, with the headers of
// that, and a filter sees them so. What the credential is in does not reach a caller in any coding, and neither does a bomb
// (threats.md 45, 321).
func TestAnswersWithACoding_threats_321(t *testing.T) {
	const list = `{"items":[{"a":1},{"a":2}]}`
	large := make([]byte, 300<<10) // more than is read before the header is sent
	for i := range large {
		large[i] = "0123456789abcdef"[rand.IntN(16)]
	}
	for coding, encoder := range encoders {
		t.Run(coding, func(t *testing.T) {
			w := newWorld(t)
			definition := func(name string, auth []host.Auth, r gateway.Response) *gateway.Connector {
				return w.connector(gateway.Definition{
					Name: name, Permalink: name, URL: w.api.URL, Paths: []string{"/*"}, Auth: auth, Response: r,
					Query: []gateway.Parameter{{Name: "key", Overridable: true}}, Timeout: time.Hour,
				})
			}
			key := keyAuth("X-API-Key", "header")
			w.gateway.Use(gateway.Setup{Connectors: []*gateway.Connector{
				definition("plain", key, gateway.Response{}), definition("open", []host.Auth{{Type: "none"}}, gateway.Response{}),
				definition("filtered", key, gateway.Response{Records: "items", Filter: "record.a == 1"}),
			}})
			bodies := map[string][]byte{
				"/list": []byte(list), "/large": large, "/echo": []byte(`{"you":"` + secret + `"}`), "/late": append(bytes.Clone(large), secret...),
				"/bomb": make([]byte, 32<<20), "/part": []byte(list),
			}
			for path, body := range bodies {
				var b bytes.Buffer
				e := encoder(&b)
				_, _ = e.Write(body)
				_ = e.Close()
				bodies[path] = b.Bytes()
			}
			w.answer = func(rw http.ResponseWriter, r *http.Request) {
				if asked := r.Header.Get("Accept-Encoding"); asked != "identity" {
					t.Errorf("the API was asked for the encoding %q", asked)
				}
				rw.Header().Set("Content-Encoding", coding)
				rw.Header().Set("Content-Type", "application/json")
				rw.Header().Set("Content-Length", fmt.Sprint(len(bodies[r.URL.Path])))
				rw.Header().Set("Etag", `"a"`)
				if r.URL.Path == "/part" {
					rw.WriteHeader(http.StatusPartialContent)
				}
				_, _ = rw.Write(bodies[r.URL.Path])
			}
			for _, path := range []string{"plain/list", "open/list"} {
				for _, accepts := range []string{"", "gzip", "br, zstd"} {
					r := w.request("GET", "/connectors/"+path, "")
					r.Header.Set("Accept-Encoding", accepts)
					got := w.do(r)
					if got.status != http.StatusOK || got.body != list || got.header.Get("Content-Length") != fmt.Sprint(len(list)) || got.header.Get("Content-Encoding") != "" || got.header.Get("Etag") != `W/"a"` {
						t.Errorf("%s: the caller got %+v", path, got)
					}
				}
			}
			if got := w.get("/connectors/plain/large"); got.body != string(large) {
				t.Errorf("a large body has %d bytes: %d %s", len(got.body), got.status, got.kind)
			}
			if got := w.get("/connectors/filtered/list"); got.body != `{"items":[{"a":1}]}` {
				t.Errorf("filtered, it is %+v", got)
			}
			for path, want := range map[string]string{
				"plain/echo": "credential-echoed", "plain/part": "answer-refused", "open/part": "answer-refused", "filtered/bomb": "answer",
			} {
				if got := w.get("/connectors/" + path); got.status != http.StatusBadGateway || !strings.HasPrefix(got.kind, want) {
					t.Errorf("%s: the caller got %d %s", path, got.status, got.kind)
				}
			}
			for path, most := range map[string]int{"plain/late": len(large), "open/bomb": 16 << 20} { // these break off
				response := testworld.Must(http.DefaultTransport.RoundTrip(w.request("GET", "/connectors/"+path, "")))(t)
				defer response.Body.Close()
				if got, err := io.ReadAll(response.Body); err == nil || len(got) > most || bytes.Contains(got, []byte(secret)) {
					t.Errorf("%s: after %d bytes, the error is %v", path, len(got), err)
				}
			}
		})
	}
}
