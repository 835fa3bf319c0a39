package console

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/keywright/keywright/internal/testworld"
)

// broken are the APIs that fail, with the auth of their connectors.
var broken = []string{
	`url: 'API/status/401', paths: [/**], auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('orders') }}", in: header}}`,
	`url: 'http://127.0.0.1:1', paths: [/**], auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('orders') }}", in: header}}`,
	`url: 'API/v1', paths: [/**], auth: {type: oauth_client_credentials, config: {token_url: API/token, client_id: keywright, client_secret: "{{ get_secret('invoices') }}"}}`,
	`url: 'API/status/503', paths: [/**], auth: {type: none}`,
	`url: 'API/status/429', paths: [/**], auth: {type: basic, config: {username: me, password: "{{ get_secret('orders') }}"}}`,
}

// fleet runs a gateway with 300 more connectors in two files, of which 21 fail. Each has had requests for some minutes.
func fleet(t *testing.T) *deployment {
	t.Helper()
	const connectors = 300
	var parts [2]strings.Builder
	subjects := []string{"billing", "crm", "warehouse-management", "mail", "tickets"}
	name := func(i int) string { return fmt.Sprintf("c%03d-%s", i, subjects[i%len(subjects)]) }
	for i := range parts {
		parts[i].WriteString("connectors:\n")
	}
	for i := range connectors {
		text := `url: 'API/v1', paths: [/**], auth: {type: api_key, config: {key: X-Key, value: "{{ get_secret('orders') }}", in: header}}`
		if i%14 == 7 {
			text = broken[i/14%len(broken)]
		}
		fmt.Fprintf(&parts[i%2], "  - {name: %s, %s}\n", name(i), text)
	}
	w := newDeployment(t, false, parts[0].String(), parts[1].String())
	w.history()
	for range 3 {
		for i := range connectors {
			if i%9 != 0 { // the others are quiet
				w.call(name(i))
			}
		}
		w.clock.Advance(15 * time.Second)
	}
	return w
}

// pictures is the directory for pictures of all pages.
var pictures = flag.String("pictures", "", "write pictures of all pages in all widths and colours to a directory")

// size is the size of a page, in pixels.
type size struct {
	Wide []string `json:"wide"`
	High int64    `json:"high"`
	Head int64    `json:"head"`
	// Full is the height of the page with 50 rows as high as those that it has.
	Full int64 `json:"full"`
}

// measure is a script that returns the size of the page, with the elements that scroll sideways.
const measure = `({
	wide: [document.documentElement, ...document.querySelectorAll(".wide")].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.tagName + " " + (e.ariaLabel || "") + " " + e.scrollWidth + " > " + e.clientWidth),
	high: document.documentElement.scrollHeight,
	full: (rows => document.documentElement.scrollHeight + Math.ceil(rows.reduce((all, row) => all + row.getBoundingClientRect().height, 0) * Math.max(0, 50 / Math.max(1, rows.length) - 1)))([...document.querySelectorAll(".cards tbody tr")]),
	head: Math.ceil(document.querySelector("header").getBoundingClientRect().height)
})`

