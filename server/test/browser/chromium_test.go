package browser

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
)

// limit is how long a browser may take for a test: a page that hangs is an error that says where.
const limit = 2 * time.Minute

// tab is a tab of a chromium of its own. It keeps all that the browser is told.
type tab struct {
	t   *testing.T
	w   *world
	ctx context.Context

	news chan struct{} // that an event has come

	mu       sync.Mutex
	seen     strings.Builder // the events of the network, and bodies
	awaited  map[network.RequestID]bool
	headers  map[network.RequestID]int // how many are yet to come, or have come before what says so where it is below 0
	finished []network.RequestID       // whose bodies are not in seen yet
	sent     []http.Header             // of what went out to the gateway
}

func open(w *world) *tab {
	w.t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		// Nothing but the loopback is there.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost, EXCLUDE 127.0.0.1"),
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.ModifyCmdFunc(func(c *exec.Cmd) {
			c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it ends with the test
			if err := allowCookies(c.Args); err != nil {
				w.t.Error(err)
			}
		}),
	)
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	w.t.Cleanup(cancel)
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	w.t.Cleanup(stop)
	ctx, leave := chromedp.NewContext(ctx)
	w.t.Cleanup(leave)
	b := &tab{t: w.t, w: w, ctx: ctx, news: make(chan struct{}, 1), awaited: map[network.RequestID]bool{}, headers: map[network.RequestID]int{}}
	if err := chromedp.Listen(ctx, b.event); err != nil {
		w.t.Fatalf("chromium cannot be run; `make deps` installs it: %v", err)
	}
	return b
}

// allowCookies has a browser send sessions along from other sites, as many do. One that keeps them would hide what the
// gateway does. No flag says so: it is one of the user's settings, in the directory of the user's data.
func allowCookies(arguments []string) error {
	for _, argument := range arguments {
		dir, ok := strings.CutPrefix(argument, "--user-data-dir=")
		if !ok {
			continue
		}
		if err := os.Mkdir(filepath.Join(dir, "Default"), 0o700); err != nil {
			return err
		}
		settings := `{"profile":{"block_third_party_cookies":false,"cookie_controls_mode":0}}`
		return os.WriteFile(filepath.Join(dir, "Default", "Preferences"), []byte(settings), 0o600)
	}
	return errors.New("the browser has no directory")
}

// event keeps an event. Those of the network are kept as a whole.
func (b *tab) event(ev any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSentExtraInfo:
		header := http.Header{}
		for name, value := range ev.Headers {
			text, _ := value.(string)
			header.Set(name, text)
		}
		if "http://"+header.Get("Host") == b.w.gateway {
			b.sent = append(b.sent, header)
		}
	case *network.EventResponseReceivedExtraInfo:
		b.seen.WriteString(ev.HeadersText + "\n")
		b.headers[ev.RequestID]--
	case *network.EventResponseReceived:
		if ev.HasExtraInfo {
			b.headers[ev.RequestID]++
		}
		// The answer to a preflight has no body. An icon, which the browser asks for by itself, goes with its page, whenever.
		if icon := strings.HasPrefix(ev.Response.URL, "data:") || strings.HasSuffix(ev.Response.URL, "/favicon.ico"); ev.Type != network.ResourceTypePreflight && !icon {
			b.awaited[ev.RequestID] = true
		}
	case *network.EventLoadingFinished:
		if b.awaited[ev.RequestID] {
			b.finished = append(b.finished, ev.RequestID)
		}
		delete(b.awaited, ev.RequestID)
	case *network.EventLoadingFailed:
		delete(b.awaited, ev.RequestID)
	case *network.EventRequestWillBeSent:
		if ev.RedirectHasExtraInfo {
			b.headers[ev.RequestID]++
		}
	case *network.EventDataReceived, *network.EventRequestServedFromCache:
	default:
		return
	}
	encoder := json.NewEncoder(&b.seen)
	encoder.SetEscapeHTML(false) // which could hide a credential
	if err := encoder.Encode(ev); err != nil {
		b.t.Error(err)
	}
	select {
	case b.news <- struct{}{}:
	default: // there are some already
	}
}

// until waits for events that make something true.
func (b *tab) until(what string, is func() bool) {
	b.t.Helper()
	for {
		b.mu.Lock()
		done := is()
		b.mu.Unlock()
		if done {
			return
		}
		select {
		case <-b.news:
		case <-b.ctx.Done():
			b.t.Fatalf("%s: the browser does not tell", what)
		}
	}
}

