package console

import (
	"context"
	"encoding/json"
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
	"github.com/chromedp/chromedp"

	"github.com/keywright/keywright/internal/testworld"
)

// limit is the time limit of a browser in one test, so that a page that hangs is an error with its place.
const limit = 4 * time.Minute

// A tab is a tab of a separate chromium.
type tab struct {
	t   *testing.T
	w   *deployment
	ctx context.Context

	mu sync.Mutex
	// complaints has the errors that the browser logged: violated policies, and scripts that fail.
	complaints []string
}

// open opens a browser that reaches the loopback alone, with some more flags.
func open(w *deployment, flags ...chromedp.ExecAllocatorOption) *tab {
	w.t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE 127.0.0.1"),
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("hide-scrollbars", true),
		chromedp.ModifyCmdFunc(func(c *exec.Cmd) {
			c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // chromium ends with the test
		}),
	)
	options = append(options, flags...)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	w.t.Cleanup(cancel)
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	w.t.Cleanup(stop)
	ctx, leave := chromedp.NewContext(ctx)
	w.t.Cleanup(leave)
	b := &tab{t: w.t, w: w, ctx: ctx}
	err := chromedp.Listen(ctx, func(ev any) {
		if entry, ok := ev.(*log.EventEntryAdded); ok && entry.Entry.Level == log.EntryLevelError {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.complaints = append(b.complaints, entry.Entry.Text)
		}
	})
	if err != nil {
		w.t.Fatalf("chromium cannot be run; `make deps` installs it: %v", err)
	}
	return b
}

// said returns what the browser complained of since the last call.
func (b *tab) said() (all []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, b.complaints = b.complaints, nil
	return slices.DeleteFunc(all, func(text string) bool { return strings.Contains(text, "404 (Not Found)") }) // the icon that browsers ask for
}

// do runs steps.
func (b *tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, steps...); err != nil {
		b.t.Fatalf("%s: err = %v", what, err)
	}
}

// visit opens a page of the console, and returns its HTML.
func (b *tab) visit(path string) string {
	b.t.Helper()
	b.do("opening "+path, chromedp.Navigate(b.w.operators+path))
	return b.html()
}

// html returns the page as it is now. It runs no script in the page.
func (b *tab) html() string {
	b.t.Helper()
	html := testworld.Must(chromedp.Run(b.ctx, chromedp.OuterHTML(chromedp.CSS("html"))))(b.t)
	b.w.Out("a page", html)
	return html
}

// evaluate runs a script in the page, and returns the value of its promise.
func evaluate[T any](b *tab, script string) T {
	b.t.Helper()
	return testworld.Must(chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise)))(b.t)
}

// scheme sets the colours that the user prefers, light or dark.
func (b *tab) scheme(name string) {
	b.t.Helper()
	params := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}}
	testworld.Must(chromedp.Call(b.ctx, emulation.SetEmulatedMedia, params))(b.t)
}

// scripts switches the scripts of pages.
func (b *tab) scripts(on bool) {
	b.t.Helper()
	testworld.Must(chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: !on}))(b.t)
}

// logIn logs the operator in with the keyboard, and waits for the page at path.
func (b *tab) logIn(path string) {
	b.t.Helper()
	b.visit(path)
	b.do("logging in", chromedp.KeyEvent(b.w.token), chromedp.KeyEvent("\r"), chromedp.WaitVisible(chromedp.CSS("nav.row")))
}

// pages returns the paths of all pages that links lead to from the first one.
func (b *tab) pages() []string {
	b.t.Helper()
	paths := []string{"/"}
	for i := 0; i < len(paths); i++ {
		b.visit(paths[i])
		for _, path := range evaluate[[]string](b, `[...document.querySelectorAll("a[href]")].filter(a => a.origin === location.origin).map(a => a.pathname)`) {
			if !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// violation is something that axe-core finds.
type violation struct {
	ID    string `json:"id"`
	Help  string `json:"help"`
	Nodes []struct {
		HTML    string `json:"html"`
		Summary string `json:"failureSummary"`
	} `json:"nodes"`
}

// axe returns what axe-core finds in the page, with all of its rules.
func (b *tab) axe() string {
	b.t.Helper()
	script, err := os.ReadFile("node_modules/axe-core/axe.min.js")
	if err != nil {
		b.t.Fatalf("axe-core is missing; `make npm` installs it: %v", err)
	}
	evaluate[bool](b, string(script)+"\n;true")
	found := evaluate[[]violation](b, `axe.run(document, {resultTypes: ["violations"]}).then(r => r.violations.map(v => ({id: v.id, help: v.help, nodes: v.nodes.map(n => ({html: n.html, failureSummary: n.failureSummary}))})))`)
	if len(found) == 0 {
		return ""
	}
	text := testworld.Must(json.MarshalIndent(found, "", "  "))(b.t)
	return string(text)
}
