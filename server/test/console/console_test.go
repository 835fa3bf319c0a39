package console

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/keywright/keywright/internal/testworld"
)

// axe-core finds nothing on any page, in light and in dark, and no page violates its policy. No page has a secret.
// threats.md 151, threats.md 174
func TestPagesHaveNoBarriers(t *testing.T) {
	w := newDeployment(t, false)
	w.use()
	w.history()
	b := open(w)
	paths := b.pages()
	if len(paths) < 10 {
		t.Errorf("there are only the pages %q", paths)
	}
	b.change()
	for _, path := range append(paths, "/nothing", "/connectors/nothing") {
		for _, scheme := range []string{"light", "dark"} {
			b.scheme(scheme)
			b.visit(path)
			evaluate[bool](b, `document.querySelectorAll("details").forEach(d => d.open = true), true`)
			if path == "/nothing" {
				continue // it is plain text
			}
			if found := b.axe(); found != "" {
				t.Errorf("%s, %s: found = %s", path, scheme, found)
			}
		}
		if said := b.said(); len(said) > 0 && !strings.Contains(path, "nothing") {
			t.Errorf("%s: the browser says %q", path, said)
		}
	}
}

// The same holds for the login, which works with the keyboard.
// threats.md 157, threats.md 159
func TestLogin(t *testing.T) {
	w := newDeployment(t, true)
	w.use()
	b := open(w)
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		if html := b.visit("/secrets"); !strings.Contains(html, `<label for="token">`) || strings.Contains(html, "invoices") {
			t.Fatalf("without a login there is the page %s", html)
		}
		if found := b.axe(); found != "" {
			t.Errorf("%s: found = %s", scheme, found)
		}
	}
	b.do("a wrong token", chromedp.KeyEvent("wrong"), chromedp.KeyEvent("\r"), chromedp.WaitVisible(chromedp.CSS("#problem")))
	if found := b.axe(); found != "" {
		t.Errorf("with a wrong token: %s", found)
	}
	b.scripts(false)
	b.logIn("/secrets")
	b.scripts(true)
	if at := evaluate[string](b, "location.pathname + ' ' + document.cookie"); at != "/secrets " {
		t.Errorf("after the login, the browser is at %q", at)
	}
	for _, path := range b.pages() {
		if html := b.visit(path); strings.Contains(html, `<label for="token">`) {
			t.Errorf("%s asks for a login again", path)
		}
	}
	b.scripts(false)
	b.do("logging out", chromedp.Focus(chromedp.CSS("form[action='/logout'] button")), chromedp.KeyEvent("\r"), chromedp.WaitVisible(chromedp.CSS("#token")))
	if html := b.visit("/secrets"); !strings.Contains(html, `<label for="token">`) {
		t.Errorf("after the logout there is the page %s", html)
	}
}

// reached is a script that returns what has the focus, and whether that shows.
const reached = `(() => {
	const e = document.activeElement
	if (!e || e === document.body) return null
	const style = getComputedStyle(e), box = e.getBoundingClientRect()
	e.dataset.reached = "yes"
	return {html: e.outerHTML.slice(0, 80), visible: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2 && box.width > 0 && box.right > 0}
})()`

// missed is a script that returns what a mouse can use and the keyboard has not reached.
const missed = `[...document.querySelectorAll("a[href], button, input, select, textarea, summary")].filter(e =>
	!e.dataset.reached && !e.hidden && e.type !== "hidden" && !e.disabled && e.checkVisibility({visibilityProperty: true})).map(e => e.outerHTML.slice(0, 120))`

// The Tab key reaches all that a mouse does, and what has the focus shows it.
func TestKeyboardAlone(t *testing.T) {
	w := newDeployment(t, false)
	w.use()
	b := open(w)
	type focus struct {
		HTML    string `json:"html"`
		Visible bool   `json:"visible"`
	}
	for _, path := range b.pages() {
		b.visit(path)
		const most = 300
		steps := 0
		for ; steps < most; steps++ {
			b.do("Tab", chromedp.KeyEvent("\t"))
			at := evaluate[*focus](b, reached)
			if at == nil {
				break
			}
			if !at.Visible {
				t.Errorf("%s: the focus on %s does not show", path, at.HTML)
			}
		}
		if left := evaluate[[]string](b, missed); len(left) > 0 || steps == most {
			t.Errorf("%s: after %d steps, the keyboard has not reached %q", path, steps, left)
		}
	}
	b.visit("/connections")
	b.do("asking for a user", chromedp.Focus(chromedp.CSS("#user")), chromedp.KeyEvent("ann"), chromedp.KeyEvent("\r"), chromedp.WaitVisible(chromedp.CSS("#found")))
	if html := b.html(); !strings.Contains(html, "found") || strings.Contains(evaluate[string](b, "location.href"), "ann") {
		t.Errorf("the page for a user is %s", html)
	}
	b.test()
}

