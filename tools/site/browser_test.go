package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/keywright/keywright/internal/testworld"
)

// limit is the time limit of the browser, so that a page that hangs is an error with its place.
const limit = time.Minute

// A tab is a tab of a chromium that shows the site.
type tab struct {
	t   *testing.T
	ctx context.Context
	url string

	mu sync.Mutex
	// complaints has the errors that the browser logged, and the requests of pages to others than the site.
	complaints []string
}

// listen adds to the complaints.
func (b *tab) listen(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch event := event.(type) {
	case *log.EventEntryAdded:
		b.complaints = append(b.complaints, event.Entry.Text)
	case *network.EventRequestWillBeSent:
		if !strings.HasPrefix(event.Request.URL, b.url) {
			b.complaints = append(b.complaints, "a request to "+event.Request.URL)
		}
	}
}

// open serves a directory to a new browser, which reaches the loopback alone.
func open(t *testing.T, dir string) *tab {
	t.Helper()
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("hide-scrollbars", true),
		chromedp.ModifyCmdFunc(func(c *exec.Cmd) {
			c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // chromium ends with the test
		}),
	)
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(stop)
	ctx, leave := chromedp.NewContext(ctx)
	t.Cleanup(leave)
	b := &tab{t: t, ctx: ctx, url: server.URL + "/"}
	err := chromedp.Listen(ctx, b.listen)
	if err != nil {
		t.Fatalf("chromium cannot be run; `make deps` installs it: %v", err)
	}
	return b
}

func (b *tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatalf("%s: err = %v", what, err)
	}
}

func (b *tab) visit(path string) {
	b.t.Helper()
	b.do("opening "+path, chromedp.Navigate(b.url+path))
}

// evaluate runs a script in the page, and returns the value of its promise.
func evaluate[T any](b *tab, script string) T {
	b.t.Helper()
	return testworld.Must(chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise)))(b.t)
}

// scheme sets the colours that the reader prefers, light or dark.
func (b *tab) scheme(name string) {
	b.t.Helper()
	params := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}
	testworld.Must(chromedp.Call(b.ctx, emulation.SetEmulatedMedia, params))(b.t)
}

// samples are pages of each kind.
var samples = []string{
	"index.html", "0.1/index.html", "0.1/docs/auth-types.html", "0.1/docs/auth-types/signature.html", "0.1/docs/console.html",
}

// barriers checks that axe-core finds nothing in a narrow and a wide window, in light and in dark.
func (b *tab) barriers() {
	b.t.Helper()
	axe := string(testworld.Must(os.ReadFile("node_modules/axe-core/axe.min.js"))(b.t))
	for i, path := range samples {
		for j, width := range []int64{360, 1400} {
			b.do("the size", chromedp.EmulateViewport(width, 740))
			b.scheme([]string{"light", "dark"}[(i+j)%2])
			b.visit(path)
			found := evaluate[[]json.RawMessage](b, axe+`
				;axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => ({id: v.id, nodes: v.nodes.map(n => n.html + n.failureSummary)})))`)
			if len(found) > 0 {
				b.t.Errorf("%s, %d px: found = %s", path, width, testworld.Must(json.MarshalIndent(found, "", " "))(b.t))
			}
		}
	}
}

// narrow checks that no page is wider than 360 px, and that the first one is no longer than the window.
func (b *tab) narrow() {
	b.t.Helper()
	b.do("the size", chromedp.EmulateViewport(360, 740))
	var names []string
	for name := range content(b.t, output(b.t), ".html") {
		names = append(names, "/"+name)
	}
	b.visit("0.1/index.html")
	wide := evaluate[[]string](b, `(async () => {
		const wide = []
		for (const name of `+string(testworld.Must(json.Marshal(names))(b.t))+`) {
			const page = new DOMParser().parseFromString(await (await fetch(name)).text(), "text/html")
			document.body.replaceWith(page.body)
			if (document.documentElement.scrollWidth > innerWidth) wide.push(name)
		}
		return wide
	})()`)
	if len(wide) > 0 {
		b.t.Errorf("wider than the window: %q", wide)
	}
	for _, size := range [][2]int64{{360, 740}, {1400, 900}} {
		b.do("the size", chromedp.EmulateViewport(size[0], size[1]))
		b.visit("index.html")
		if bottom := evaluate[float64](b, `document.querySelector(".picture").getBoundingClientRect().bottom`); bottom > float64(size[1]) {
			b.t.Errorf("%v px: the picture ends at %v", size, bottom)
		}
	}
}

// search checks that an auth type is found by its name, from pages at different places.
func (b *tab) search() {
	b.t.Helper()
	for _, path := range []string{"index.html", "0.1/docs/auth-types/jwt.html"} {
		b.visit(path)
		b.do("searching", chromedp.SendKeys(chromedp.CSS("[role=search] input"), "oauth_jwt_bearer"), chromedp.WaitVisible(chromedp.CSS("#Found li")))
		links := evaluate[[]string](b, `[...document.querySelectorAll("#Found a")].map(a => a.pathname)`)
		if !slices.Contains(links, "/0.1/docs/auth-types/oauth_jwt_bearer.html") {
			b.t.Errorf("%s: links = %q", path, links)
		}
	}
}

// A browser shows the site without barriers, and finds pages. Nothing is asked of another server, and no error is logged.
func TestBrowser(t *testing.T) {
	b := open(t, output(t))
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.complaints) > 0 {
			t.Errorf("complaints = %q", b.complaints)
		}
	}()
	b.barriers()
	b.narrow()
	b.search()
}
