package registry

import (
	"net/http"
	"strings"
	"testing"
)

// A redirect leads from https to https only, without a password in it, and not without end (threats.md 167).
func TestRedirects(t *testing.T) {
	for _, c := range []struct {
		from, to string
		hops     int
		want     string
	}{
		{"https://a.example/x", "https://b.example/y", 1, ""},
		{"https://a.example/x", "http://a.example/y", 1, "redirects to http, and https was asked for"},
		{"https://a.example/x", "file:///etc/passwd", 1, "redirects to file"},
		{"http://127.0.0.1/x", "http://127.0.0.1/y", 1, ""},
		{"http://127.0.0.1/x", "https://b.example/y", 1, ""},
		{"https://a.example/x", "https://u:p@b.example/y", 1, "with a password"},
		{"https://a.example/x", "https://b.example/y", maxRedirects, ""},
		{"https://a.example/x", "https://b.example/y", maxRedirects + 1, "redirects without end"},
	} {
		from, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, c.from, http.NoBody)
		to, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, c.to, http.NoBody)
		via := make([]*http.Request, c.hops)
		for i := range via {
			via[i] = from
		}
		if err := checkRedirect(to, via); c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("from %s to %s: %v", c.from, c.to, err)
		}
	}
}
