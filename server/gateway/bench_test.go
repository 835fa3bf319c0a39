package gateway_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/gateway"
)

// atOnce answers each request at once, unlike an API behind a network.
type atOnce struct{}

func (atOnce) RoundTrip(r *http.Request) (*http.Response, error) {
	const body = `{"sun":true,"wind":"north","temperature":12.5}`
	return &http.Response{
		StatusCode: http.StatusOK, Status: "200 OK", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {"application/json"}, "Content-Length": {"46"}, "Date": {"Sun, 22 Nov 2026 15:00:00 GMT"}},
		Body:   io.NopCloser(bytes.NewReader([]byte(body))),
	}, nil
}

// BenchmarkHandler compares the gateway's handler with an httputil.ReverseProxy, which does not authenticate. The caller and
// the API take no time.
func BenchmarkHandler(b *testing.B) {
	h := testworld.Must(host.New(b.Context(), host.Config{Secrets: host.MapSecrets{"key": secret}, Observe: gateway.Observe}))(b)
	defer h.Close(b.Context())
	c := testworld.Must(gateway.NewConnector(b.Context(), h, gateway.Definition{
		Name: "Weather", Permalink: "weather", URL: "https://api.example.com/v1", Auth: keyAuth("X-API-Key", "header"),
	}))(b)
	g := gateway.New(gateway.Config{Base: atOnce{}, Observe: func(gateway.Event) {}})
	g.Use(gateway.Setup{Connectors: []*gateway.Connector{c}})
	api := &url.URL{Scheme: "https", Host: "api.example.com"}
	peer := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(api) }, Transport: atOnce{}, BufferPool: &pool{}}
	for _, side := range []struct {
		name    string
		handler http.Handler
	}{{"gateway", g.Handler()}, {"ReverseProxy", peer}} {
		b.Run(side.name, func(b *testing.B) {
			r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "http://localhost/connectors/weather", nil)
			r.Header = http.Header{"User-Agent": {"Go-http-client/1.1"}, "Accept-Encoding": {"gzip"}}
			b.ReportAllocs()
			for b.Loop() {
				w := &discard{header: http.Header{}}
				side.handler.ServeHTTP(w, r)
				if w.status != http.StatusOK {
					b.Fatal(w.status)
				}
			}
		})
	}
}

// discard is an http.ResponseWriter that keeps the status.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }

// pool is an httputil.BufferPool.
type pool struct{ sync.Pool }

const poolBytes = 32 << 10

func (p *pool) Get() []byte {
	if buffer, ok := p.Pool.Get().(*[poolBytes]byte); ok {
		return buffer[:]
	}
	return make([]byte, poolBytes)
}

func (p *pool) Put(buffer []byte) { p.Pool.Put((*[poolBytes]byte)(buffer)) }
