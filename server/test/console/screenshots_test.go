package console

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/keywright/keywright/internal/testworld"
)

// screenshots is the directory for the pictures of docs/console.md. `make screenshots` writes them.
var screenshots = flag.String("screenshots", "", "write the pictures of docs/console.md to a directory")

// docs/console.md shows each page with a picture that this test makes.
func TestScreenshots(t *testing.T) {
	const width, least, most = 1280, 420, 1080
	text := testworld.Must(os.ReadFile("../../../docs/console.md"))(t)
	w := newDeployment(t, false)
	w.history()
	b := open(w)
	dir := *screenshots
	if dir == "" {
		dir = t.TempDir()
	}
	for _, page := range []struct{ name, path, scheme string }{
		{"connectors", "/", "light"},
		{"connector", "/connectors/invoices", "light"},
		{"repaired", "/connectors/customers", "dark"},
		{"plugins", "/plugins", "light"},
		{"secrets", "/secrets", "light"},
		{"grants", "/grants", "dark"},
		{"sessions", "/sessions", "light"},
		{"configuration", "/configuration", "dark"},
	} {
		name := page.name
		if name == "configuration" {
			b.change()
		}
		b.scheme(page.scheme)
		b.do("the size", chromedp.EmulateViewport(width, least))
		b.visit(page.path)
		b.do("the size", chromedp.EmulateViewport(width, min(most, evaluate[int64](b, "document.documentElement.scrollHeight"))))
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
