package embed_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/keywright/keywright/host"
	"github.com/keywright/keywright/internal/testworld"
	"github.com/keywright/keywright/server/content/embed"
)

const (
	one = "https://www.tube.example.com/watch?v=1"
	two = "https://tu.example.net/2"
	pic = "https://pics.example.org/photos/7/by/ann"
)

// done returns the embed of a URL by the providers of newService.
func done(url string) string { return "<div><b>embed of " + url + "</b></div>" }

func link(url string) string { return `<a href="` + url + `">` + url + `</a>` }

// specification.md 6.6: oEmbed URLs that stand alone become the provider's HTML.
func TestEmbeddedURLs(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"a paragraph":                {"<p>" + one + "</p>", done(one)},
		"a link in a paragraph":      {"<p>" + link(one) + "</p>", done(one)},
		"a div":                      {"<div>" + one + "</div>", "<div>" + done(one) + "</div>"},
		"a figure with a caption":    {"<figure>" + one + "<figcaption>x</figcaption></figure>", "<figure>" + done(one) + "<figcaption>x</figcaption></figure>"},
		"a section":                  {"<section><p>" + one + "</p></section>", "<section>" + done(one) + "</section>"},
		"the whole body":             {one, done(one)},
		"a link as the whole body":   {link(one), done(one)},
		"white space around":         {"<p>\n  " + one + " &nbsp;\n</p>", done(one)},
		"breaks around":              {"<p><br>" + one + "<br/><br/></p>", done(one)},
		"a link with breaks around":  {"<p>\n" + link(one) + "\n<br></p>", done(one)},
		"plain text":                 {"See\n" + one + "\nand more", "See\n" + done(one) + "and more"},
		"http":                       {"<p>http://www.tube.example.com/watch?v=1</p>", done("http://www.tube.example.com/watch?v=1")},
		"capitals in the host":       {"<p>HTTPS://WWW.Tube.example.com/watch?v=1</p>", done("HTTPS://WWW.Tube.example.com/watch?v=1")},
		"the usual port":             {"<p>https://tu.example.net:443/2</p>", done("https://tu.example.net:443/2")},
		"a list item beside it":      {"<ul><li>x</li></ul><p>" + one + "</p>", "<ul><li>x</li></ul>" + done(one)},
		"an ampersand in the URL":    {"<p>" + one + "&amp;t=3</p>", done(one + "&amp;t=3")},
		"two with different answers": {"<p>" + one + "</p><p>" + pic + "</p>", done(one) + done(pic)},
		"the same twice":             {"<p>" + one + "</p><p>" + one + "</p>", done(one) + done(one)},
		"escapes that the link has": {
			`<p><a href="https://tu.example.net/%C3%BC">https://tu.example.net/ü</a></p>`, done("https://tu.example.net/ü"),
		},
		"between breaks": {
			`<p id="a" dir="ltr">before<br>` + one + "<br>after</p>", `<p id="a" dir="ltr">before</p>` + done(one) + `<p dir="ltr">after</p>`,
		},
		"lines of one paragraph": {
			"<p>before\n" + one + "\nbetween <i>x</i><br>" + link(two) + "</p>", "<p>before\n</p>" + done(one) + "<p>between <i>x</i></p>" + done(two),
		},
		"several in one paragraph": {"<p>" + one + "<br>" + two + "\n" + pic + "</p>", done(one) + done(two) + done(pic)},
		"an indented link after another": {
			"<p>" + one + "\n  " + link(two) + "\n \t" + link(pic) + "\n after</p>", done(one) + done(two) + done(pic) + "<p> after</p>",
		},
		"one embedded, one not": {
			"<p>https://other.example.com/<br>" + one + "<br>https://other.example.com/</p>",
			"<p>https://other.example.com/</p>" + done(one) + "<p>https://other.example.com/</p>",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newService().resolver(t).Resolve(t.Context(), c.in); got != c.want {
				t.Errorf("%s became\n%s, not\n%s", c.in, got, c.want)
			}
		})
	}
}

