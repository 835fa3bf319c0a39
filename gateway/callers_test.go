package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/keywright/keywright/gateway"
)

// A name counts with any port, unless it is given with one.
func TestHosts(t *testing.T) {
	w := newWorld(t, func(c *options, _ *gateway.Definition) {
		c.Hosts = []string{"gw.example.com", "Other.example.com:8080", "[::1]", "[::2]:80"}
	})
	for host, want := range map[string]int{
		"gw.example.com": 200, "GW.example.com": 200, "gw.example.com:9000": 200, "gw.example.com.": 421, "gw.example.com.evil.example": 421,
		"other.example.com:8080": 200, "other.example.com": 421, "other.example.com:80": 421,
		"[::1]": 200, "[::1]:9000": 200, "[::2]:80": 200, "[::2]": 421, "[::2]:90": 421, "127.0.0.1": 421, "localhost": 421,
	} {
		r := w.request("GET", "/connectors/weather", "")
		if r.Host = host; w.do(r).status != want {
			t.Errorf("%s: not %d", host, want)
		}
	}
}

func TestPathsThatAreAllowed(t *testing.T) {
	for path, want := range map[string]string{
		"/users/7":       "/v1/users/7",
		"/users/a%20b":   "/v1/users/a%20b",
		"/open/a/b%2Fc/": "/v1/open/a/b%2Fc/",
		"":               "/v1",
		"/":              "/v1",
	} {
		w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Paths = []string{"/users/*", "/open/**"} })
		if got := w.get("/connectors/weather" + path); got.status != http.StatusOK || w.last().URL.RequestURI() != want {
			t.Errorf("%s: %d, and the API received %s", path, got.status, w.last().URL.RequestURI())
		}
	}
}

func TestPagesOfConfiguredOrigins(t *testing.T) {
	const page = "https://app.example.com"
	w := newWorld(t, func(c *options, d *gateway.Definition) {
		c.Origins = []string{page}
		d.Methods = []string{"POST"}
	})
	pre := w.do(w.request("OPTIONS", "/connectors/weather", "", "Origin", page, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type"))
	if pre.status != http.StatusNoContent || pre.header.Get("Access-Control-Allow-Origin") != page || pre.header.Get("Access-Control-Allow-Headers") != "content-type" {
		t.Errorf("the preflight got %+v", pre)
	}
	got := w.do(w.request("POST", "/connectors/weather", "x", "Origin", page))
	if got.status != http.StatusOK || got.header.Get("Access-Control-Allow-Origin") != page || got.header.Get("Access-Control-Allow-Credentials") != "true" {
		t.Errorf("the page got %+v", got)
	}
	if own := w.do(w.request("POST", "/connectors/weather", "x", "Origin", w.server.URL)); own.status != http.StatusOK || own.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("a page of the gateway itself got %+v", own)
	}
}

// threats.md 47: what is one user's is in no cache that others share.
func TestAnswersArePrivate(t *testing.T) {
	w := newWorld(t)
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Cache-Control", "public, max-age=60, s-maxage=600")
		rw.Header().Set("Set-Cookie", "session=of-the-api")
	}
	got := w.get("/connectors/weather")
	if cache := got.header.Get("Cache-Control"); cache != "private, max-age=60" {
		t.Errorf("Cache-Control is %q", cache)
	}
	if vary := strings.Join(got.header["Vary"], ", "); !strings.Contains(vary, "Authorization, Cookie") || got.header.Get("Set-Cookie") != "" {
		t.Errorf("Vary is %q, Set-Cookie %q", vary, got.header.Get("Set-Cookie"))
	}
}
