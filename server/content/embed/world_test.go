package embed_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/keywright/keywright/server/content/embed"
)

// providerList is a list of two providers. The first has two schemes.
const providerList = `[
 {"provider_name": "Tube", "provider_url": "https://www.tube.example.com/", "endpoints": [
  {"url": "https://www.tube.example.com/oembed", "schemes": ["https://*.tube.example.com/watch*", "https://tu.example.net/*"], "discovery": true}]},
 {"provider_name": "Pics", "provider_url": "https://pics.example.org/", "endpoints": [
  {"url": "http://pics.example.org/api/oembed.{format}?key=1", "schemes": ["http://pics.example.org/photos/*/by/*"]}]}]`

// world is a transport that plays all providers.
type world struct {
	mu       sync.Mutex
	now      time.Time
	requests []*http.Request
	answer   func(*http.Request) (*http.Response, error)
}

func newWorld() *world {
	return &world{now: time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC), answer: func(r *http.Request) (*http.Response, error) {
		return reply(200, "application/json", rich("<b>embed of "+r.URL.Query().Get("url")+"</b>")), nil
	}}
}

func (w *world) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.requests = append(w.requests, r)
	answer := w.answer
	w.mu.Unlock()
	return answer(r)
}

func (w *world) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.requests)
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) resolver(t testing.TB) *embed.Resolver {
	t.Helper()
	r, err := embed.New(embed.Config{Transport: w, Clock: w.clock, Providers: []byte(providerList)})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// says makes every provider answer with this document.
func (w *world) says(document string) {
	w.answer = func(*http.Request) (*http.Response, error) { return reply(200, "application/json", document), nil }
}

func reply(status int, media, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {media}}, Body: io.NopCloser(strings.NewReader(body))}
}

// rich returns an answer of type rich with this HTML.
func rich(html string) string {
	document, _ := json.Marshal(map[string]string{"version": "1.0", "type": "rich", "html": html})
	return string(document)
}