func TestOtherURLsStay(t *testing.T) {
	for name, in := range map[string]string{
		"in a sentence":           "<p>see " + one + "</p>",
		"with a stop":             "<p>" + one + " .</p>",
		"two on a line":           "<p>" + one + " " + two + "</p>",
		"another text":            `<p><a href="` + one + `" rel="nofollow noopener">my video</a></p>`,
		"another target":          `<p><a href="` + one + `" rel="nofollow noopener">` + two + `</a></p>`,
		"a link in a sentence":    `<p>see <a href="` + one + `" rel="nofollow noopener">` + one + `</a></p>`,
		"beside emphasised text":  "<p>" + one + " <i>x</i></p>",
		"beside an image":         `<p><img src="https://i.example.com/" alt=""/>` + one + "</p>",
		"emphasised":              "<p><b>" + one + "</b></p>",
		"in preformatted text":    "<pre>" + one + "</pre>",
		"in a block of code":      "<pre><code>x\n" + one + "\n</code></pre>",
		"in code":                 "<p><code>" + one + "</code></p>",
		"in a list":               "<ul><li>" + one + "</li></ul>",
		"in a list, in a block":   "<ul><li><p>" + one + "</p></li></ul>",
		"in a table":              "<table><tbody><tr><td>" + one + "</td></tr></tbody></table>",
		"in a quote":              "<blockquote><p>" + one + "</p></blockquote>",
		"in a heading":            "<h2>" + one + "</h2>",
		"in an attribute":         `<p><img src="https://i.example.com/" alt="` + one + `"/></p>`,
		"no provider's":           "<p>https://example.com/watch?v=1</p>",
		"no path of the provider": "<p>https://www.tube.example.com/about</p>",
		"no host of the provider": "<p>https://tube.example.com/watch?v=1</p>",
		"a host in the path":      "<p>https://evil.example/.tube.example.com/watch</p>",
		"a longer host":           "<p>https://www.tube.example.com.evil.example/watch</p>",
		"a host before the host":  "<p>https://eviltube.example.com/watch</p>",
		"a host in the query":     "<p>https://evil.example?.tube.example.com/watch</p>",
		"a user in the URL":       "<p>https://www.tube.example.com@evil.example/watch</p>",
		"a provider as the user":  "<p>https://evil.example@www.tube.example.com/watch</p>",
		"a backslash":             `<p>https://evil.example\.tube.example.com/watch</p>`,
		"another port":            "<p>https://www.tube.example.com:8443/watch</p>",
		"another scheme":          "<p>ftp://www.tube.example.com/watch</p>",
		"without a scheme":        "<p>//www.tube.example.com/watch</p>",
		"an empty label":          "<p>https://.tube.example.com/watch</p>",
		"very long":               "<p>" + one + strings.Repeat("x", 2048) + "</p>",
	} {
		t.Run(name, func(t *testing.T) {
			w := newService()
			if got := w.resolver(t).Resolve(t.Context(), in); got != in {
				t.Errorf("%s became\n%s", in, got)
			}
			if w.Count() != 0 {
				t.Error("a provider was asked")
			}
		})
	}
}

// The sanitiser does not change the HTML that an editor writes.
func TestEditorMarkup(t *testing.T) {
	for _, in := range []string{
		"", "plain text", "a &amp; b &lt;c&gt;", "<p>one</p>\n<p>two<br/>three</p>",
		"<h1>a</h1><h2>b</h2><h3>c</h3><h4>d</h4><h5>e</h5><h6>f</h6>",
		"<ul><li>a</li><li>b<ol><li>c</li></ol></li></ul>", "<dl><dt>a</dt><dd>b</dd></dl>",
		`<table><caption>t</caption><thead><tr><th scope="col">a</th></tr></thead><tbody><tr><td colspan="2">b</td></tr></tbody></table>`,
		`<p><img src="https://i.example.com/x.png" alt="Is it 100%? &#34;Yes&#34; &amp; more" width="640" height="480"/></p>`,
		`<p><img src="/uploads/x.png" alt="" title="a: b?"/></p>`,
		`<p><a href="https://example.com/a?b=c&amp;d=e#f" rel="nofollow noopener">x</a></p>`,
		`<p><a href="/topics/1" target="_blank" rel="nofollow noopener">x</a> <a href="mailto:a@example.com" rel="nofollow noopener">y</a></p>`,
		`<pre><code class="language-go">if a &lt; b {
}</code></pre>`,
		"<p><code>x</code> <kbd>y</kbd> <b>b</b> <strong>s</strong> <em>e</em> <i>i</i> <u>u</u> <s>s</s> <sub>1</sub><sup>2</sup> <mark>m</mark></p>",
		"<blockquote><p>a</p></blockquote><hr/><figure><figcaption>f</figcaption></figure>",
		"<details><summary>a</summary><p>b</p></details>", `<p dir="rtl" lang="he">שלום</p>`, "<p>🎉 ünïcödé</p>",
	} {
		w := newService()
		if got := w.resolver(t).Resolve(t.Context(), in); got != in {
			t.Errorf("%s became\n%s", in, got)
		}
	}
}

