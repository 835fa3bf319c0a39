package console

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// screenshots is the directory for the pictures of docs/console.md. `make screenshots` writes them.
var screenshots = flag.String("screenshots", "", "write the pictures of docs/console.md to a directory")

// docs/console.md shows each page with a picture that this test makes.
func TestScreenshots(t *testing.T) {
	const width, height = 1280, 760
	text, err := os.ReadFile("../../../docs/console.md")
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, false)
	w.use()
	b := open(w)
	dir := *screenshots
	if dir == "" {
		dir = t.TempDir()
	}
	b.do("the size", chromedp.EmulateViewport(width, height))
	for name, page := range map[string]struct{ path, scheme string }{
		"connectors": {"/", "light"}, "connector": {"/connectors/invoices", "light"}, "plugins": {"/plugins", "light"}, "secrets": {"/secrets", "light"},
		"grants": {"/grants", "dark"}, "configuration": {"/configuration", "dark"}, "sessions": {"/sessions", "light"},
	} {
		b.scheme(page.scheme)
		b.visit(page.path)
		evaluate[bool](b, `(() => { // the directory is another one each time
			for (const e of document.querySelectorAll("dd")) { if (e.children.length === 0) e.textContent = e.textContent.replace(/^.*[/]00\d[/]/, "/etc/keywright/") }
			return true
		})()`)
		picture, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "console-"+name+".png"), picture, 0o600); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "](images/console-"+name+".png)") {
			t.Errorf("docs/console.md does not show %s", name)
		}
		if _, err := os.Stat("../../../docs/images/console-" + name + ".png"); err != nil {
			t.Errorf("make screenshots: %v", err)
		}
	}
}