// test sends the operator's test of a connector with the keyboard, and checks that it reached the API.
func (b *tab) test() {
	b.t.Helper()
	before := b.w.calls.Load()
	b.visit("/connectors/orders")
	b.do("a test", chromedp.Focus(chromedp.CSS("#path")), chromedp.KeyEvent("/2026"), chromedp.KeyEvent("\r"), chromedp.WaitVisible(chromedp.CSS("#answer")))
	if html := b.html(); b.w.calls.Load() != before+1 || !strings.Contains(html, "fine") {
		b.t.Errorf("the API got %d requests for the test, whose page is %s", b.w.calls.Load()-before, html)
	}
}

// No page scrolls sideways in a window of 1280 or 800 pixels, and neither does the list of connectors.
func TestPagesFitTheWindow(t *testing.T) {
	w := newDeployment(t, false)
	w.use()
	w.history()
	b := open(w)
	paths := b.pages()
	for _, width := range []int64{1280, 800} {
		b.do("the size", chromedp.EmulateViewport(width, 760))
		for _, path := range paths {
			b.visit(path)
			wide := evaluate[[]string](b, `[document.documentElement, ...document.querySelectorAll(".wide")].filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.tagName + " " + (e.ariaLabel || "") + " " + e.scrollWidth + " > " + e.clientWidth)`)
			if len(wide) > 0 {
				t.Errorf("%s scrolls sideways at %d pixels: %q", path, width, wide)
			}
		}
	}
}

// Without scripts, each page has what it has with them.
func TestWithoutScripts(t *testing.T) {
	w := newDeployment(t, false)
	w.use()
	b := open(w)
	paths := b.pages()
	b.scripts(false)
	for _, path := range paths {
		if html := b.visit(path); !strings.Contains(html, "<h1>") || !strings.Contains(html, "</main>") {
			t.Errorf("%s without scripts is %s", path, html)
		}
	}
	b.visit("/connections")
	b.do("asking for a user", chromedp.Focus(chromedp.CSS("#user")), chromedp.KeyEvent("ann"), chromedp.KeyEvent("\r"), chromedp.WaitVisible(chromedp.CSS("#found")))
	b.test()
}

// hostile is a page of another origin that tries to read the console and to use it. What it gets, it puts into the variable got.
const hostile = `<!doctype html><title>hostile</title><iframe id="frame" src="CONSOLE/secrets"></iframe><iframe name="answer"></iframe>
<form id="test" method="post" action="CONSOLE/connectors/orders/test" target="answer" enctype="text/plain"><input name='{"path":"/' value='"}'></form>
<form id="connections" method="post" action="CONSOLE/connections" target="answer"><input name="user" value="ann"></form>
<form id="console" method="post" action="CONSOLE/connectors/orders" target="answer"><input name="method" value="GET"><input name="path" value="/x"></form>
<script>
var got = (async () => {
	const all = []
	const attempt = async (name, f) => { try { all.push(name + " " + await f()) } catch (e) { all.push(name + " failed") } }
	for (const path of ["/", "/secrets", "/metrics", "/console.js", "/debug/pprof/"]) {
		await attempt("fetch", async () => (await fetch("CONSOLE" + path)).text())
		await attempt("with cookies", async () => (await fetch("CONSOLE" + path, {credentials: "include"})).text())
		await attempt("script", () => new Promise((good, bad) => { const s = document.createElement("script"); s.onload = good; s.onerror = bad; s.src = "CONSOLE" + path; document.body.append(s) }))
	}
	await attempt("post", async () => (await fetch("CONSOLE/connectors/orders/test", {method: "POST", body: "{}", credentials: "include"})).text())
	await attempt("json", async () => (await fetch("CONSOLE/connectors/orders/test", {method: "POST", body: "{}", headers: {"Content-Type": "application/json"}})).text())
	await attempt("blind", async () => (await fetch("CONSOLE/connectors/orders/test", {method: "POST", body: "{}", mode: "no-cors", credentials: "include"})).text())
	await attempt("frame", () => document.getElementById("frame").contentDocument.body.textContent)
	for (const id of ["test", "connections", "console"]) {
		const done = new Promise(f => { document.querySelector("[name=answer]").onload = f })
		document.getElementById(id).submit()
		await done
	}
	return all
})()
</script>`

