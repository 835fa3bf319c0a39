package embed_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content/embed"
)

// providerList is a list of two providers. The first has two schemes.
const providerList = `[
 {"provider_name": "Tube", "provider_url": "https://www.tube.example.com/", "endpoints": [
  {"url": "https://www.tube.example.com/oembed", "schemes": ["https://*.tube.example.com/watch*", "https://tu.example.net/*"], "discovery": true}]},
 {"provider_name": "Pics", "provider_url": "https://pics.example.org/", "endpoints": [
  {"url": "http://pics.example.org/api/oembed.{format}?key=1", "schemes": ["http://pics.example.org/photos/*/by/*"]}]}]`

// world plays all providers, and has the clock.
type world struct {
	*testworld.Server
	*testworld.Clock
}

func newWorld() *world {
	return &world{
		testworld.NewServer(func(r *http.Request) (*http.Response, error) {
			return reply(200, "application/json", rich("<b>embed of "+r.URL.Query().Get("url")+"</b>")), nil
		}),
		testworld.NewClock(time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)),
	}
}

func (w *world) resolver(t testing.TB) *embed.Resolver {
	t.Helper()
	return testworld.Must(embed.New(embed.Config{Transport: w, Clock: w.Now, Providers: []byte(providerList)}))(t)
}

// says sets the document that each provider answers with.
func (w *world) says(document string) {
	w.Answer(testworld.Respond(http.StatusOK, document, "Content-Type", "application/json"))
}

func reply(status int, media, body string) *http.Response {
	return testworld.Response(status, body, "Content-Type", media)
}

// rich returns an answer of type rich with this HTML.
func rich(html string) string {
	document, _ := json.Marshal(map[string]string{"version": "1.0", "type": "rich", "html": html})
	return string(document)
}
