package gateway_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/server/gateway"
)

// namedProblems returns the problems of a definition that names these headers.
func namedProblems(w *world, headers ...string) []host.Problem {
	w.t.Helper()
	_, err := gateway.NewConnector(w.t.Context(), w.host, gateway.Definition{
		Permalink: "a", URL: "https://a.test", Auth: host.Auth{Type: "none"}, Response: gateway.Response{Headers: headers},
	})
	var wrong *host.ConfigError
	if err != nil && !errors.As(err, &wrong) {
		w.t.Fatal(err)
	}
	if wrong == nil {
		return nil
	}
	return wrong.Problems
}

// Headers that a definition names pass, and pages of other origins may read them. No other header of the API passes.
func TestDefinedHeaders(t *testing.T) {
	const app = "https://app.example.com"
	w := newWorld(t, func(o *options, d *gateway.Definition) {
		o.Origins = []string{app}
		d.Response.Headers = []string{"x-total-count", "X-RateLimit-*", "Link"}
	})
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		for name, value := range map[string]string{
			"X-Total-Count": "12", "X-RateLimit-Limit": "100", "x-ratelimit-remaining": "7", "X-RateLimits": "no", "Link": `<https://api.test/2>; rel="next"`, "X-Account": "internal",
		} {
			rw.Header().Set(name, value)
		}
		rw.Header()["X-Ratelimit-Reset"] = []string{"1", "2"}
	}
	for origin, exposed := range map[string]string{"": "", app: "Server-Timing, X-Request-Id, Link, X-Ratelimit-Limit, X-Ratelimit-Remaining, X-Ratelimit-Reset, X-Total-Count"} {
		var headers []string
		if origin != "" {
			headers = []string{"Origin", origin}
		}
		got := w.get("/connectors/weather", headers...)
		for name, want := range map[string]string{
			"X-Total-Count": "12", "X-Ratelimit-Limit": "100", "X-Ratelimit-Remaining": "7", "X-Ratelimit-Reset": "1|2", "X-Ratelimits": "", "X-Account": "",
			"Link": `<https://api.test/2>; rel="next"`, "Access-Control-Expose-Headers": exposed,
		} {
			if value := strings.Join(got.header[name], "|"); value != want {
				t.Errorf("from %q: %s is %q, want %q", origin, name, value, want)
			}
		}
	}
}

// threats.md 188: a pattern lets no header pass that a browser, a cache or a proxy would act on, whatever the API sends.
func TestBlockedHeaders(t *testing.T) {
	never := []string{
		"Set-Cookie", "Www-Authenticate", "Authentication-Info", "Proxy-Authenticate", "Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Content-Security-Policy",
		"Content-Security-Policy-Report-Only", "Strict-Transport-Security", "X-Frame-Options", "Cross-Origin-Opener-Policy", "Clear-Site-Data", "Service-Worker-Allowed",
		"X-Accel-Redirect", "X-Envoy-Immediate-Health-Check-Fail", "Netlify-Cdn-Cache-Control", "X-Middleware-Rewrite", "Origin-Trial", "No-Vary-Search",
		"X-Sendfile", "Surrogate-Control", "Cdn-Cache-Control", "Keep-Alive", "Alt-Svc", "Sec-Session-Registration", "X-Forwarded-Host", "Content-Encoding",
	}
	patterns := []string{
		"Authentication-*", "Access-*", "Content-*", "Strict-*", "Cross-*", "Clear-*", "Service-*", "X-Frame-*", "Keep-*", "Alt-Svc-*", "X-Forwarded-By", "Set-Cookies", "Www-Authentication",
	}
	w := newWorld(t)
	for _, name := range slices.Concat(never, []string{"*", "X-*", "A-*", "X-Rate*", "X-*-Limit", "X Limit", "", "Transfer-Encoding", "Server-Timing", "X-Request-Id", "Access-Control-*"}) {
		problems := namedProblems(w, "X-Total-Count", name)
		if len(problems) != 1 || problems[0].Path != "response.headers[1]" {
			t.Errorf("%q: problems = %v", name, problems)
		}
	}
	var allowed []string
	for _, pattern := range patterns {
		if problems := namedProblems(w, pattern); len(problems) == 0 {
			allowed = append(allowed, pattern)
		}
	}
	for _, pattern := range []string{"Access-*", "Content-*", "Service-*", "Cross-*"} {
		if !slices.Contains(allowed, pattern) {
			t.Errorf("%s is refused, so this is not what it is about", pattern)
		}
	}
	w = newWorld(t, func(_ *options, d *gateway.Definition) { d.Response.Headers = allowed })
	w.answer = func(rw http.ResponseWriter, _ *http.Request) {
		for _, name := range never {
			if name != "Content-Encoding" { // an answer that is encoded is refused
				rw.Header().Set(name, "canary")
			}
		}
	}
	if got := fmt.Sprint(w.get("/connectors/weather").header); strings.Contains(got, "canary") {
		t.Errorf("with %v, the caller got %s", allowed, got)
	}
}

// threats.md 45: a header with the credential does not pass, even if the definition names it.
func TestNamedHeadersWithTheCredential(t *testing.T) {
	w := newWorld(t, func(_ *options, d *gateway.Definition) { d.Response.Headers = []string{"X-Limit-*"} })
	w.answer = func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Set("X-Limit-Of", "key "+r.Header.Get("X-Key"))
		rw.Header().Set("X-Limit-"+secret, "1")
		rw.Header().Set("X-Limit-Left", "3")
	}
	got := w.get("/connectors/weather")
	if text := strings.ToLower(fmt.Sprint(got.header)); strings.Contains(text, strings.ToLower(secret)) || got.header.Get("X-Limit-Left") != "3" {
		t.Errorf("the caller got %v", got.header)
	}
}

func TestManyNamedHeaders(t *testing.T) {
	w := newWorld(t)
	names := make([]string, 51)
	for i := range names {
		names[i] = fmt.Sprintf("X-Count-%d", i)
	}
	for n, want := range map[int]int{50: 0, 51: 1} {
		problems := namedProblems(w, names[:n]...)
		if len(problems) != want {
			t.Errorf("%d names: %v", n, problems)
		}
	}
}