// Malformed HTML loses none of its text.
func TestOddBodies(t *testing.T) {
	for name, in := range map[string]string{
		"a frame that is never ended":   "<frame>TEXT",
		"a form":                        "<form action=/><input value=x><button>TEXT</button>",
		"tags that nobody knows":        "<x-y><foo bar=1>TEXT",
		"end tags without a start":      "</div></p></b>TEXT</table>",
		"nested deeper than a parser":   strings.Repeat("<div>", 5000) + "TEXT",
		"elements without end":          strings.Repeat("<b><p>", 200) + "TEXT",
		"a table that holds paragraphs": "<table><p>TEXT<tr><a href=/><td><a href=/>",
		"bytes that are no UTF-8":       "\xff\xfe TEXT \x00\x01",
		"an open comment before":        "TEXT<!-- ",
		"a plaintext element":           "<plaintext>TEXT",
		"a textarea":                    "<textarea>TEXT",
	} {
		t.Run(name, func(t *testing.T) {
			if got := newService().resolver(t).Resolve(t.Context(), in); !strings.Contains(got, "TEXT") {
				t.Errorf("%.200q became %.200q", in, got)
			}
		})
	}
}

func TestAtMostTwentyEmbeds(t *testing.T) {
	var in strings.Builder
	for range 15 {
		in.WriteString("<p>" + one + "</p><p>" + two + "</p>")
	}
	w := newService()
	got := w.resolver(t).Resolve(t.Context(), in.String())
	if embeds := strings.Count(got, "embed of"); embeds != 20 || w.Count() != 2 {
		t.Errorf("%d embeds, for which %d requests were sent; want 20 and 2", embeds, w.Count())
	}
	if urls := strings.Count(got, "<p>https://"); urls != 10 {
		t.Errorf("%d URLs stayed, not 10", urls)
	}
}

func TestInvalidConfiguration(t *testing.T) {
	for name, c := range map[string]embed.Config{
		"no transport": {}, "no list": {Transport: newService(), Providers: []byte("{}")}, "no JSON": {Transport: newService(), Providers: []byte("<")},
	} {
		if _, err := embed.New(c); err == nil || !strings.HasPrefix(err.Error(), "embed: ") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}

// providerList is a list of two providers. The first has two schemes.
const providerList = `[
 {"provider_name": "Tube", "provider_url": "https://www.tube.example.com/", "endpoints": [
  {"url": "https://www.tube.example.com/oembed", "schemes": ["https://*.tube.example.com/watch*", "https://tu.example.net/*"], "discovery": true}]},
 {"provider_name": "Pics", "provider_url": "https://pics.example.org/", "endpoints": [
  {"url": "http://pics.example.org/api/oembed.{format}?key=1", "schemes": ["http://pics.example.org/photos/*/by/*"]}]}]`

// service plays all providers, and has the clock.
type service struct {
	*testworld.Server
	*testworld.Clock
}

func newService() *service {
	return &service{
		testworld.NewServer(func(r *http.Request) (*http.Response, error) {
			return reply(200, "application/json", rich("<b>embed of "+r.URL.Query().Get("url")+"</b>")), nil
		}),
		testworld.NewClock(time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)),
	}
}

func (w *service) resolver(t testing.TB) *embed.Resolver {
	t.Helper()
	return testworld.Must(embed.New(embed.Config{Transport: w, Clock: w.Now, Providers: []byte(providerList)}))(t)
}

// says sets the document that each provider answers with.
func (w *service) says(document string) {
	w.Answer(testworld.Respond(http.StatusOK, document, "Content-Type", "application/json"))
}

func reply(status int, media, body string) *http.Response {
	return testworld.Response(status, body, "Content-Type", media)
}

// rich returns an answer of type rich with this HTML.
func rich(html string) string {
	document, _ := json.Marshal(map[string]string{"version": "1.0", "type": "rich", "html": html})
	return string(document)
}