// No page of a large file is wider than its window or endlessly high, and the head leaves room for it. axe-core finds nothing in the narrow
// layout either. With text of 200 %, no page scrolls sideways.
func TestLayout(t *testing.T) {
	w := fleet(t)
	for _, c := range []struct {
		name   string
		width  int64
		scheme string
		// text is the size of the text in pixels, of which 16 is usual.
		text int
	}{
		{"narrow", 360, "light", 16},
		{"narrow", 360, "dark", 16},
		{"tablet", 768, "light", 16},
		{"tablet", 768, "dark", 16},
		{"wide", 1400, "light", 16},
		{"wide", 1400, "dark", 16},
		{"large text", 1400, "light", 32},
		{"large text", 768, "dark", 32},
	} {
		if *pictures == "" && c.name != "narrow" && c.text == 16 && c.scheme == "dark" {
			continue // it differs in colours alone, of which axe-core looks at those of the narrow one
		}
		t.Run(fmt.Sprintf("%s %d %s", c.name, c.width, c.scheme), func(t *testing.T) {
			b := open(w, chromedp.Flag("blink-settings", fmt.Sprintf("defaultFontSize=%d,defaultMonospaceFontSize=%d", c.text, c.text*13/16)))
			b.t = t
			b.scheme(c.scheme)
			b.do("the size", chromedp.EmulateViewport(c.width, 800))
			for name, path := range b.layoutPages() {
				b.visit(path)
				got := evaluate[size](b, measure)
				if *pictures != "" {
					b.picture(fmt.Sprintf("%s-%d-%s-%d", name, c.width, c.scheme, c.text), c.width, got.High)
				}
				if len(got.Wide) > 0 {
					t.Errorf("%s scrolls sideways: %q", path, got.Wide)
				}
				if c.text > 16 {
					continue
				}
				if max(got.High, got.Full) > 8000 || got.Head > 120 {
					t.Errorf("%s is %d pixels high, with 50 rows %d, and its head %d", path, got.High, got.Full, got.Head)
				}
				if c.name != "narrow" {
					continue
				}
				evaluate[bool](b, `document.querySelectorAll("details").forEach(d => d.open = true), true`)
				if found := b.axe(); found != "" {
					t.Errorf("%s: found = %s", path, found)
				}
			}
		})
	}
}

// layoutPages returns the paths of one page of each kind, by name.
func (b *tab) layoutPages() map[string]string {
	b.t.Helper()
	b.visit("/failures")
	id := evaluate[string](b, `document.querySelector("main a[href^='/requests/']").getAttribute("href")`)
	return map[string]string{
		"trouble": "/", "all": "/?show=all", "sorted": "/?show=all&sort=name&after=100", "none": "/?q=nothing", "connector": "/connectors/c007-warehouse-management",
		"token": "/connectors/c035-billing", "user": "/connectors/calendar", "good": "/connectors/orders", "failures": "/failures", "request": id, "unknown": "/requests/none",
		"plugins": "/plugins", "secrets": "/secrets", "connections": "/connections", "acts": "/acts", "nodes": "/nodes", "configuration": "/configuration", "sessions": "/sessions",
	}
}

// picture writes a picture of the page.
func (b *tab) picture(name string, width, height int64) {
	b.t.Helper()
	b.do("the size", chromedp.EmulateViewport(width, height))
	png := testworld.Must(chromedp.Run(b.ctx, chromedp.CaptureScreenshot()))(b.t)
	testworld.Check(b.t, os.WriteFile(filepath.Join(*pictures, name+".png"), png, 0o600))
	b.do("the size", chromedp.EmulateViewport(width, 800))
}

// The menu of a narrow window leads to all pages, with the keyboard alone, and without scripts.
func TestMenu(t *testing.T) {
	w := newDeployment(t, false)
	b := open(w)
	b.scripts(false)
	b.do("the size", chromedp.EmulateViewport(360, 800))
	b.visit("/")
	b.do("opening the menu", chromedp.Focus(chromedp.CSS(".menu summary")), chromedp.KeyEvent("\r"), chromedp.WaitVisible(chromedp.CSS(".menu nav")),
		chromedp.KeyEvent("\t"), chromedp.KeyEvent("\t"), chromedp.KeyEvent("\r"), chromedp.WaitVisible(chromedp.CSS("#failures")))
}

// html-validate finds nothing on any page.
func TestValidity(t *testing.T) {
	w := fleet(t)
	b := open(w)
	dir := t.TempDir()
	testworld.Check(t, os.WriteFile(filepath.Join(dir, ".htmlvalidate.json"), []byte(`{"root": true, "extends": ["html-validate:standard"]}`), 0o600))
	for name, path := range b.layoutPages() {
		r := testworld.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, w.operators+path, http.NoBody))(t)
		response := testworld.Must(http.DefaultClient.Do(r))(t)
		page := testworld.Must(io.ReadAll(response.Body))(t)
		_ = response.Body.Close()
		testworld.Check(t, os.WriteFile(filepath.Join(dir, name+".html"), page, 0o600))
	}
	if out, err := exec.CommandContext(t.Context(), "node_modules/.bin/html-validate", dir).CombinedOutput(); err != nil {
		t.Errorf("`make npm` installs html-validate: %v\n%s", err, out)
	}
}