// signIn returns the browser a session, in a cookie that goes along from wherever the gateway is called: what SameSite
// does is not what is tested.
func (b *tab) signIn(email string) {
	b.t.Helper()
	yes := true
	_, err := chromedp.Call(b.ctx, network.SetCookie, network.SetCookieParams{
		Name: "session", Value: b.w.session(email), URL: b.w.gateway, HTTPOnly: &yes, Secure: &yes, SameSite: network.CookieSameSiteNone,
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

// visit opens a page of an origin, with this in it.
func (b *tab) visit(origin, html string) {
	b.t.Helper()
	b.bodies()
	if err := chromedp.Do(b.ctx, chromedp.Navigate(origin+"/page?html="+url.QueryEscape(html))); err != nil {
		b.t.Fatalf("opening a page of %s: %v", origin, err)
	}
}

// fetched is the result of fetch() in a script.
type fetched struct {
	Failed string      `json:"failed"` // why there is no answer
	Status int         `json:"status"`
	Header [][2]string `json:"header"`
	Body   string      `json:"body"`
}

// fetch has the page call it, and write the answer into the page.
func (b *tab) fetch(url string, init map[string]any) fetched {
	b.t.Helper()
	arguments, err := json.Marshal([]any{url, init})
	if err != nil {
		b.t.Fatal(err)
	}
	return evaluate[fetched](b, `(async (url, init) => {
		let got
		try {
			const r = await fetch(url, init)
			got = {status: r.status, header: [...r.headers], body: await r.text()}
		} catch (e) {
			got = {failed: String(e)}
		}
		document.getElementById("out").textContent += JSON.stringify(got) + "\n" + got.body + "\n"
		return got
	})(...`+string(arguments)+`)`)
}

// evaluate runs a script in the page, and waits for what it promises.
func evaluate[T any](b *tab, script string) T {
	b.t.Helper()
	v, err := chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	if err != nil {
		b.t.Fatal(err)
	}
	return v
}

// follow has the page go elsewhere, and gives the answer's status.
func (b *tab) follow(script string) int {
	b.t.Helper()
	b.bodies()
	response, err := chromedp.RunResponse(b.ctx, chromedp.Evaluate[chromedp.Void](script))
	if err != nil {
		b.t.Fatal(err)
	}
	return int(response.Status)
}

// bodies adds the bodies of answers to what was seen: the browser forgets them with the page.
func (b *tab) bodies() {
	b.t.Helper()
	b.until("the ends of answers, and their headers", func() bool {
		for _, missing := range b.headers {
			if missing > 0 {
				return false
			}
		}
		return len(b.awaited) == 0
	})
	b.mu.Lock()
	finished := b.finished
	b.finished = nil
	b.mu.Unlock()
	for _, id := range finished {
		got, err := chromedp.Call(b.ctx, network.GetResponseBody, network.GetResponseBodyParams{RequestID: id})
		if err != nil {
			b.t.Errorf("the body of an answer, %s: %v", id, err)
			continue
		}
		b.mu.Lock()
		b.seen.Write(got.Body)
		b.seen.WriteString("\n")
		b.mu.Unlock()
	}
}

// everything is all that the browser got: headers and bodies as they came, what scripts can see, and the page.
func (b *tab) everything() string {
	b.t.Helper()
	b.bodies()
	page := evaluate[string](b, `document.documentElement.outerHTML + "\n" + document.getElementById("out").textContent + "\n" + document.cookie +
		"\n" + JSON.stringify(localStorage) + "\n" + JSON.stringify(performance.getEntries())`)
	cookies, err := chromedp.Call(b.ctx, network.GetCookies, network.GetCookiesParams{URLs: []string{b.w.gateway, b.w.app}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range cookies.Cookies {
		page += "\n" + c.Name + "=" + c.Value
	}
	return b.seen.String() + page
}

// requests returns the headers of what went out to the gateway since it was asked last, which is so many requests at
// least.
func (b *tab) requests(least int) []http.Header {
	b.t.Helper()
	b.until("requests to the gateway", func() bool { return len(b.sent) >= least })
	b.mu.Lock()
	defer b.mu.Unlock()
	sent := b.sent
	b.sent = nil
	return sent
}

// navigate opens a URL as a user does who writes it into the browser.
func (b *tab) navigate(url string) error {
	b.t.Helper()
	b.bodies()
	return chromedp.Do(b.ctx, chromedp.Navigate(url))
}