// The log contains no URL of a document, even if a provider repeats it in a redirect.
func TestLogHasNoURLOfARedirect(t *testing.T) {
	w := newService()
	w.Answer(func(r *http.Request) (*http.Response, error) {
		response := reply(http.StatusFound, "text/plain", "")
		response.Header.Set("Location", r.URL.Query().Get("url")+"%zz")
		return response, nil
	})
	var log bytes.Buffer
	r := testworld.Must(embed.New(embed.Config{Transport: w, Logger: slog.New(slog.NewJSONHandler(&log, nil)), Providers: []byte(providerList)}))(t)
	r.Resolve(t.Context(), "<p>https://tu.example.net/private</p>")
	if got := log.String(); strings.Contains(got, "private") || !strings.Contains(got, "redirects") {
		t.Errorf("the log has %s", got)
	}
}

// open returns n different formatting elements that are not closed.
func open(n int) string {
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(&all, "<b title=%d>", i)
	}
	return all.String()
}

// threats.md 49: a document is reduced to its text if sanitising it takes too much time or memory for its size.
func TestHostileDocuments(t *testing.T) {
	roots := strings.Builder{}
	for i := range 60_000 {
		fmt.Fprintf(&roots, "<html a%d=1>", i)
	}
	for name, document := range map[string]string{
		"all attributes become those of one element": roots.String() + "<p>the text</p>",
		"elements come again in each paragraph":      "<p>" + open(400) + "</p>" + strings.Repeat("<p>the text", 20_000),
		"few elements come again in many paragraphs": "<p>" + open(50) + "</p>" + strings.Repeat("<p>the text", 2000),
		"too large": "<p>the text</p>" + strings.Repeat(" ", 1<<20),
	} {
		r := newService().resolver(t)
		for _, try := range []string{"first", "second"} {
			got := r.Resolve(t.Context(), document)
			if len(got) > len(document) || !strings.Contains(got, "the text") || strings.Contains(got, "<") {
				t.Errorf("%s, the %s time: of %d bytes of HTML came %d, not their text: %.100q", name, try, len(document), len(got), got)
			}
		}
	}
}

// A caller that goes away does not mark the document as failed for other callers.
func TestDocumentOfACallerWhoWentAway(t *testing.T) {
	r := newService().resolver(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = r.Resolve(ctx, "<p>some <b>text</b></p>")
	if got := r.Resolve(t.Context(), "<p>some <b>text</b></p>"); got != "<p>some <b>text</b></p>" {
		t.Errorf("it became %s", got)
	}
}

// threats.md 51: a provider with an internal endpoint, by address or by name, is not asked. The URL stays.
func TestPrivateEndpoints(t *testing.T) {
	transport := testworld.Must(host.Egress{}.Transport())(t)
	defer transport.CloseIdleConnections()
	listener := testworld.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	var dialled atomic.Int64
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			dialled.Add(1)
			_ = connection.Close()
		}
	}()
	port := netip.MustParseAddrPort(listener.Addr().String()).Port()
	for _, inside := range []string{"127.0.0.1", "localhost", "169.254.169.254", "[::1]", "[::ffff:127.0.0.1]", "10.0.0.1", "0.0.0.0"} {
		t.Run(inside, func(t *testing.T) {
			var log bytes.Buffer
			list := fmt.Sprintf(`[{"provider_name":"Inside","endpoints":[{"url":"https://%s:%d/oembed","schemes":["https://tu.example.net/*"]}]}]`, inside, port)
			r := testworld.Must(embed.New(embed.Config{Transport: transport, Providers: []byte(list), Logger: slog.New(slog.NewTextHandler(&log, nil))}))(t)
			in := "<p>before</p><p>https://tu.example.net/secret-title</p><p>after</p>"
			if got := r.Resolve(t.Context(), in); got != in {
				t.Errorf("it became %s", got)
			}
			if !strings.Contains(log.String(), "address; it is dialled only if the operator allows it (egress.allow)") || !strings.Contains(log.String(), "provider=Inside") {
				t.Errorf("the log does not say why: %s", log.String())
			}
			if strings.Contains(log.String(), "secret-title") {
				t.Errorf("the log has what is in the document: %s", log.String())
			}
		})
	}
	if dialled.Load() != 0 {
		t.Errorf("%d connections were made", dialled.Load())
	}
}
