package embed_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content/embed"
)

// The log contains no URL of a document, even if a provider repeats it in a redirect.
func TestLogHasNoURLOfARedirect(t *testing.T) {
	w := newWorld()
	w.Answer(func(r *http.Request) (*http.Response, error) {
		response := reply(http.StatusFound, "text/plain", "")
		response.Header.Set("Location", r.URL.Query().Get("url")+"%zz")
		return response, nil
	})
	var log bytes.Buffer
	r := testworld.Must(embed.New(embed.Config{Transport: w, Logger: slog.New(slog.NewJSONHandler(&log, nil)), Providers: []byte(providerList)}))(t)
	r.Resolve(t.Context(), "<p>https://tu.example.net/private</p>")
	if got := log.String(); strings.Contains(got, "private") || !strings.Contains(got, "redirects") {
		t.Errorf("the log has %s", got)
	}
}