// threats.md 46, threats.md 151: a page of another origin reads nothing of the console and does nothing, whether the operator is logged in
// or needs no login.
func TestPageOfOtherOrigin(t *testing.T) {
	for name, login := range map[string]bool{"on this machine": false, "behind a login": true} {
		t.Run(name, func(t *testing.T) {
			w := newDeployment(t, login)
			w.use()
			site := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
				rw.Header().Set("Content-Type", "text/html; charset=utf-8")
				_, _ = fmt.Fprint(rw, strings.ReplaceAll(hostile, "CONSOLE", w.operators))
			}))
			t.Cleanup(site.Close)
			b := open(w)
			if login {
				b.logIn("/")
			}
			for _, origin := range []string{site.URL, strings.Replace(site.URL, "127.0.0.1", "localhost", 1)} { // another port, and another site
				b.do("opening the hostile page", chromedp.Navigate(origin))
				for _, line := range evaluate[[]string](b, "got") {
					if !strings.HasSuffix(line, " failed") && line != "blind " && line != "frame " {
						t.Errorf("%s: it has %q", origin, line)
					}
				}
			}
			if n := w.calls.Load(); n > 0 {
				t.Errorf("the API got %d requests", n)
			}
		})
	}
}

// screenshots is the directory for the pictures of docs/console.md. `make screenshots` writes them.
var screenshots = flag.String("screenshots", "", "write the pictures of docs/console.md to a directory")

// docs/console.md shows each page with a picture that this test makes.
func TestScreenshots(t *testing.T) {
	const width, minHeight, maxHeight = 1280, 420, 1080
	text := testworld.Must(os.ReadFile("../../../docs/console.md"))(t)
	w := newDeployment(t, false)
	w.history()
	b := open(w)
	dir := *screenshots
	if dir == "" {
		dir = t.TempDir()
	}
	for _, page := range []struct{ name, path, scheme string }{
		{"connectors", "/?show=all", "light"},
		{"connector", "/connectors/invoices", "light"},
		{"repaired", "/connectors/customers", "dark"},
		{"failures", "/failures", "light"},
		{"plugins", "/plugins", "light"},
		{"secrets", "/secrets", "light"},
		{"connections", "/connections", "dark"},
		{"sessions", "/sessions", "light"},
		{"configuration", "/configuration", "dark"},
	} {
		name := page.name
		if name == "configuration" {
			b.change()
		}
		b.scheme(page.scheme)
		b.do("the size", chromedp.EmulateViewport(width, minHeight))
		b.visit(page.path)
		b.do("the size", chromedp.EmulateViewport(width, min(maxHeight, evaluate[int64](b, "document.documentElement.scrollHeight"))))
		evaluate[bool](b, `(() => { // the directory is another one each time
			for (const e of document.querySelectorAll("dd")) { if (e.children.length === 0) e.textContent = e.textContent.replace(/^.*[/]00\d[/]/, "/etc/keywright/") }
			return true
		})()`)
		picture := testworld.Must(chromedp.Run(b.ctx, chromedp.CaptureScreenshot()))(t)
		testworld.Check(t, os.WriteFile(filepath.Join(dir, "console-"+name+".png"), picture, 0o600))
		if !strings.Contains(string(text), "](images/console-"+name+".png)") {
			t.Errorf("docs/console.md does not show %s", name)
		}
		if _, err := os.Stat("../../../docs/images/console-" + name + ".png"); err != nil {
			t.Errorf("make screenshots: %v", err)
		}
	}
}

// change changes the file, which is put in use, and then misspells a member of it.
func (b *tab) change() {
	b.t.Helper()
	text := testworld.Must(os.ReadFile(b.w.file))(b.t)
	changed := strings.NewReplacer("scope: read", "scope: read write", "    method: [GET, POST]\n", "").Replace(string(text))
	for _, step := range []struct{ text, shows string }{
		{changed, "What the last change altered"},
		{strings.Replace(changed, "client_id: keywright, client_secret", "client_id: keywright, client_secrt", 1), "The file on disk is not in use"},
	} {
		b.w.write("connectors.yaml", step.text)
		for !strings.Contains(b.visit("/configuration"), step.shows) { // the time of the browser ends this
		}
	}
}
