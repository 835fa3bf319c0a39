package console_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/keywright/keywright/server/internal/operate/console"
)

// oneKey is a file with a connector that sends a key.
const oneKey = `
connectors:
  - name: Orders
    permalink: orders
    url: https://api.example.com/orders
    paths: [/**]
    auth: {type: api_key, config: {in: header, key: Authorization, value: "Bearer {{ get_secret('key') }}"}}
`

// links returns the paths of the pages and files that a page refers to.
func links(body string) (all []string) {
	for _, match := range regexp.MustCompile(`(?:href|src)="(/[^"#]*)"`).FindAllStringSubmatch(body, -1) {
		all = append(all, match[1])
	}
	return all
}

// threats.md 151
func TestNoOtherSiteReadsFramesOrKeepsAPage(t *testing.T) {
	w := newWorld(t, oneKey)
	for _, path := range append([]string{"/"}, links(w.get("/").body)...) {
		answer := w.get(path)
		if answer.status != http.StatusOK {
			t.Errorf("%s: answer.status = %d answer.body = %s", path, answer.status, answer.body)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy":      "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
			"X-Content-Type-Options":       "nosniff",
			"Referrer-Policy":              "same-origin",
			"Cache-Control":                "no-store",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Access-Control-Allow-Origin":  "",
		} {
			if got := answer.header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if strings.Contains(answer.body, " style=") || strings.Contains(answer.body, "<style") || regexp.MustCompile(`<script[^>]*>[^<]| on[a-z]+=`).MatchString(answer.body) {
			t.Errorf("%s has a style or a script that the policy refuses", path)
		}
	}
}

func TestPageSize(t *testing.T) {
	w := newWorld(t, oneKey)
	size := len(w.get("/").body)
	for _, path := range []string{"/console.css", "/console.js"} {
		size += len(w.get(path).body)
	}
	if size > 100_000 {
		t.Errorf("a page with its files has %d bytes", size)
	}
}

func TestUnknownPaths(t *testing.T) {
	w := newWorld(t, oneKey)
	for _, path := range []string{"/connector", "/x", "/pages/layout.html", "/console.map"} {
		if status := w.get(path).status; status != http.StatusNotFound {
			t.Errorf("%s: status = %d", path, status)
		}
	}
}

func TestRefusedFileOnPages(t *testing.T) {
	w := newWorld(t, oneKey)
	w.state.Refused, w.state.Problems = now, []console.Problem{{Text: "28:9: client_secrt is not known here"}, {Text: "30:1: another"}}
	if body := w.get("/").body; !strings.Contains(body, "28:9: client_secrt is not known here</code> and 1 more") {
		t.Errorf("the page is\n%s", body)
	}
}

func TestAuditFailureOnPages(t *testing.T) {
	w := newWorld(t, oneKey)
	w.state.Unrecorded = "no space left on <device>"
	for _, path := range []string{"/", "/configuration"} {
		if body := w.get(path).body; !strings.Contains(body, "The audit log cannot be written.</strong> <code>no space left on &lt;device&gt;</code>") {
			t.Errorf("the page %s is\n%s", path, body)
		}
	}
}
