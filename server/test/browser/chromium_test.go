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

	"github.com/keywright/keywright/internal/testworld"
)

// limit is the time limit of a browser in one test, so that a page that hangs is an error with its place.
const limit = 2 * time.Minute

// A tab is a tab of a separate chromium. It records all that the browser receives.
type tab struct {
	t   *testing.T
	w   *deployment
	ctx context.Context

	news chan struct{} // receives when there is an event

	mu       sync.Mutex
	seen     strings.Builder // headers, bodies and network events
	awaited  map[network.RequestID]bool
	headers  map[network.RequestID]int // the number still to come; negative if they came before their announcement
	finished []network.RequestID       // requests whose bodies are not in seen yet
	sent     []http.Header             // headers of requests to the gateway
}

func open(w *deployment) *tab {
	w.t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		// Only the loopback can be reached.
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE localhost, EXCLUDE *.localhost, EXCLUDE 127.0.0.1"),
		chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.ModifyCmdFunc(func(c *exec.Cmd) {
			c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // chromium ends with the test
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

// allowCookies configures the browser to send cookies in requests from other sites, like many browsers. Otherwise the browser
// would hide what the gateway does. There is no flag for this: it is a user's setting, in the directory of the user's data.
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

// event records an event, and events of the network as a whole.
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
		// The response to a preflight has no body. The browser requests an icon by itself, and drops it with its page at any time.
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
	encoder.SetEscapeHTML(false) // escapes could hide a credential
	testworld.Check(b.t, encoder.Encode(ev))
	select {
	case b.news <- struct{}{}:
	default: // an event is pending already
	}
}

// until waits for events until is returns true.
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

// signIn sets a session in a cookie that the browser sends with requests from any site, because SameSite is not tested.
func (b *tab) signIn(email string) {
	b.t.Helper()
	yes := true
	testworld.Must(chromedp.Call(b.ctx, network.SetCookie, network.SetCookieParams{
		Name: "session", Value: b.w.session(email), URL: b.w.gateway, HTTPOnly: &yes, Secure: &yes, SameSite: network.CookieSameSiteNone,
	}))(b.t)
}

// visit opens a page of an origin that contains html.
func (b *tab) visit(origin, html string) {
	b.t.Helper()
	b.bodies()
	if err := chromedp.Do(b.ctx, chromedp.Navigate(origin+"/page?html="+url.QueryEscape(html))); err != nil {
		b.t.Fatalf("opening a page of %s: %v", origin, err)
	}
}

// fetched is the result of fetch() in a script.
type fetched struct {
	Failed string      `json:"failed"` // why there is no response
	Status int         `json:"status"`
	Header [][2]string `json:"header"`
	Body   string      `json:"body"`
}

// fetch calls fetch() in the page, which also writes the response into the page.
func (b *tab) fetch(url string, init map[string]any) fetched {
	b.t.Helper()
	arguments := testworld.Must(json.Marshal([]any{url, init}))(b.t)
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

// evaluate runs a script in the page, and returns the value of its promise.
func evaluate[T any](b *tab, script string) T {
	b.t.Helper()
	return testworld.Must(chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise)))(b.t)
}

// follow runs a script that navigates the page, and returns the status of the response.
func (b *tab) follow(script string) int {
	b.t.Helper()
	b.bodies()
	response := testworld.Must(chromedp.RunResponse(b.ctx, chromedp.Evaluate[chromedp.Void](script)))(b.t)
	return int(response.Status)
}

// bodies adds the bodies of responses to b.seen, before the browser drops them with the page.
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

// everything returns all that the browser received: raw headers and bodies, what scripts can read, and the page.
func (b *tab) everything() string {
	b.t.Helper()
	b.bodies()
	page := evaluate[string](b, `document.documentElement.outerHTML + "\n" + document.getElementById("out").textContent + "\n" + document.cookie +
		"\n" + JSON.stringify(localStorage) + "\n" + JSON.stringify(performance.getEntries())`)
	cookies := testworld.Must(chromedp.Call(b.ctx, network.GetCookies, network.GetCookiesParams{URLs: []string{b.w.gateway, b.w.app}}))(b.t)
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range cookies.Cookies {
		page += "\n" + c.Name + "=" + c.Value
	}
	return b.seen.String() + page
}

// requests waits until the gateway has had the least number of requests since the last call, and returns their headers.
func (b *tab) requests(least int) []http.Header {
	b.t.Helper()
	b.until("requests to the gateway", func() bool { return len(b.sent) >= least })
	b.mu.Lock()
	defer b.mu.Unlock()
	sent := b.sent
	b.sent = nil
	return sent
}

// navigate opens a URL as if a user entered it.
func (b *tab) navigate(url string) error {
	b.t.Helper()
	b.bodies()
	return chromedp.Do(b.ctx, chromedp.Navigate(url))
}
